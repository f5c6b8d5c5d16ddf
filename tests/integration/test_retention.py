"""Retention against replays, children and keys (D5): what somebody waits for stays."""

from datetime import timedelta

import pytest

from dilamme.domain.errors import IdempotencyConflict, InvalidInput, NotFound
from dilamme.domain.job import Status
from dilamme.scheduler import maintenance
from dilamme.scheduler.maintenance import prune, prune_status
from dilamme.settings import Settings
from dilamme.store import retention as store
from dilamme.store.connection import Connection
from dilamme.testing.clock import Clock
from dilamme.usecases.cancel import cancel_job, cancel_series
from dilamme.usecases.replay import replay_job
from dilamme.usecases.submit import submit
from dilamme.wire.requests import BatchSubmission, parse
from tests.integration.paused import pause
from tests.support.entrance import Enter
from tests.support.jobs import ECHO, bury, claim, claim_one, complete, put, put_many, row, rows, tally
from tests.support.rivals import meanwhile, wait_until_blocked

YEAR = 366 * 86_400


@pytest.fixture
def scheduler(enter: Enter) -> Connection:
    """Who prunes."""
    return enter("scheduler")


def test_what_has_ended_is_kept_for_its_retention_and_not_longer(
    connection: Connection, clock: Clock, settings: Settings, scheduler: Connection
) -> None:
    """Completed and cancelled seven days, dead thirty; what is live for ever."""
    completed, cancelled, dead = put_many(connection, [{}] * 3)
    complete(connection, claim_one(connection))
    cancel_job(connection, cancelled)
    bury(connection, claim_one(connection))
    live = put(connection, scheduled_at=clock.now + timedelta(days=1000))
    clock.advance(7 * 86_400 - 1)
    assert prune(scheduler, settings) == 0
    clock.advance(1)
    assert prune(scheduler, settings) == 2
    assert [one["id"] for one in rows(connection, [completed, cancelled, dead, live])] == [dead, live]
    clock.advance(23 * 86_400)
    assert prune(scheduler, settings) == 1
    assert [one["id"] for one in rows(connection, [dead, live])] == [live]


@pytest.mark.case("D5")
def test_a_finished_job_stays_as_long_as_a_child_waits(
    connection: Connection, clock: Clock, settings: Settings, scheduler: Connection
) -> None:
    """D5: completed, dead and cancelled parents alike; the gate never opens by absence."""
    parents = put_many(connection, [{}] * 3)
    child = put(connection, dependency_ids=parents)
    complete(connection, claim_one(connection))
    bury(connection, claim_one(connection))
    cancel_job(connection, parents[2])
    clock.advance(YEAR)
    assert prune(scheduler, settings) == 0
    assert len(rows(connection, parents)) == 3
    assert claim(connection) == []
    cancel_job(connection, child)
    assert prune(scheduler, settings) == 3
    clock.advance(YEAR)
    assert prune(scheduler, settings) == 1
    assert tally(connection) == {}


def test_a_finished_family_goes_whole(
    connection: Connection, clock: Clock, settings: Settings, scheduler: Connection
) -> None:
    """Edges between finished jobs keep nobody, in whichever order they are deleted."""
    parent = put(connection)
    put(connection, dependency_ids=[parent])
    put(connection, dependency_ids=[parent])
    for _ in range(3):
        complete(connection, claim_one(connection))
    clock.advance(YEAR)
    assert prune(scheduler, settings) == 3
    assert connection.execute("SELECT count(*) FROM dilamme.job_dependencies").fetchone() == (0,)


