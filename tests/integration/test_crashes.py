"""Workers that end without a word (CASES.md, *Crashes and doubles*): what the platform's report and the lease bring back."""

from datetime import timedelta
from uuid import UUID

import psycopg
import pytest

import dilamme
from dilamme.handlers.registry import JobType
from dilamme.settings import Settings
from dilamme.store.connection import Connection
from dilamme.store.job_types import upsert_types
from dilamme.store.lease import upcoming
from dilamme.store.slots import count_slots, start
from dilamme.testing.clock import Clock
from dilamme.usecases import wake
from dilamme.usecases.rescue import expire, rescue_leader, rescue_worker
from tests.integration.scheduler import Scheduler
from tests.support.entrance import Enter
from tests.support.invocations import Invocations, Letters
from tests.support.jobs import ECHO, claim, claim_one, complete, put, put_many, retry, row, rows, tally

LEASE_SECONDS = 310.0


def _start_worker(connection: Connection, settings: Settings, invocations: Invocations) -> UUID:
    """A worker's token, in a slot that it has started in."""
    assert wake.wake_worker(connection, settings)
    (event,) = invocations.take_workers()
    assert start(connection, event.slot, event.token, LEASE_SECONDS)
    return event.token


@pytest.mark.case("C1")
def test_a_lost_workers_job_runs_again_on_the_platforms_report(
    connection: Connection, clock: Clock, enter: Enter, settings: Settings, invocations: Invocations
) -> None:
    """C1: the report frees slot and job and calls a worker for it, without waiting for a tick."""
    job_id = put(connection)
    token = _start_worker(connection, settings, invocations)
    claim_one(connection, worker=token)
    rescue_worker(enter("rescue"), settings, token)
    assert len(invocations.take_workers()) == 1
    again = claim_one(connection)
    assert (again.id, again.attempt) == (job_id, 2)
    assert [error["reason"] for error in row(connection, job_id)["errors"]] == ["worker_lost"]


@pytest.mark.case("H8")
@pytest.mark.parametrize(
    ("own", "seconds", "reason"),
    [
        (None, 59.9, "worker_lost"),
        (None, 60, "timeout"),
        (5, 4.9, "worker_lost"),
        (5, 5, "timeout"),
        (90, 60, "worker_lost"),
    ],
)
def test_a_lost_workers_job_whose_time_was_over_has_timed_out(
    connection: Connection,
    clock: Clock,
    enter: Enter,
    settings: Settings,
    invocations: Invocations,
    own: float | None,
    seconds: float,
    reason: str,
) -> None:
    """H8: its handler held the interpreter, so that nobody in its process could record it; its type's own timeout counts."""
    upsert_types(connection, [JobType(ECHO, print, timeout_seconds=own)])
    job_id = put(connection)
    token = _start_worker(connection, settings, invocations)
    claim_one(connection, worker=token)
    clock.advance(seconds)
    rescue_worker(enter("rescue"), settings, token)
    stored = row(connection, job_id)
    assert [error["reason"] for error in stored["errors"]] == [reason]
    assert (stored["ready_at"] > clock.now) == (reason == "timeout")


@pytest.mark.case("H8")
def test_a_lease_that_ran_out_says_nothing_of_a_timeout(
    connection: Connection, clock: Clock, scheduler: Scheduler
) -> None:
    """It is longer than any timeout, and nobody knows when the worker was lost."""
    job_id = put(connection)
    claim_one(connection, lease_seconds=LEASE_SECONDS)
    clock.advance(LEASE_SECONDS)
    scheduler.tick()
    assert row(connection, job_id)["errors"][-1]["reason"] == "worker_lost"


def test_a_report_that_comes_twice_or_late_takes_nothing_from_others(
    connection: Connection, clock: Clock, enter: Enter, settings: Settings, invocations: Invocations
) -> None:
    """C1: only what the lost worker's token still owns."""
    put(connection)
    lost = _start_worker(connection, settings, invocations)
    claim_one(connection, worker=lost)
    rescue_worker(enter("rescue"), settings, lost)
    (event,) = invocations.take_workers()
    assert start(connection, event.slot, event.token, LEASE_SECONDS)
    again = claim_one(connection, worker=event.token)
    assert not rescue_worker(enter("rescue"), settings, lost).done
    assert row(connection, again.id)["token"] == again.token
    assert count_slots(connection, settings.worker_slots).started == 1


