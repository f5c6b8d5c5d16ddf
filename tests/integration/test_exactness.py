"""Several sessions claim at once: no job twice, none passed over, whatever plan PostgreSQL chooses."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from threading import Barrier
from uuid import UUID, uuid4

import pytest

from dilamme.domain.job import Claim, Head
from dilamme.domain.priority import order_key
from dilamme.store import lanes, series
from dilamme.store.connection import Connection
from dilamme.testing.clock import Clock
from tests.integration.paused import pause
from tests.support.entrance import Enter
from tests.support.jobs import claim, put_many, terms
from tests.support.rivals import meanwhile, wait_until_blocked

SESSIONS = 8
PLANS = {
    "as it comes": [],
    "without hash joins": ["enable_hashjoin"],
    "with nested loops only": ["enable_hashjoin", "enable_mergejoin"],
    "without nested loops": ["enable_nestloop"],
    "without indexes": ["enable_indexscan", "enable_bitmapscan", "enable_indexonlyscan"],
}


def _at_once(connections: list[Connection], step: Callable[[Connection], list[Claim]]) -> list[list[Claim]]:
    """Each connection's step, all begun in the same moment."""
    barrier = Barrier(len(connections))

    def begin(connection: Connection) -> list[Claim]:
        barrier.wait()
        return step(connection)

    with ThreadPoolExecutor(max_workers=len(connections)) as executor:
        return list(executor.map(begin, connections))


def _sessions(enter: Enter, plan: str) -> list[Connection]:
    connections = [enter("worker") for _ in range(SESSIONS)]
    for connection in connections:
        for way in PLANS[plan]:
            connection.execute(f"SET {way} = off")
    return connections


@pytest.mark.case("O4")
@pytest.mark.parametrize("plan", PLANS)
def test_eight_sessions_share_fifty_jobs_without_a_double(connection: Connection, enter: Enter, plan: str) -> None:
    """O4: limit 10, three rounds, under every kind of join that PostgreSQL may choose."""
    sessions = _sessions(enter, plan)
    for _ in range(3):
        posted = put_many(connection, [{}] * 50)
        claimed = _at_once(sessions, lambda session: claim(session, limit=10, reach=100))
        assert max(map(len, claimed)) <= 10
        ids = [one.id for one in chain.from_iterable(claimed)]
        assert len(ids) == len(set(ids))
        rest = claim(connection, limit=50, reach=100)
        assert sorted([*ids, *(one.id for one in rest)]) == posted


@pytest.mark.case("O4")
@pytest.mark.parametrize("plan", ["as it comes", "with nested loops only"])
def test_what_parallel_claims_took_is_a_prefix_of_the_order(
    connection: Connection, clock: Clock, enter: Enter, plan: str
) -> None:
    """What exact means (ARCHITECTURE, decisions): no claimed job was preceded by one that was claimable and unlocked in the claim's snapshot.

    Nothing comes back here, so a job that was passed over would be a hole in what all of them took together. One
    claim's jobs come in order, and each claim of a session lies behind its last one.
    """
    for second in range(20):
        put_many(connection, [{"priority": 1 + (place * 7 + second) % 3} for place in range(30)])
        clock.advance(4)
    order = [head.id for head in _sorted_heads(connection, clock)]
    place = {job_id: number for number, job_id in enumerate(order)}

    def claim_thrice(session: Connection) -> list[Claim]:
        return [one for _ in range(3) for one in claim(session, limit=12, reach=SESSIONS * 36)]

    claimed = _at_once(_sessions(enter, plan), claim_thrice)
    for by_one in claimed:
        places = [place[one.id] for one in by_one]
        assert places == sorted(places)
    taken = {one.id for one in chain.from_iterable(claimed)}
    assert len(taken) == SESSIONS * 36
    assert taken == set(order[: len(taken)])


def _sorted_heads(connection: Connection, clock: Clock) -> list[Head]:
    heads = lanes.lane_heads(connection, 10_000)
    return sorted(heads, key=order_key(clock.now, 30.0))


@pytest.mark.case("O6")
def test_a_claim_whose_snapshot_is_older_than_a_rivals_commit_takes_the_next_ones_instead(
    connection: Connection, enter: Enter
) -> None:
    """O6 inside one statement: it has read the heads, a rival claims three of them and commits, and only then it locks."""
    ids = put_many(connection, [{}] * 8)
    late, rival = enter("worker"), enter("worker")
    with pause(connection, late) as resume, meanwhile(lambda: claim(late, limit=3, reach=8)) as claiming:
        wait_until_blocked(connection, late)
        assert [one.id for one in claim(rival, limit=3)] == ids[:3]
        resume()
        assert [one.id for one in claiming.result(20)] == ids[3:6]


@pytest.mark.case("O6")
def test_a_claim_of_handed_ids_refuses_what_a_rival_took_since_its_snapshot(
    connection: Connection, enter: Enter
) -> None:
    """O6, for the claim of what the scheduler chose."""
    ids = put_many(connection, [{}] * 6)
    now = series.clock(connection)
    late, rival = enter("worker"), enter("worker")

    def claim_late() -> list[UUID]:
        return [one.id for one in lanes.claim_handed(late, terms(6), uuid4(), ids, now, 60.0)]

    with pause(connection, late) as resume, meanwhile(claim_late) as claiming:
        wait_until_blocked(connection, late)
        claim(rival, limit=3)
        resume()
        assert claiming.result(20) == ids[3:]


def test_rows_that_rivals_hold_locked_are_passed_over_not_waited_for(connection: Connection, enter: Enter) -> None:
    ids = put_many(connection, [{}] * 6)
    rival, other = enter("worker"), enter("worker")
    with rival.transaction():
        assert [one.id for one in claim(rival, limit=2)] == ids[:2]
        assert [one.id for one in claim(other, limit=2)] == ids[2:4]


def test_a_claim_meets_no_lock_of_a_foreign_key(connection: Connection, enter: Enter) -> None:
    """A rival stores an edge to a pending parent: the foreign key's own lock does not hide the parent from a claim."""
    (parent,) = put_many(connection, [{}])
    (child,) = put_many(connection, [{"scheduled_at": "2100-01-01T00:00:00Z"}])
    rival = enter("api")
    with rival.transaction():
        rival.execute("INSERT INTO dilamme.job_dependencies (child_id, parent_id) VALUES (%s, %s)", (child, parent))
        assert [one.id for one in claim(enter("worker"))] == [parent]
