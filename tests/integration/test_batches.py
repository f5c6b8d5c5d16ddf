"""What a worker takes, in which measure, and what it hands back unstarted (invariants 6 and 7)."""

import threading
from typing import Any

import pytest

from dilamme.domain.outcome import Return
from dilamme.store.connection import Connection
from tests.integration.workshop import Workshop
from tests.support.invocations import Invocations
from tests.support.jobs import ECHO, put, put_many, row, rows, tally
from tests.support.rivals import meanwhile
from tests.support.waiting import wait_until


@pytest.mark.case("C14")
def test_short_jobs_claimed_together_with_a_long_one_do_not_wait_for_it(
    connection: Connection, workshop: Workshop, invocations: Invocations
) -> None:
    """C14: a worker of one handler that takes the type for quick. Timed, because the row is: none of the 50 waits over
    1.5 s between its claim and its start or hand-back, and here a tenth of a second is what the worker is told to allow.
    """
    workshop.adjust(worker_concurrency=1, batch_wait_seconds=0.1)
    workshop.timed("test.long", 0.0001)
    finish = threading.Event()

    @workshop.registry.job("test.long")
    def run_long(payload: Any, context: Any) -> None:
        finish.wait(30)

    long = put(connection, type="test.long")
    short = put_many(connection, [{}] * 50)
    with meanwhile(workshop.work) as working:
        wait_until(lambda: len(_waits_until_returned(workshop)) == 50, "the short ones are handed back")
        wait_until(lambda: invocations, "somebody is called for them")
        assert {stored["status"] for stored in rows(connection, short)} == {"pending"}
        assert all(stored["attempt"] == 0 and stored["started_at"] is None for stored in rows(connection, short))
        assert row(connection, long)["status"] == "running"
        finish.set()
        working.result(20)
    assert max(_waits_until_returned(workshop)) <= 1.5
    assert tally(connection) == {"completed": 51}


def _waits_until_returned(workshop: Workshop) -> list[float]:
    """Seconds."""
    return [
        (heard_at - claimed.started_at).total_seconds()
        for heard_at, claimed, outcome in list(workshop.observed)
        if isinstance(outcome, Return)
    ]


def test_a_worker_that_knows_nothing_yet_takes_no_more_than_it_can_start(
    connection: Connection, workshop: Workshop
) -> None:
    """Invariant 7: a type not yet timed counts as slow."""
    put_many(connection, [{"type": "test.long"}] * 50)
    finish = threading.Event()

    @workshop.registry.job("test.long")
    def run_long(payload: Any, context: Any) -> None:
        finish.wait(30)

    with meanwhile(workshop.work) as working:
        wait_until(lambda: tally(connection).get("running") == 4, "four are running")
        assert tally(connection) == {"running": 4, "pending": 46}
        finish.set()
        working.result(20)


@pytest.mark.case("S6")
def test_what_does_not_fit_into_the_remaining_time_is_returned_with_its_attempt(
    connection: Connection, workshop: Workshop, invocations: Invocations
) -> None:
    """S6, in less time: 1.6 s for handlers, ten claimed jobs of half a second, one at a time.

    What fits runs, the rest is handed back and a fresh worker is asked for.
    """
    workshop.adjust(worker_concurrency=1, worker_reserve_seconds=0.3, job_timeout_seconds=1)
    workshop.registry.job("test.nap")(lambda payload, context: threading.Event().wait(0.5) and None)
    workshop.timed("test.nap", 0.5)
    workshop.timed(ECHO, 0.001)  # the latest jobs were quick, so that it claims all ten
    ids = put_many(connection, [{"type": "test.nap"}] * 10)
    workshop.work(seconds=1.9)
    stored = rows(connection, ids)
    run = [one for one in stored if one["status"] == "completed"]
    rest = [one for one in stored if one not in run]
    assert 1 <= len(run) <= 3
    assert {(one["status"], one["attempt"]) for one in rest} == {("pending", 0)}
    assert all(one["errors"] == [] for one in stored)
    assert {function for function, _ in invocations} == {"worker"}