def test_a_worker_that_was_given_up_cannot_settle_what_runs_again(
    connection: Connection, clock: Clock, enter: Enter, settings: Settings
) -> None:
    """Invariant 2: the job has another attempt and another token; the old result is dropped, the new one counts."""
    job_id = put(connection)
    first = claim_one(connection, worker=UUID(int=7))
    rescue_worker(enter("rescue"), settings, UUID(int=7))
    assert not complete(connection, first).done
    second = claim_one(connection)
    assert not complete(connection, first).done
    assert complete(connection, second).done == {job_id}
    assert not complete(connection, second).done


def test_each_part_of_the_fence_alone_keeps_a_stranger_out(connection: Connection, clock: Clock) -> None:
    """Invariant 2: id, attempt and token must all match."""
    put(connection, max_attempts=25)
    mine = claim_one(connection)
    for change in ({"attempt": 2}, {"token": UUID(int=9)}, {"id": UUID(int=9)}):
        stranger = mine._replace(**change)
        assert not complete(connection, stranger).done
        assert not retry(connection, stranger, delay_seconds=0).done
    assert complete(connection, mine).done


@pytest.mark.case("C2")
def test_without_a_report_the_job_is_handed_out_again_within_the_lease_and_a_tick(
    connection: Connection, clock: Clock, scheduler: Scheduler, invocations: Invocations
) -> None:
    """C2: the first tick after the lease has run out frees the job and calls a worker for it."""
    job_id = put(connection)
    claim_one(connection, lease_seconds=LEASE_SECONDS)
    clock.advance(LEASE_SECONDS - 0.001)
    scheduler.tick()
    assert (row(connection, job_id)["status"], list(invocations)) == ("running", [])
    clock.advance(1)
    scheduler.tick()
    assert len(invocations.take_workers()) == 1
    assert claim_one(connection).attempt == 2


@pytest.mark.case("C2")
def test_a_scheduler_with_nothing_to_do_stays_if_a_lease_may_run_out_before_the_next_trigger(
    connection: Connection, clock: Clock
) -> None:
    """C2 where an idle scheduler stops: nobody else would look in time."""
    put(connection)
    claim_one(connection, lease_seconds=LEASE_SECONDS)
    clock.advance(LEASE_SECONDS - 61)
    assert not upcoming(connection, 60)
    clock.advance(2)
    assert upcoming(connection, 60)


@pytest.mark.case("C8")
def test_a_job_that_runs_as_long_as_its_worker_may_is_started_once(
    connection: Connection, clock: Clock, scheduler: Scheduler, invocations: Invocations
) -> None:
    """C8: 290 s of work in a function of 300 s; no tick finds anything to free."""
    job_id = put(connection)
    mine = claim_one(connection, lease_seconds=LEASE_SECONDS)
    for _ in range(29):
        clock.advance(10)
        scheduler.tick()
    assert complete(connection, mine).done == {job_id}
    assert (row(connection, job_id)["attempt"], list(invocations)) == (1, [])


@pytest.mark.case("C3")
def test_a_job_that_kills_its_worker_is_buried_after_its_last_attempt(
    connection: Connection, clock: Clock, enter: Enter, settings: Settings, letters: Letters, scheduler: Scheduler
) -> None:
    """C3: three starts, then dead as worker_lost and announced; never a fourth."""
    job_id = put(connection, type="test.crash")
    for attempt in (1, 2, 3):
        assert claim_one(connection, worker=UUID(int=attempt)).attempt == attempt
        rescue_worker(enter("rescue"), settings, UUID(int=attempt))
        clock.advance(3600)
    stored = row(connection, job_id)
    assert (stored["status"], stored["attempt"]) == ("dead", 3)
    assert [error["reason"] for error in stored["errors"]] == ["worker_lost"] * 3
    assert claim(connection) == []
    scheduler.tick()
    assert [letter["jobId"] for letter in letters] == [str(job_id)]


