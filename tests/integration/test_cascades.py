"""Dependents that are cancelled with a job: in bounded steps, which commit, however many they are."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

import dilamme
from dilamme.domain.job import Reason
from dilamme.scheduler import maintenance
from dilamme.store import lease
from dilamme.store.connection import Connection
from dilamme.usecases import consequences
from dilamme.usecases.cancel import cancel_job
from dilamme.usecases.replay import replay_job
from tests.integration.scheduler import Scheduler
from tests.support.entrance import Enter
from tests.support.jobs import bury, claim, claim_one, put, put_many, row, tally
from tests.support.rivals import meanwhile, wait_until_blocked
from tests.support.waiting import wait_until

FAR = "2999-01-01T00:00:00Z"
STEP = consequences.CASCADE_JOBS_MAX


def chain(connection: Connection, head: UUID, number: int) -> None:
    """So many jobs, each cancelled with the one before."""
    last = head
    for _ in range(number // 1000):
        first = {"dependency_ids": [last], "on_dependency_failure": "cancel", "ref": "0"}
        rest = [
            {"dependency_refs": [f"{place - 1}"], "on_dependency_failure": "cancel", "ref": f"{place}"}
            for place in range(1, 1000)
        ]
        last = put_many(connection, [first, *rest])[-1]


def fan(connection: Connection, head: UUID, number: int) -> None:
    for _ in range(number // 1000):
        put_many(connection, [{"dependency_ids": [head], "on_dependency_failure": "cancel"}] * 1000)


def noted(connection: Connection) -> int:
    ((count,),) = connection.execute("SELECT count(*) FROM dilamme.cascades")
    return int(count)


@pytest.mark.case("W5")
@pytest.mark.parametrize("shape", [chain, fan], ids=["chain", "fan"])
def test_a_long_cascade_is_carried_out_step_by_step(
    connection: Connection, enter: Enter, scheduler: Scheduler, shape: object
) -> None:
    head = put(connection, scheduled_at=FAR)
    shape(connection, head, 3 * STEP)  # type: ignore[operator]
    cancel_job(enter("api"), head)
    assert tally(connection) == {"cancelled": STEP + 1, "pending": 2 * STEP}
    assert claim(connection) == []
    assert lease.upcoming(connection, 0)

    left = 2 * STEP
    while consequences.carry_on(enter("scheduler")):  # each time another leader, as after a crash
        left = max(0, left - STEP)
        assert tally(connection).get("pending", 0) == left
    assert (left, noted(connection)) == (0, 0)
    assert scheduler.tick() is not None
    assert not lease.upcoming(connection, 0)


@pytest.mark.case("W5")
def test_a_tick_carries_on_the_cascade_of_a_dead_job(connection: Connection, scheduler: Scheduler) -> None:
    head = put(connection)
    fan(connection, head, 3 * STEP)
    bury(connection, claim_one(connection))
    assert tally(connection)["pending"] == 2 * STEP
    wait_until(lambda: scheduler.tick() and not noted(connection), "some ticks have carried on")
    assert tally(connection) == {"dead": 1, "cancelled": 3 * STEP}


@pytest.mark.case("W5")
def test_many_heads_that_end_together_leave_no_dependent_out(
    connection: Connection, enter: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their children are mixed, and some belong to two of them, one of which is their parent's parent too."""
    monkeypatch.setattr(consequences, "CASCADE_JOBS_MAX", 7)
    heads = put_many(connection, [{}] * 5)
    for place in range(40):
        two = [heads[place % 5], heads[(place * 3 + 1) % 5]]
        child = put(connection, dependency_ids=list(dict.fromkeys(two)), on_dependency_failure="cancel")
        put(connection, dependency_ids=[child, heads[place % 5]], on_dependency_failure="cancel")
        put(connection, dependency_ids=[child], on_dependency_failure="wait")
    bury(connection, *claim(connection))
    while consequences.carry_on(enter("scheduler")):
        pass
    assert tally(connection) == {"dead": 5, "cancelled": 80, "pending": 40}