@pytest.mark.case("S5")
def test_a_call_deletes_a_bounded_number(
    connection: Connection, clock: Clock, scheduler: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S5, in small: batches until nothing is left."""
    monkeypatch.setattr(maintenance, "PRUNE_JOBS_MAX", 40)
    put_many(connection, [{}] * 100)
    complete(connection, *claim(connection, limit=100, reach=100))
    clock.advance(YEAR)
    assert [prune_status(scheduler, Status.COMPLETED, 0) for _ in range(4)] == [40, 40, 20, 0]


def test_what_must_stay_does_not_stand_in_the_way_of_what_may_go(
    connection: Connection, clock: Clock, scheduler: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest five are kept by a child that waits, and a call takes five."""
    monkeypatch.setattr(maintenance, "PRUNE_JOBS_MAX", 5)
    kept = put_many(connection, [{}] * 5)
    complete(connection, *claim(connection))
    put(connection, dependency_ids=[*kept, put(connection, scheduled_at="2100-01-01T00:00:00Z")])
    clock.advance(1)
    put_many(connection, [{}] * 5)
    complete(connection, *claim(connection))
    clock.advance(YEAR)
    assert prune_status(scheduler, Status.COMPLETED, 0) == 5
    assert len(rows(connection, kept)) == 5


def test_a_series_and_a_key_go_with_the_last_of_their_jobs(
    connection: Connection, clock: Clock, settings: Settings, scheduler: Connection
) -> None:
    first = put(connection, "key", interval_seconds=60)
    complete(connection, claim_one(connection))
    clock.advance(YEAR)
    assert prune(scheduler, settings) == 1
    assert _count(connection, "series") == 1
    assert _count(connection, "idempotency_keys") == 1
    found = connection.execute("SELECT id FROM dilamme.jobs").fetchone()
    assert found is not None
    assert found[0] != first
    connection.execute("UPDATE dilamme.series SET ended_at = dilamme.clock()")
    cancel_job(connection, found[0])
    clock.advance(YEAR)
    assert prune(scheduler, settings) == 1
    assert _count(connection, "series") == 0
    assert _count(connection, "idempotency_keys") == 0


def test_a_key_is_free_again_when_its_jobs_are_gone(
    connection: Connection, clock: Clock, settings: Settings, scheduler: Connection
) -> None:
    first = put(connection, "key")
    complete(connection, claim_one(connection))
    assert put(connection, "key") == first
    clock.advance(YEAR)
    prune(scheduler, settings)
    second = put(connection, "key")
    assert second != first
    assert put(connection, "key") == second


def _count(connection: Connection, table: str) -> int:
    found = connection.execute(f"SELECT count(*) FROM dilamme.{table}").fetchone()
    assert found is not None
    count: int = found[0]
    return count


def test_a_dead_job_that_is_being_replayed_is_passed_over(
    connection: Connection, enter: Enter, scheduler: Connection
) -> None:
    """The replay holds it, uncommitted."""
    job_id = put(connection)
    bury(connection, claim_one(connection))
    person = enter("api")
    with person.transaction():
        replay_job(person, job_id)
        assert prune_status(scheduler, Status.DEAD, 0) == 0
    assert row(connection, job_id)["status"] == "pending"


def test_a_dead_job_replayed_between_its_choice_and_its_lock_stays(
    connection: Connection, enter: Enter, scheduler: Connection
) -> None:
    """The choice was made with a snapshot in which it was dead."""
    job_id = put(connection)
    bury(connection, claim_one(connection))
    person = enter("api")
    with (
        pause(connection, scheduler) as resume,
        meanwhile(lambda: prune_status(scheduler, Status.DEAD, 0)) as pruning,
    ):
        wait_until_blocked(connection, scheduler)
        assert replay_job(person, job_id)
        resume()
        assert pruning.result(20) == 0
    assert row(connection, job_id)["status"] == "pending"


def test_a_replay_of_a_job_that_is_being_deleted_finds_nothing(
    connection: Connection, enter: Enter, scheduler: Connection
) -> None:
    job_id = put(connection)
    bury(connection, claim_one(connection))
    person = enter("api")
    scheduler.execute("BEGIN")
    assert prune_status(scheduler, Status.DEAD, 0) == 1
    with meanwhile(lambda: replay_job(person, job_id)) as replaying:
        wait_until_blocked(connection, person)
        scheduler.execute("COMMIT")
        with pytest.raises(NotFound):
            replaying.result(20)


@pytest.mark.case("D5")
def test_a_parent_for_whom_a_child_is_being_stored_is_passed_over(
    connection: Connection, enter: Enter, scheduler: Connection
) -> None:
    """D5: the insertion holds it, uncommitted."""
    parent = put(connection)
    complete(connection, claim_one(connection))
    person = enter("api")
    with person.transaction():
        put(person, dependency_ids=[parent])
        assert prune_status(scheduler, Status.COMPLETED, 0) == 0
    assert prune_status(scheduler, Status.COMPLETED, 0) == 0


@pytest.mark.case("D5")
def test_a_parent_whose_child_came_between_its_choice_and_its_lock_stays_with_its_edge(
    connection: Connection, enter: Enter, scheduler: Connection
) -> None:
    """D5: the choice was made with a snapshot in which there was no child, and the lock came after the child's commit."""
    parent = put(connection)
    bury(connection, claim_one(connection))
    person = enter("api")
    with (
        pause(connection, scheduler) as resume,
        meanwhile(lambda: prune_status(scheduler, Status.DEAD, 0)) as pruning,
    ):
        wait_until_blocked(connection, scheduler)
        child = put(person, dependency_ids=[parent])
        resume()
        assert pruning.result(20) == 0
    assert row(connection, child)["unmet_dependencies"] == 1
    assert connection.execute("SELECT child_id, parent_id FROM dilamme.job_dependencies").fetchall() == [
        (child, parent)
    ]


def test_a_child_on_a_parent_that_is_being_deleted_is_refused_by_its_id(
    connection: Connection, enter: Enter, scheduler: Connection
) -> None:
    """D5: it waits for the deletion, and then there is no such job; nothing is stored."""
    parent = put(connection)
    complete(connection, claim_one(connection))
    person = enter("api")
    scheduler.execute("BEGIN")
    assert prune_status(scheduler, Status.COMPLETED, 0) == 1
    with meanwhile(lambda: put(person, dependency_ids=[parent])) as posting:
        wait_until_blocked(connection, person)
        scheduler.execute("COMMIT")
        with pytest.raises(InvalidInput, match=str(parent)):
            posting.result(20)
    assert tally(connection) == {}


@pytest.mark.case("D5")
def test_no_statement_can_delete_a_parent_from_under_its_edge(connection: Connection, enter: Enter) -> None:
    """Invariant 15: the foreign key refuses it, whoever forgets to look."""
    parent = put(connection)
    put(connection, dependency_ids=[parent])
    complete(connection, claim_one(connection))
    assert store.prune(enter("scheduler"), [parent], Status.COMPLETED, 0) == []
    assert row(connection, parent)["status"] == "completed"


@pytest.mark.case("K1")
def test_a_key_lives_as_long_as_the_series_that_it_began(
    connection: Connection, clock: Clock, settings: Settings, scheduler: Connection
) -> None:
    """K1: posted with its key at each deployment; the first occurrence is past its retention."""
    first = put(connection, "nightly", interval_seconds=86_400)
    for _ in range(10):
        complete(connection, claim_one(connection))
        clock.advance(86_400)
        prune(scheduler, settings)
    assert rows(connection, [first]) == []
    (live,) = claim(connection)
    assert put(connection, "nightly", interval_seconds=86_400) == first
    with pytest.raises(IdempotencyConflict):
        put(connection, "nightly", interval_seconds=3_600)
    assert connection.execute("SELECT count(*) FROM dilamme.series").fetchone() == (1,)

    assert live.series_id is not None
    cancel_series(connection, live.series_id)
    complete(connection, live)
    clock.advance(YEAR)
    while prune(scheduler, settings):
        pass
    assert tally(connection) == {}
    assert connection.execute("SELECT count(*) FROM dilamme.idempotency_keys").fetchone() == (0,)
    put(connection, "nightly", interval_seconds=86_400)
    assert tally(connection) == {"pending": 1}


@pytest.mark.case("K1")
def test_a_batchs_key_lives_as_long_as_the_last_of_its_series(
    connection: Connection, clock: Clock, settings: Settings, scheduler: Connection
) -> None:
    batch = [parse(BatchSubmission, {"type": ECHO, "interval_seconds": seconds}) for seconds in (3_600, 86_400)]
    hourly, daily = submit(connection, batch, "both").ids
    series = [row(connection, job_id)["series_id"] for job_id in (hourly, daily)]
    complete(connection, *claim(connection))
    for series_id in series:
        clock.advance(8 * 86_400)
        prune(scheduler, settings)
        assert submit(connection, batch, "both").ids == [hourly, daily]
        cancel_series(connection, series_id)
    clock.advance(YEAR)
    prune(scheduler, settings)
    assert submit(connection, batch, "both").created


@pytest.mark.case("W6")
def test_all_that_is_past_its_retention_goes_as_fast_as_a_part_of_each_tick_allows(
    connection: Connection, clock: Clock, settings: Settings, scheduler: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        put_many(connection, [{}] * 1000)
    while mine := claim(connection, limit=1000):
        complete(connection, *mine)
    clock.advance(YEAR)
    monkeypatch.setattr(maintenance, "PRUNE_SECONDS", 0.0)
    assert maintenance.prune_for_a_while(scheduler, settings)  # there is more: it goes on in the next tick
    assert tally(connection) == {"completed": 3000 - maintenance.PRUNE_JOBS_MAX}
    monkeypatch.setattr(maintenance, "PRUNE_SECONDS", 60.0)
    assert not maintenance.prune_for_a_while(scheduler, settings)
    assert tally(connection) == {}
