"""For random jobs, ages, ties and settings: lanes + heap = sorting everything, and SQL's order = Python's order."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dilamme.domain.job import Head
from dilamme.domain.priority import effective_priority, order_key
from dilamme.scheduler.tick import most_urgent
from dilamme.store import lanes, slots
from dilamme.store.connection import Connection, connect
from dilamme.store.sql_blocks import fragments
from dilamme.testing.clock import START, Clock
from dilamme.testing.databases import Databases
from tests.support.jobs import terms

MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Planted:
    """A pending job, its times in microseconds before `START`: negative ones lie ahead."""

    id: UUID
    priority: int
    ready_for: int
    created_before: int
    unmet: int

    @property
    def head(self) -> Head:
        return Head(
            self.id, self.priority, START - self.ready_for * MICROSECOND, START - self.created_before * MICROSECOND
        )


# Few values, so that they collide: with each other (ties) and with the steps of the common settings.
TIMES = st.one_of(
    st.sampled_from([0, 1, 29_999_999, 30_000_000, 30_000_001, 60_000_000, 10**9]), st.integers(-(10**6), 10**8)
)
AGEING = st.one_of(st.sampled_from([0, 30, 0.000001, 0.0000004, 0.5, 1 / 3, 86_400]), st.floats(0, 1e5))
LATER = st.one_of(st.just(0), st.integers(0, 10**8))
JOBS = st.lists(
    st.builds(
        Planted,
        id=st.uuids(),
        priority=st.integers(1, 3),
        ready_for=TIMES,
        created_before=TIMES,
        unmet=st.sampled_from([0, 0, 0, 1]),
    ),
    max_size=30,
    unique_by=lambda job: job.id,
)


@dataclass(frozen=True)
class Stage:
    """One database for all examples; each leaves nothing behind."""

    connection: Connection
    clock: Clock

    @contextmanager
    def set(self, jobs: list[Planted], later: int) -> Iterator[Connection]:
        """The jobs, seen ``later`` microseconds after `START`."""
        with self.connection.transaction(force_rollback=True):
            self.clock.set(START + later * MICROSECOND)
            columns = [list(column) for column in zip(*map(astuple, jobs), strict=True)] or [[]] * 5
            self.connection.execute(
                "INSERT INTO dilamme.jobs (id, type, status, priority, max_attempts, unmet_dependencies, created_at,"
                " scheduled_at, ready_at, payload)"
                " SELECT p.id, 'test.echo', 'pending', p.priority, 25, p.unmet, %s - p.created_before * interval '1 us',"
                "        %s, %s - p.ready_for * interval '1 us', '{}'"
                " FROM unnest(%s::uuid[], %s::int[], %s::bigint[], %s::bigint[], %s::int[])"
                "      AS p (id, priority, ready_for, created_before, unmet)",
                (START, START, START, *columns),
            )
            yield self.connection


@pytest.fixture(scope="module")
def stage(databases: Databases) -> Iterator[Stage]:
    name = databases.create()
    with closing(connect(databases.server.url(name))) as connection:
        yield Stage(connection, Clock(connection, stopped_at=START))
    databases.drop(name)


def _in_order(jobs: list[Planted], later: int, ageing_seconds: float) -> list[UUID]:
    """All that can run, sorted by the comparator."""
    now = START + later * MICROSECOND
    ready = [job.head for job in jobs if job.unmet == 0 and job.head.ready_at <= now]
    return [head.id for head in sorted(ready, key=order_key(now, ageing_seconds))]


@settings(max_examples=150, deadline=None)
@given(jobs=JOBS, later=LATER, ageing_seconds=AGEING, limit=st.integers(1, 40))
def test_the_lanes_heads_in_the_heap_come_out_as_if_everything_had_been_sorted(
    stage: Stage, jobs: list[Planted], later: int, ageing_seconds: float, limit: int
) -> None:
    with stage.set(jobs, later) as connection:
        heads = lanes.lane_heads(connection, limit)
    assert len(heads) <= 3 * limit
    urgent = most_urgent(heads, limit, START + later * MICROSECOND, ageing_seconds)
    assert [head.id for head in urgent] == _in_order(jobs, later, ageing_seconds)[:limit]


@settings(max_examples=150, deadline=None)
@given(jobs=JOBS, later=LATER, ageing_seconds=AGEING, limit=st.integers(1, 40), over_fetch=st.integers(0, 5))
def test_a_claim_takes_the_most_urgent_in_the_comparators_order(
    stage: Stage, jobs: list[Planted], later: int, ageing_seconds: float, limit: int, over_fetch: int
) -> None:
    with stage.set(jobs, later) as connection:
        offered = terms(limit, reach=limit + over_fetch, ageing_seconds=ageing_seconds)
        claimed = lanes.claim(connection, offered, uuid4())
    assert [one.id for one in claimed] == _in_order(jobs, later, ageing_seconds)[:limit]


@settings(max_examples=75, deadline=None)
@given(jobs=JOBS, later=LATER, ageing_seconds=AGEING, limit=st.integers(1, 40))
def test_a_first_claim_takes_them_in_that_order_too(
    stage: Stage, jobs: list[Planted], later: int, ageing_seconds: float, limit: int
) -> None:
    with stage.set(jobs, later) as connection:
        slots.provide_slots(connection, 1)
        (invitation,) = slots.reserve(connection, [uuid4()], 1, 60)
        offered = terms(limit, worker=invitation.token, ageing_seconds=ageing_seconds)
        claimed = lanes.start_and_claim(connection, offered, uuid4(), invitation.slot)
    assert claimed is not None
    assert [one.id for one in claimed] == _in_order(jobs, later, ageing_seconds)[:limit]


@settings(max_examples=75, deadline=None)
@given(jobs=JOBS, later=LATER, ageing_seconds=AGEING)
def test_a_claim_of_what_was_handed_out_keeps_the_comparators_order(
    stage: Stage, jobs: list[Planted], later: int, ageing_seconds: float
) -> None:
    with stage.set(jobs, later) as connection:
        offered = terms(40, ageing_seconds=ageing_seconds)
        handed = [job.id for job in jobs]
        claimed = lanes.claim_handed(connection, offered, uuid4(), handed, START + later * MICROSECOND, 1.0)
    assert [one.id for one in claimed] == _in_order(jobs, later, ageing_seconds)


@settings(max_examples=150, deadline=None)
@given(jobs=JOBS, later=LATER, ageing_seconds=AGEING)
def test_the_effective_priority_is_the_same_number_in_sql_and_in_python(
    stage: Stage, jobs: list[Planted], later: int, ageing_seconds: float
) -> None:
    now = START + later * MICROSECOND
    expression = fragments()["effective"]
    with stage.set(jobs, later) as connection:
        found = connection.execute(
            f"SELECT id, {expression} FROM dilamme.jobs AS job",
            lanes._parameters(terms(ageing_seconds=ageing_seconds), uuid4()),
        ).fetchall()
    expected = {job.id: effective_priority(job.priority, job.head.ready_at, now, ageing_seconds) for job in jobs}
    assert dict(found) == expected