def test_a_job_too_long_for_the_remaining_time_stops_the_worker_and_is_not_skipped(
    connection: Connection, workshop: Workshop, invocations: Invocations
) -> None:
    """Invariant 7: the quick jobs behind it wait for the fresh worker too, in their order."""
    workshop.adjust(worker_concurrency=1, job_timeout_seconds=100)
    first = put(connection)
    long = put(connection, type="test.long")
    behind = put_many(connection, [{}] * 3)
    workshop.registry.job("test.long", timeout_seconds=100)(lambda payload, context: None)
    workshop.timed(ECHO, 0.001)
    workshop.work(seconds=50)
    assert row(connection, first)["status"] == "completed"
    assert {one["status"] for one in rows(connection, [long, *behind])} == {"pending"}
    assert {function for function, _ in invocations} == {"worker"}


def test_a_worker_that_leaves_calls_another_before_its_last_jobs_have_ended(
    connection: Connection, workshop: Workshop, invocations: Invocations
) -> None:
    """Invariant 11, where nobody leads: what it handed back is due now, and its own jobs may take long yet."""
    workshop.adjust(worker_concurrency=2)
    running, finish = threading.Event(), threading.Event()

    @workshop.registry.job("test.long", timeout_seconds=40)
    def run_long(payload: Any, context: Any) -> None:
        running.set()
        finish.wait(30)

    workshop.registry.job("test.longer", timeout_seconds=100)(lambda payload, context: None)
    put(connection, type="test.long")
    with meanwhile(lambda: workshop.work(seconds=50)) as working:
        assert running.wait(20)
        longer = put(connection, type="test.longer")
        wait_until(lambda: invocations, "somebody is called for what does not fit")
        assert (row(connection, longer)["status"], row(connection, longer)["attempt"]) == ("pending", 0)
        finish.set()
        working.result(20)


def test_a_worker_that_must_end_its_process_calls_another_before_its_last_jobs_have_ended(
    connection: Connection, workshop: Workshop, invocations: Invocations
) -> None:
    """Invariant 11: one handler is past its time, another may still use its own; the third job waits for neither."""
    workshop.adjust(worker_concurrency=2)
    finish = threading.Event()
    workshop.registry.job("test.hang", timeout_seconds=0.3)(lambda payload, context: workshop.ended.wait(30) and None)
    workshop.registry.job("test.long")(lambda payload, context: finish.wait(30) and None)
    put(connection, type="test.hang")
    put(connection, type="test.long")
    waiting = put(connection)
    with meanwhile(workshop.work) as working:
        wait_until(lambda: invocations, "somebody is called")
        assert workshop.exit_codes == []
        assert row(connection, waiting)["status"] == "pending"
        finish.set()
        working.result(20)
    assert workshop.exit_codes == [1]


def test_a_fresh_workers_first_job_always_starts(connection: Connection, workshop: Workshop) -> None:
    """A timeout as long as the worker's whole life fits nowhere else."""
    long = put(connection, type="test.long")
    workshop.registry.job("test.long", timeout_seconds=295)(lambda payload, context: None)
    workshop.work(seconds=299)
    assert row(connection, long)["status"] == "completed"


def test_a_worker_with_a_job_on_its_last_attempt_runs_nothing_beside_it(
    connection: Connection, workshop: Workshop
) -> None:
    """Invariant 6, in the loop: claims stop before it, and go on after it."""
    beside: list[int] = []
    running = 0
    lock = threading.Lock()

    def count(payload: Any, context: Any) -> None:
        nonlocal running
        with lock:
            running += 1
        threading.Event().wait(0.02)
        if payload == "last":
            beside.append(running - 1)
        with lock:
            running -= 1

    workshop.registry.job("test.count")(count)
    workshop.timed("test.count", 0.001)
    for _ in range(2):
        put_many(connection, [{"type": "test.count"}] * 6)
        put(connection, type="test.count", payload="last", max_attempts=1)
    put_many(connection, [{"type": "test.count"}] * 6)
    workshop.work()
    assert beside == [0, 0]
    assert tally(connection) == {"completed": 20}
