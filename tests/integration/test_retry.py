"""Failures, backoff, dead letters, replays (CASES.md, *Retry and dead letters*), with the clock moved by hand."""

import random
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from dilamme import Fail, Retry, Snooze
from dilamme.domain.errors import Conflict, NotFound
from dilamme.store.connection import Connection
from dilamme.testing.clock import START, Clock
from dilamme.usecases.replay import replay_dead, replay_job
from tests.integration.scheduler import Scheduler
from tests.integration.workshop import Workshop
from tests.support.invocations import Letters
from tests.support.jobs import ANY_WORKER, bury, claim, claim_one, complete, put, put_many, row, rows, tally


def _raise(kind: type[BaseException], *arguments: Any, **named: Any) -> Callable[[Any, Any], None]:
    def handler(payload: Any, context: Any) -> None:
        raise kind(*arguments, **named)

    return handler


@pytest.mark.case("R1")
def test_a_thousand_jobs_that_fail_together_come_back_spread_over_half_their_backoff(
    connection: Connection, clock: Clock, workshop: Workshop
) -> None:
    """R1: none before 5 s of the 10, and no tenth of the random half holds more than 15 %."""
    random.seed(1)
    workshop.registry.job("test.fail")(_raise(RuntimeError, "as asked for"))
    workshop.timed("test.fail", 0.0001)
    ids = put_many(connection, [{"type": "test.fail"}] * 1000)
    workshop.work()
    waits = [(stored["ready_at"] - START) / timedelta(seconds=1) for stored in rows(connection, ids)]
    assert len(waits) == 1000
    assert min(waits) >= 5
    tenths = Counter(int((wait - 5) / 0.5) for wait in waits)
    assert set(tenths) == set(range(10))
    assert max(tenths.values()) <= 150


@pytest.mark.case("R2")
def test_a_handler_that_always_asks_for_a_retry_is_dead_after_three(
    connection: Connection, clock: Clock, workshop: Workshop
) -> None:
    """R2: each a second later, as it asked."""
    workshop.registry.job("test.again")(_raise(Retry, "not yet", after=1))
    job_id = put(connection, type="test.again")
    for attempt in (1, 2):
        workshop.work()
        stored = row(connection, job_id)
        assert (stored["status"], stored["attempt"]) == ("pending", attempt)
        assert stored["ready_at"] == clock.now + timedelta(seconds=1)
        clock.advance(1)
    workshop.work()
    stored = row(connection, job_id)
    assert (stored["status"], stored["attempt"]) == ("dead", 3)
    assert [(error["reason"], error["attempt"]) for error in stored["errors"]] == [("retry", n) for n in (1, 2, 3)]


class Hopeless(Retry):
    """Names a time that nobody can wait for."""

    def __init__(self) -> None:
        self.after_seconds = "soon"  # type: ignore[assignment]


class Unreadable(Snooze):
    """Fails whoever looks at it."""

    def __init__(self) -> None:
        pass

    @property
    def seconds(self) -> float:  # type: ignore[override]
        raise RuntimeError("not to be read")


@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Hopeless, "Hopeless: Retry takes its seconds as a number, not 'soon'"),
        (Unreadable, "RuntimeError: not to be read"),
    ],
)
def test_an_exception_that_cannot_be_looked_at_fails_its_attempt_and_no_other(
    connection: Connection, clock: Clock, workshop: Workshop, concurrency: int, kind: type[Exception], message: str
) -> None:
    """The thread that ran it lives on: the job ends there and then, and those after it run."""
    workshop.adjust(worker_concurrency=concurrency)
    workshop.registry.job("test.fail")(_raise(kind))
    ids = put_many(connection, [{"type": "test.fail"}] * 5)
    after = put(connection, priority=3)
    workshop.work()
    for stored in rows(connection, ids):
        assert (stored["status"], stored["attempt"], stored["errors"][-1]["reason"]) == ("pending", 1, "error")
        assert stored["errors"][-1]["message"].startswith(message)
        assert timedelta(seconds=5) <= stored["ready_at"] - clock.now <= timedelta(seconds=10)
    assert row(connection, after)["status"] == "completed"
    assert workshop.exit_codes == []


@pytest.mark.parametrize(
    ("job", "type_", "setting", "attempts"),
    [({}, {}, 3, 3), ({}, {}, 2, 2), ({}, {"max_attempts": 4}, 2, 4), ({"max_attempts": 1}, {"max_attempts": 4}, 2, 1)],
)
def test_a_jobs_own_number_of_attempts_beats_its_types_which_beats_the_setting(
    connection: Connection, clock: Clock, workshop: Workshop, job: Any, type_: Any, setting: int, attempts: int
) -> None:
    workshop.adjust(max_attempts=setting)
    workshop.registry.job("test.fail", **type_)(_raise(RuntimeError, "as asked for"))
    job_id = put(connection, type="test.fail", **job)
    for _ in range(attempts):
        assert row(connection, job_id)["status"] == "pending"
        workshop.work()
        clock.advance(3600)
    assert (row(connection, job_id)["status"], row(connection, job_id)["attempt"]) == ("dead", attempts)


