"""The DAG (CASES.md, *Dependencies*): who waits, who is released, who is cancelled, and that nobody is twice."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from time import monotonic
from typing import Any
from uuid import UUID

import pytest

from dilamme.domain.errors import InvalidInput
from dilamme.scheduler.maintenance import sweep
from dilamme.store import dependencies
from dilamme.store.connection import Connection
from dilamme.testing.clock import Clock
from dilamme.usecases.cancel import cancel_job
from dilamme.usecases.replay import replay_job
from dilamme.worker import loop
from tests.integration.scheduler import Scheduler
from tests.integration.workshop import Workshop
from tests.support.entrance import Enter
from tests.support.jobs import ECHO, bury, claim, claim_one, complete, put, put_many, row, rows, tally


@pytest.mark.case("D1")
def test_two_hundred_parents_that_end_in_parallel_release_their_child_once(
    connection: Connection, enter: Enter
) -> None:
    """D1: on eight connections at once, each parent in a transaction of its own."""
    parents = put_many(connection, [{}] * 200)
    child = put(connection, dependency_ids=parents)
    claimed = claim(connection, limit=200, reach=300)
    workers = [enter("worker") for _ in range(8)]

    def complete_share(place: int) -> int:
        return sum(complete(workers[place], one).due for one in claimed[place::8])

    with ThreadPoolExecutor(max_workers=8) as executor:
        releases = sum(executor.map(complete_share, range(8)))
    assert releases == 1
    assert row(connection, child)["unmet_dependencies"] == 0
    assert [one.id for one in claim(connection)] == [child]


def test_a_child_whose_parents_end_in_one_batch_is_counted_down_by_all_of_them(connection: Connection) -> None:
    parents = put_many(connection, [{}] * 3)
    child = put(connection, dependency_ids=[*parents, parents[0]])
    assert row(connection, child)["unmet_dependencies"] == 3
    two = claim(connection, limit=2)
    assert [one.id for one in two] == parents[:2]
    complete(connection, *two)
    assert row(connection, child)["unmet_dependencies"] == 1
    complete(connection, claim_one(connection))
    assert claim_one(connection).id == child


def _line(connection: Connection, policy: str) -> list[UUID]:
    """A, B that waits for A, and C that waits for B."""
    first = put(connection)
    second = put(connection, dependency_ids=[first], on_dependency_failure=policy)
    return [first, second, put(connection, dependency_ids=[second], on_dependency_failure=policy)]


def _die(connection: Connection, job_id: UUID) -> None:
    claimed = claim_one(connection)
    assert claimed.id == job_id
    bury(connection, claimed)


DEATHS = {"buried": _die, "cancelled": cancel_job}


@pytest.mark.case("D2")
@pytest.mark.parametrize("death", DEATHS)
def test_by_default_the_children_of_a_dead_job_wait_visibly(connection: Connection, death: str) -> None:
    """D2: pending, with a dependency that has not completed, and nobody claims them."""
    first, second, third = _line(connection, "wait")
    DEATHS[death](connection, first)
    waiting = rows(connection, [second, third])
    assert [(one["status"], one["unmet_dependencies"]) for one in waiting] == [("pending", 1)] * 2
    assert claim(connection) == []


@pytest.mark.case("D2")
@pytest.mark.parametrize("death", DEATHS)
def test_children_that_asked_for_it_are_cancelled_with_their_parent_transitively(
    connection: Connection, death: str
) -> None:
    first, second, third = _line(connection, "cancel")
    DEATHS[death](connection, first)
    for one in rows(connection, [second, third]):
        assert (one["status"], one["errors"][-1]["reason"]) == ("cancelled", "dependency_failed")


@pytest.mark.case("D2")
def test_a_cancellation_stops_at_a_child_that_waits(connection: Connection) -> None:
    """D2: A dies; B, which waits, stays; so does C, which would be cancelled with B."""
    first = put(connection)
    second = put(connection, dependency_ids=[first])
    third = put(connection, dependency_ids=[second], on_dependency_failure="cancel")
    _die(connection, first)
    assert {one["status"] for one in rows(connection, [second, third])} == {"pending"}


@pytest.mark.case("D2")
def test_a_replay_revives_what_waited_for_the_dead_job(connection: Connection) -> None:
    """D2: A, then B, then C."""
    line = _line(connection, "wait")
    _die(connection, line[0])
    replay_job(connection, line[0])
    for job_id in line:
        claimed = claim_one(connection)
        assert claimed.id == job_id
        complete(connection, claimed)


def test_a_job_with_a_cancelled_dependency_ends_its_series(connection: Connection, clock: Clock) -> None:
    """The next occurrence would fail for the same reason."""
    parent = put(connection)
    recurring = put(connection, dependency_ids=[parent], on_dependency_failure="cancel", interval_seconds=60)
    cancel_job(connection, parent)
    stored = row(connection, recurring)
    assert stored["status"] == "cancelled"
    assert connection.execute("SELECT ended_at FROM dilamme.series").fetchall() == [(clock.now,)]
    assert tally(connection) == {"cancelled": 2}


@pytest.mark.case("D3")
def test_a_cycle_inside_a_batch_is_refused_with_its_path(connection: Connection) -> None:
    batch = [
        {"ref": "a", "dependency_refs": ["c"]},
        {"ref": "b", "dependency_refs": ["a"]},
        {"ref": "c", "dependency_refs": ["b"]},
    ]
    with pytest.raises(
        InvalidInput, match=r"wait for each other: .*(a -> b -> c -> a|b -> c -> a -> b|c -> a -> b -> c)"
    ):
        put_many(connection, batch)
    with pytest.raises(InvalidInput, match="a -> a"):
        put_many(connection, [{"ref": "a", "dependency_refs": ["a"]}])
    assert tally(connection) == {}


@pytest.mark.case("D3")
def test_unknown_dependencies_are_refused_by_their_ids(connection: Connection) -> None:
    """D3: nothing of the batch is stored."""
    known, unknown = put(connection), UUID(int=42)
    with pytest.raises(InvalidInput) as refused:
        put_many(connection, [{}, {"dependency_ids": [known, unknown]}])
    assert [fault.pointer for fault in refused.value.faults] == ["/jobs/1/dependencyIds/1"]
    assert str(unknown) in refused.value.faults[0].detail
    with pytest.raises(InvalidInput) as refused:
        put(connection, dependency_ids=[unknown])
    assert [fault.pointer for fault in refused.value.faults] == ["/dependencyIds/0"]
    assert tally(connection) == {"pending": 1}


@pytest.mark.case("D4")
def test_a_chain_of_a_thousand_runs_in_order(connection: Connection, workshop: Workshop) -> None:
    workshop.timed(ECHO, 0.0001)
    chain = [{"ref": str(n), "dependency_refs": [str(n - 1)] if n else [], "payload": n} for n in range(1000)]
    put_many(connection, chain)
    workshop.work()
    assert [payload for payload, _ in workshop.ran] == list(range(1000))
    assert tally(connection) == {"completed": 1000}


@pytest.mark.case("D4")
def test_a_diamond_runs_in_order_and_hands_on_its_results(connection: Connection, workshop: Workshop) -> None:
    seen: dict[UUID, Any] = {}

    @workshop.registry.job("test.join")
    def join(payload: Any, context: Any) -> None:
        seen.update(context.dependency_results)

    top, left, right, bottom = put_many(
        connection,
        [
            {"ref": "top", "payload": "top"},
            {"ref": "left", "payload": "left", "dependency_refs": ["top"]},
            {"ref": "right", "payload": "right", "dependency_refs": ["top"]},
            {"ref": "bottom", "type": "test.join", "dependency_refs": ["left", "right"]},
        ],
    )
    workshop.work()
    assert seen == {left: "left", right: "right"}
    finished = [stored["finished_at"] for stored in rows(connection, [top, left, bottom])]
    assert all(earlier <= later for earlier, later in pairwise(finished))
    assert row(connection, bottom)["started_at"] >= row(connection, right)["finished_at"]


@pytest.mark.case("D4")
def test_ten_thousand_children_of_one_parent_are_released_at_once(connection: Connection) -> None:
    """D4, timed because the row is: under 1 s, and four times that where others keep the machine busy."""
    parent = put(connection)
    for _ in range(10):
        put_many(connection, [{"dependency_ids": [parent]}] * 1000)
    connection.execute("ANALYZE dilamme.jobs, dilamme.job_dependencies")
    claimed = claim_one(connection)
    begun = monotonic()
    complete(connection, claimed)
    assert monotonic() - begun < 4
    found = connection.execute("SELECT count(*) FROM dilamme.jobs WHERE status = 'pending' AND unmet_dependencies = 0")
    assert found.fetchone() == (10_000,)


@pytest.mark.case("D7")
def test_a_job_on_a_parent_that_is_dead_already_waits_or_is_stored_as_cancelled(connection: Connection) -> None:
    """D7, and the same for a cancelled parent; those of the batch that depend on it share its fate by their own policy."""
    dead, cancelled = put_many(connection, [{}] * 2)
    _die(connection, dead)
    cancel_job(connection, cancelled)
    for parent in (dead, cancelled):
        waits, refused, after_refused, waits_for_refused = put_many(
            connection,
            [
                {"dependency_ids": [parent]},
                {
                    "dependency_ids": [parent],
                    "on_dependency_failure": "cancel",
                    "ref": "refused",
                    "interval_seconds": 60,
                },
                {"dependency_refs": ["refused"], "on_dependency_failure": "cancel"},
                {"dependency_refs": ["refused"]},
            ],
        )
        assert row(connection, waits)["status"] == "pending"
        assert row(connection, waits_for_refused)["status"] == "pending"
        for one in rows(connection, [refused, after_refused]):
            assert (one["status"], one["errors"][-1]["reason"]) == ("cancelled", "dependency_failed")
    assert claim(connection) == []
    assert connection.execute("SELECT count(*) FROM dilamme.series").fetchone() == (0,)


def test_the_gate_holds_even_where_the_counter_is_wrong(connection: Connection) -> None:
    """The claim looks at the parents themselves: a job that the counter lets into the lanes is not let through."""
    parent = put(connection)
    child = put(connection, dependency_ids=[parent])
    connection.execute("UPDATE dilamme.jobs SET unmet_dependencies = 0 WHERE id = %s", (child,))
    assert [one.id for one in claim(connection)] == [parent]
    assert claim(connection) == []


@pytest.mark.parametrize(("wrong", "right"), [(0, 1), (2, 1), (7, 1)])
def test_the_sweep_sets_a_wrong_counter_right(
    connection: Connection, scheduler: Scheduler, enter: Enter, wrong: int, right: int
) -> None:
    """Too low it would be refused at every claim, too high it would wait for ever."""
    parent = put(connection)
    child = put(connection, dependency_ids=[parent])
    connection.execute("UPDATE dilamme.jobs SET unmet_dependencies = %s WHERE id = %s", (wrong, child))
    assert sweep(enter("scheduler"), scheduler.leader.epoch) == 1
    assert row(connection, child)["unmet_dependencies"] == right
    assert sweep(enter("scheduler"), scheduler.leader.epoch) == 0


def test_a_counter_that_is_too_low_keeps_no_parent_from_being_completed(
    connection: Connection, scheduler: Scheduler, enter: Enter
) -> None:
    """Both parents end in one batch, and the counter says one: it is left to the sweep."""
    parents = put_many(connection, [{}] * 2)
    child = put(connection, dependency_ids=parents)
    connection.execute("UPDATE dilamme.jobs SET unmet_dependencies = 1 WHERE id = %s", (child,))
    assert complete(connection, *claim(connection)).done == {*parents}
    sweep(enter("scheduler"), scheduler.leader.epoch)
    assert [one.id for one in claim(connection)] == [child]


def test_the_sweep_comes_round_to_every_blocked_job(connection: Connection, scheduler: Scheduler, enter: Enter) -> None:
    """A hundred a call; the last of two hundred and fifty is wrong."""
    parent = put(connection, scheduled_at="2100-01-01T00:00:00Z")
    children = put_many(connection, [{"dependency_ids": [parent]}] * 250)
    connection.execute("UPDATE dilamme.jobs SET unmet_dependencies = 2 WHERE id = %s", (children[-1],))
    sweeper = enter("scheduler")
    assert [sweep(sweeper, scheduler.leader.epoch) for _ in range(4)] == [0, 0, 1, 0]


@pytest.mark.case("W4")
def test_results_that_are_too_much_together_come_one_by_one(
    connection: Connection, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W4: twelve parents, of whose results three fit; one has none."""
    monkeypatch.setattr(loop, "RESULTS_CHARACTERS_MAX", 10_000)
    seen: dict[UUID, Any] = {}
    fetched: list[UUID] = []
    one = dependencies.dependency_result

    def counting(connection: Connection, job_id: UUID, parent_id: UUID) -> Any:
        fetched.append(parent_id)
        return one(connection, job_id, parent_id)

    monkeypatch.setattr(dependencies, "dependency_result", counting)

    @workshop.registry.job("test.join")
    def join(payload: Any, context: Any) -> None:
        results = context.dependency_results
        assert len(results) == 13
        assert fetched == []
        seen.update(results)
        assert results.get(UUID(int=1)) is None
        with pytest.raises(KeyError):
            results[UUID(int=1)]

    payloads = [None, *(f"{number:02}" * 1500 for number in range(12))]
    parents = put_many(connection, [{"payload": payload} for payload in payloads])
    put(connection, type="test.join", dependency_ids=parents)
    workshop.work()
    assert tally(connection) == {"completed": 14}
    assert seen == dict(zip(parents, payloads, strict=True))
    assert len(fetched) == 9


@pytest.mark.case("W4")
def test_a_result_is_handed_to_the_dependents_alone(connection: Connection) -> None:
    parent, other = put_many(connection, [{}, {}])
    child = put(connection, dependency_ids=[parent])
    complete(connection, *claim(connection))
    assert dependencies.dependency_result(connection, child, parent) is None
    with pytest.raises(IndexError):
        dependencies.dependency_result(connection, child, other)