def test_after_its_first_loss_a_job_runs_at_once_and_then_after_its_backoff(
    connection: Connection, clock: Clock, enter: Enter, settings: Settings
) -> None:
    job_id = put(connection)
    claim_one(connection, worker=UUID(int=1))
    rescue_worker(enter("rescue"), settings, UUID(int=1))
    assert row(connection, job_id)["ready_at"] == clock.now
    claim_one(connection, worker=UUID(int=2))
    rescue_worker(enter("rescue"), settings, UUID(int=2))
    wait = row(connection, job_id)["ready_at"] - clock.now
    assert timedelta(seconds=10) <= wait <= timedelta(seconds=20)


@pytest.mark.case("C12")
def test_one_crashing_job_among_five_hundred_costs_none_of_them_its_life(
    connection: Connection, clock: Clock, enter: Enter, settings: Settings
) -> None:
    """C12: every batch that holds it is lost, until it and its neighbours stand at their last attempt, each alone."""
    echoes = put_many(connection, [{}] * 250)
    crash = put(connection, type="test.crash")
    echoes += put_many(connection, [{}] * 250)
    starts = 0
    for turn in range(1, 1000):
        worker = UUID(int=turn)
        claimed = claim(connection, limit=500, worker=worker)
        if not claimed:
            if tally(connection).keys() <= {"completed", "dead"}:
                break
            clock.advance(3600)
        elif any(one.id == crash for one in claimed):
            starts += 1
            rescue_worker(enter("rescue") if turn == 1 else connection, settings, worker)
        else:
            complete(connection, *claimed)
    assert starts == 3
    assert {stored["status"] for stored in rows(connection, echoes)} == {"completed"}
    assert row(connection, crash)["status"] == "dead"


def test_a_job_on_its_last_attempt_is_claimed_alone(connection: Connection, clock: Clock) -> None:
    """Invariant 6: nothing with it, and not at all by a worker that has others in hand."""
    before = put_many(connection, [{}] * 2)
    last = put(connection, max_attempts=1)
    behind = put_many(connection, [{}] * 2)
    assert [one.id for one in claim(connection)] == before
    assert claim(connection, idle=False) == []
    (alone,) = claim(connection)
    assert (alone.id, alone.last_attempt) == (last, True)
    assert [one.id for one in claim(connection)] == behind


@pytest.mark.case("C6")
def test_a_lost_scheduler_is_replaced_on_the_platforms_report(
    connection: Connection,
    clock: Clock,
    enter: Enter,
    settings: Settings,
    invocations: Invocations,
    scheduler: Scheduler,
) -> None:
    """C6: once for one report, however often it comes."""
    put(connection)
    for _ in range(2):
        rescue_leader(enter("rescue"), settings, scheduler.leader.owner)
    assert [function for function, _ in invocations] == ["scheduler"]


def test_a_job_held_by_a_callers_transaction_holds_up_no_other_of_a_lost_worker(
    connection: Connection, clock: Clock, enter: Enter, settings: Settings, invocations: Invocations
) -> None:
    """The others are free at once; the report is repeated by the platform, and frees the last one after the commit."""
    held, *others = put_many(connection, [{}] * 5)
    token = _start_worker(connection, settings, invocations)
    claim(connection, worker=token)
    caller, rescuer = enter("api"), enter("rescue")
    with caller.transaction():
        dilamme.submit(caller, ECHO, dependency_ids=[held])
        with pytest.raises(psycopg.errors.LockNotAvailable):
            rescue_worker(rescuer, settings, token)
        assert [one.id for one in claim(connection)] == others
    rescue_worker(rescuer, settings, token)
    assert row(connection, held)["status"] == "pending"


def test_a_child_held_by_a_callers_transaction_holds_up_no_other_expired_job(
    connection: Connection, enter: Enter, settings: Settings
) -> None:
    """The tick buries a job whose child asked to be cancelled, while a caller adds a grandchild; the rest is freed."""
    poison = put(connection, max_attempts=1)
    child = put(connection, dependency_ids=[poison], on_dependency_failure="cancel")
    claim_one(connection, lease_seconds=0)
    others = put_many(connection, [{}] * 5)
    claim(connection, lease_seconds=0)
    caller, leader = enter("api"), enter("scheduler")
    with caller.transaction():
        dilamme.submit(caller, ECHO, dependency_ids=[child])
        assert expire(leader, settings).done == {*others}
    assert expire(leader, settings).done == {poison}
    assert row(connection, child)["status"] == "cancelled"