def test_a_handler_that_gives_up_is_dead_at_once_and_announced(
    connection: Connection, clock: Clock, workshop: Workshop, scheduler: Scheduler, letters: Letters
) -> None:
    workshop.registry.job("test.hopeless")(_raise(Fail, "no such customer"))
    job_id = put(connection, type="test.hopeless")
    workshop.work()
    assert row(connection, job_id)["status"] == "dead"
    letters.failing = 1
    scheduler.tick()
    assert list(letters) == []
    clock.advance(60)
    scheduler.tick()
    error = {"reason": "fail", "message": "no such customer"}
    assert list(letters) == [
        {"jobId": str(job_id), "type": "test.hopeless", "attempts": 1, "error": error, "seriesId": None}
    ]
    clock.advance(60)
    scheduler.tick()
    assert len(letters) == 1


def test_a_snooze_costs_no_attempt_however_often(connection: Connection, clock: Clock, workshop: Workshop) -> None:
    workshop.registry.job("test.later")(_raise(Snooze, 60))
    job_id = put(connection, type="test.later")
    for _ in range(5):
        workshop.work()
        stored = row(connection, job_id)
        assert (stored["status"], stored["attempt"], stored["errors"]) == ("pending", 0, [])
        assert stored["ready_at"] == clock.now + timedelta(seconds=60)
        clock.advance(60)


def test_a_result_that_cannot_be_stored_is_a_failure_that_says_so(
    connection: Connection, clock: Clock, workshop: Workshop
) -> None:
    """And its neighbours' results are stored."""
    results = {"nan": float("nan"), "object": object(), "large": "x" * 300_000, "nul": "\0", "surrogate": "\ud800"}
    workshop.registry.job("test.result")(lambda payload, context: results[payload])
    workshop.timed("test.result", 0.001)
    refused = [put(connection, type="test.result", payload=name) for name in results]
    fine = put(connection, payload="fine")
    workshop.work()
    assert [stored["errors"][-1]["reason"] for stored in rows(connection, refused)] == ["result"] * len(results)
    assert row(connection, fine)["result"] == "fine"


def test_an_error_text_that_postgresql_cannot_hold_is_made_fit(
    connection: Connection, clock: Clock, workshop: Workshop
) -> None:
    workshop.registry.job("test.fail")(_raise(RuntimeError, "nul \0 surrogate \ud800 long " + "x" * 10_000))
    job_id = put(connection, type="test.fail")
    workshop.work()
    message = row(connection, job_id)["errors"][-1]["message"]
    assert message.startswith("RuntimeError: nul \N{REPLACEMENT CHARACTER} surrogate ? long xxx")
    assert len(message) == 4000


@pytest.mark.case("B5")
def test_a_job_of_a_type_that_nobody_knows_waits_loses_no_attempt_and_is_dead_after_the_grace(
    connection: Connection, clock: Clock, workshop: Workshop
) -> None:
    """B5, with a grace of 5 min: others in its batch are unaffected."""
    workshop.adjust(unknown_type_grace_seconds=300)
    unknown, known = put(connection, type="test.unknown"), put(connection)
    workshop.work()
    assert row(connection, known)["status"] == "completed"
    while (stored := row(connection, unknown))["status"] == "pending":
        assert (stored["attempt"], stored["errors"]) == (0, [])
        assert stored["ready_at"] >= clock.now + timedelta(seconds=30)
        clock.set(stored["ready_at"])
        workshop.work()
    assert (stored["status"], stored["errors"][-1]["reason"]) == ("dead", "unknown_type")
    assert 300 <= clock.seconds <= 400


@pytest.mark.case("R3")
def test_a_replay_of_a_dead_job_happens_once(connection: Connection, clock: Clock) -> None:
    """R3: one live job; the second call says so."""
    job_id = put(connection)
    bury(connection, claim_one(connection))
    assert replay_job(connection, job_id)
    assert not replay_job(connection, job_id)
    assert tally(connection) == {"pending": 1}
    stored = row(connection, job_id)
    assert (stored["attempt"], len(stored["errors"])) == (0, 1)
    again = claim_one(connection)
    assert not replay_job(connection, job_id)
    bury(connection, again)
    assert replay_job(connection, job_id)


def test_only_what_is_dead_can_be_replayed(connection: Connection, clock: Clock) -> None:
    pending = put(connection)
    with pytest.raises(Conflict, match="is pending"):
        replay_job(connection, pending)
    complete(connection, claim_one(connection))
    with pytest.raises(Conflict, match="is completed"):
        replay_job(connection, pending)
    with pytest.raises(NotFound):
        replay_job(connection, ANY_WORKER)


def test_dead_letters_are_replayed_by_type_the_oldest_first_in_bounded_calls(
    connection: Connection, clock: Clock
) -> None:
    wanted = []
    for number in range(6):
        wanted.append(put(connection, type="test.wanted" if number % 2 else "test.other"))
        bury(connection, claim_one(connection))
        clock.advance(1)
    assert replay_dead(connection, "test.wanted", 2) == [wanted[1], wanted[3]]
    assert replay_dead(connection, "test.wanted", 2) == [wanted[5]]
    assert replay_dead(connection, "test.wanted", 2) == []
    assert len(replay_dead(connection, None)) == 3
    assert len(claim(connection)) == 6
