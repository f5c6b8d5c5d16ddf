"""Who runs first (CASES.md, *Order*), with the clock moved by hand."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from dilamme.scheduler.tick import Leader, dispatch
from dilamme.settings import Settings
from dilamme.store import lanes, lease, slots
from dilamme.store.connection import Connection
from dilamme.testing.clock import START, Clock
from dilamme.usecases.replay import replay_job
from tests.support.invocations import Invocations
from tests.support.jobs import bury, claim, claim_one, complete, put, put_many, retry, return_claims, row, terms

MOMENT = START + timedelta(seconds=100)


def _second_in_which_the_p3_starts(
    connection: Connection, clock: Clock, ageing_seconds: float, seconds: int
) -> int | None:
    """One slot, jobs of a second, a P1 that becomes ready every second, and a P3 from the beginning.

    One claim a second is what that slot makes; how the claimed jobs end is left out, since it moves nobody in line.
    """
    p3 = put(connection, priority=3)
    every_second = [START + timedelta(seconds=second) for second in range(seconds)]
    put_many(connection, [{"priority": 1, "scheduled_at": moment} for moment in every_second])
    for second, moment in enumerate(every_second):
        clock.set(moment)
        started = claim_one(connection, ageing_seconds=ageing_seconds)
        if started.id == p3:
            return second
    return None


@pytest.mark.case("O1")
def test_a_p3_starts_within_two_seconds_of_having_aged_to_priority_1(connection: Connection, clock: Clock) -> None:
    """O1: among a P1 every second, it waits 60 s, and then no longer than the job that is running."""
    second = _second_in_which_the_p3_starts(connection, clock, ageing_seconds=30, seconds=100)
    assert second is not None
    assert 60 <= second <= 62


@pytest.mark.case("O1")
def test_without_ageing_a_p3_among_a_p1_every_second_never_starts(connection: Connection, clock: Clock) -> None:
    """O1: ageing 0 is off. "Never" is 1,000 s here."""
    assert _second_in_which_the_p3_starts(connection, clock, ageing_seconds=0, seconds=1000) is None


def _from_a_single_post(connection: Connection, clock: Clock) -> UUID:
    clock.set(MOMENT)
    return put(connection, priority=1)


def _from_a_batch(connection: Connection, clock: Clock) -> UUID:
    clock.set(MOMENT)
    return put_many(connection, [{"priority": 3}, {"priority": 1}])[1]


def _from_a_recurrence(connection: Connection, clock: Clock) -> UUID:
    put(connection, priority=1, interval_seconds=100)
    complete(connection, claim_one(connection))
    found = connection.execute(
        "SELECT id FROM dilamme.jobs WHERE series_id IS NOT NULL AND status = 'pending'"
    ).fetchone()
    assert found is not None
    successor: UUID = found[0]
    return successor


def _from_a_retry(connection: Connection, clock: Clock) -> UUID:
    job_id = put(connection, priority=1)
    retry(connection, claim_one(connection), delay_seconds=100)
    return job_id


def _from_a_release(connection: Connection, clock: Clock) -> UUID:
    parent = put(connection, priority=3)
    child = put(connection, priority=1, dependency_ids=[parent])
    running = claim_one(connection)
    clock.set(MOMENT)
    complete(connection, running)
    return child


def _from_a_replay(connection: Connection, clock: Clock) -> UUID:
    job_id = put(connection, priority=1)
    bury(connection, claim_one(connection))
    clock.set(MOMENT)
    replay_job(connection, job_id)
    return job_id


@pytest.mark.case("O2")
@pytest.mark.parametrize(
    "path",
    [_from_a_single_post, _from_a_batch, _from_a_recurrence, _from_a_retry, _from_a_release, _from_a_replay],
)
def test_a_p1_from_every_path_goes_before_a_p2_that_became_ready_with_it(
    connection: Connection, clock: Clock, path: Callable[[Connection, Clock], UUID]
) -> None:
    """O2. The P2 is the older row, so nothing but its priority puts it behind."""
    p2 = put(connection, priority=2, scheduled_at=MOMENT)
    p1 = path(connection, clock)
    clock.set(MOMENT)
    assert row(connection, p1)["ready_at"] == row(connection, p2)["ready_at"] == MOMENT
    assert [one.id for one in claim(connection, limit=1)] == [p1]


@pytest.mark.case("O3")
def test_a_retry_keeps_the_creation_time_and_ages_from_its_retry_time(connection: Connection, clock: Clock) -> None:
    """O3: retried twice, P3; a P2 that became ready a second before the retry goes first, since the P3 has not aged."""
    p3 = put(connection, priority=3, max_attempts=25)
    for delay_seconds in (100, 200):
        retry(connection, claim_one(connection), delay_seconds=delay_seconds)
        assert row(connection, p3)["ready_at"] == clock.now + timedelta(seconds=delay_seconds)
        clock.advance(delay_seconds)
    assert row(connection, p3)["created_at"] == START
    p2 = put(connection, priority=2)
    clock.advance(29)
    assert [one.id for one in claim(connection)] == [p2, p3]


@pytest.mark.case("O3")
def test_a_retried_job_has_aged_again_after_its_retry_time(connection: Connection, clock: Clock) -> None:
    """O3: 30 s after its second retry time it is as urgent as a P2 and, ready for longer, goes before a new one."""
    p3 = put(connection, priority=3, max_attempts=25)
    for _ in range(2):
        retry(connection, claim_one(connection), delay_seconds=100)
        clock.advance(100)
    clock.advance(30)
    p2 = put(connection, priority=2)
    assert [one.id for one in claim(connection)] == [p3, p2]


@pytest.mark.case("O5")
def test_a_time_in_the_past_runs_now_and_buys_no_age(connection: Connection, clock: Clock) -> None:
    first = put(connection, priority=2)
    clock.advance(1)
    back_dated = put(connection, priority=3, scheduled_at=START.replace(year=2020))
    assert row(connection, back_dated)["ready_at"] == clock.now
    assert [one.id for one in claim(connection)] == [first, back_dated]


@pytest.mark.case("O6")
def test_rows_that_a_rival_claimed_and_committed_since_they_were_read_are_not_claimed_again(
    connection: Connection, clock: Clock
) -> None:
    """O6: the heads are read unlocked, as a tick does; a rival takes the first three; the claim gets the others."""
    ids = put_many(connection, [{}] * 6)
    heads = lanes.lane_heads(connection, 6)
    rivals = claim(connection, limit=3)
    claimed = lanes.claim_handed(connection, terms(6), uuid4(), [head.id for head in heads], clock.now, 1.0)
    assert [one.id for one in rivals] == ids[:3]
    assert [one.id for one in claimed] == ids[3:]


@pytest.mark.case("O7")
def test_jobs_of_one_batch_are_claimed_in_the_order_of_the_batch(connection: Connection, clock: Clock) -> None:
    """O7: ready and created times are equal, so the ids decide."""
    ids = put_many(connection, [{}] * 50)
    assert ids == sorted(ids)
    assert [one.id for one in claim(connection, limit=50)] == ids


@pytest.mark.case("O7")
def test_jobs_of_one_batch_are_claimed_in_its_order_however_they_were_handed_out(
    connection: Connection, clock: Clock
) -> None:
    """O7, for the claim of what the scheduler chose."""
    ids = put_many(connection, [{}] * 20)
    claimed = lanes.claim_handed(connection, terms(20), uuid4(), ids[::-1], clock.now, 1.0)
    assert [one.id for one in claimed] == ids


@pytest.mark.case("O7")
def test_jobs_of_one_batch_are_dealt_to_workers_in_its_order(
    connection: Connection, clock: Clock, settings: Settings, invocations: Invocations
) -> None:
    """O7, for the tick: dealt like cards to three workers, the first of the batch first."""
    ids = put_many(connection, [{}] * 12)
    three = settings.model_copy(update={"worker_slots": 3, "worker_concurrency": 4})
    slots.provide_slots(connection, 3)
    owner = uuid4()
    leader = Leader(owner, lease.take_lead(connection, owner, 5))
    with ThreadPoolExecutor(max_workers=3) as executor:
        assert dispatch(connection, three, leader, executor) is not None
    hands = sorted((event.ids for event in invocations.take_workers()), key=lambda hand: hand[0])
    assert hands == [ids[place::3] for place in range(3)]


@pytest.mark.case("O7")
def test_a_job_that_was_returned_keeps_its_place_in_line(connection: Connection, clock: Clock) -> None:
    """O7: a hand-back is as if the claim had never been."""
    ids = put_many(connection, [{}] * 3)
    return_claims(connection, *claim(connection, limit=2))
    clock.advance(5)
    put(connection)
    assert [one.id for one in claim(connection, limit=3)] == ids


def test_a_choice_that_is_older_than_a_tick_is_not_claimed(connection: Connection, clock: Clock) -> None:
    """The order may have changed since: the worker then claims for itself."""
    ids = put_many(connection, [{}] * 3)
    chosen_at = clock.now
    clock.advance(1.001)
    assert lanes.claim_handed(connection, terms(), uuid4(), ids, chosen_at, 1.0) == []
    clock.set(chosen_at + timedelta(seconds=1))
    assert len(lanes.claim_handed(connection, terms(), uuid4(), ids, chosen_at, 1.0)) == 3