@pytest.mark.case("W5")
def test_a_child_that_is_being_stored_under_a_job_on_the_way_is_cancelled_too(
    connection: Connection, enter: Enter
) -> None:
    """The cascade waits for it at its parent, whose lock the insertion holds, and has not seen it before."""
    head = put(connection, scheduled_at=FAR)
    on_the_way = put(connection, dependency_ids=[head], on_dependency_failure="cancel")
    poster, api = enter("api"), enter("api")
    poster.execute("BEGIN")
    child = put_in(poster, [on_the_way])
    with meanwhile(lambda: cancel_job(api, head)) as cancelling:
        wait_until_blocked(connection, api)
        poster.execute("COMMIT")
        cancelling.result(20)
    while consequences.carry_on(enter("scheduler")):
        pass
    assert row(connection, child)["status"] == "cancelled"


def put_in(connection: Connection, parents: Sequence[UUID]) -> UUID:
    """Stores a child in the transaction that is open."""
    return dilamme.submit(connection, "test.echo", dependency_ids=list(parents), on_dependency_failure="cancel")


@pytest.mark.case("W5")
def test_who_is_replayed_before_its_cascade_has_ended_keeps_the_rest_waiting(
    connection: Connection, enter: Enter
) -> None:
    head = put(connection)
    fan(connection, head, 2 * STEP)
    bury(connection, claim_one(connection))
    replay_job(connection, head)
    while consequences.carry_on(enter("scheduler")):
        pass
    assert tally(connection) == {"cancelled": STEP, "pending": STEP + 1}
    assert [claimed.id for claimed in claim(connection)] == [head]


@pytest.mark.case("W5")
def test_a_cascade_that_meets_a_lock_tries_again_and_holds_up_no_tick(
    connection: Connection, enter: Enter, scheduler: Scheduler
) -> None:
    head = put(connection)
    fan(connection, head, 2 * STEP)
    bury(connection, claim_one(connection))
    holder = enter("api")
    holder.execute("BEGIN")
    held = holder.execute("SELECT FROM dilamme.jobs WHERE status = 'pending' FOR UPDATE").rowcount
    assert held == STEP
    connection.execute("SET lock_timeout = '100ms'")  # as the scheduler's role has one of two seconds
    assert scheduler.tick() is not None
    assert tally(connection)["pending"] == STEP
    holder.execute("ROLLBACK")
    maintenance.carry_on_cascades(connection)
    assert tally(connection) == {"dead": 1, "cancelled": 2 * STEP}


@pytest.mark.case("W5")
def test_the_series_of_all_that_is_cancelled_end(connection: Connection, enter: Enter) -> None:
    head = put(connection, scheduled_at=FAR)
    for _ in range(2):
        put_many(
            connection,
            [{"dependency_ids": [head], "on_dependency_failure": "cancel", "interval_seconds": 60}] * STEP,
        )
    cancel_job(connection, head)
    while consequences.carry_on(enter("scheduler")):
        pass
    assert connection.execute("SELECT count(*) FROM dilamme.series WHERE ended_at IS NULL").fetchone() == (0,)
    assert tally(connection) == {"cancelled": 2 * STEP + 1}
    ((errors,),) = connection.execute(
        "SELECT DISTINCT errors -> -1 ->> 'reason' FROM dilamme.jobs WHERE series_id IS NOT NULL"
    )
    assert errors == Reason.DEPENDENCY_FAILED


@pytest.mark.case("W5")
def test_many_short_cascades_are_carried_on_together(connection: Connection, enter: Enter) -> None:
    """Each child of a wide job has one of its own: what is left of the first steps are a thousand short cascades."""
    head = put(connection, scheduled_at=FAR)
    for _ in range(2):
        children: list[dict[str, Any]] = [
            {"dependency_ids": [head], "on_dependency_failure": "cancel", "ref": f"{n}"} for n in range(500)
        ]
        theirs: list[dict[str, Any]] = [
            {"dependency_refs": [f"{n}"], "on_dependency_failure": "cancel"} for n in range(500)
        ]
        put_many(connection, children + theirs)
    fan(connection, head, STEP)
    cancel_job(connection, head)
    steps = 0
    while consequences.carry_on(enter("scheduler")):
        steps += 1
    assert tally(connection) == {"cancelled": 3 * STEP + 1}
    assert steps <= 30
