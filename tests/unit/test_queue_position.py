"""A job's place in line: what lies below the bounds is what precedes it, and nothing else."""

from datetime import datetime, timedelta
from uuid import UUID

from hypothesis import given

from dilamme.domain.job import Head
from dilamme.domain.priority import order_key
from dilamme.domain.queue_position import Bound, bounds
from dilamme.domain.retry import SECONDS_MAX
from tests.unit.strategies import EPOCH, NOW, lines


def ahead(job: Head, jobs: list[Head], now: datetime, ageing: float) -> list[Head]:
    """Those of ``jobs`` that lie below their lane's bound."""
    ends = bounds(job, now, ageing)
    return [rival for rival in jobs if Bound(rival.ready_at, rival.created_at, rival.id) < ends[rival.priority]]


@given(lines())
def test_below_the_bounds_are_the_jobs_that_precede_it(line: tuple[float, list[Head]]) -> None:
    ageing, jobs = line
    ready = [job for job in jobs if job.ready_at <= NOW]
    for job in ready:
        before = [rival for rival in ready if order_key(NOW, ageing)(rival) < order_key(NOW, ageing)(job)]
        assert ahead(job, ready, NOW, ageing) == before


def test_ageing_over_centuries_lets_nobody_overtake() -> None:
    waiting = Head(id=_id(1), priority=3, ready_at=EPOCH, created_at=EPOCH)
    fresh = Head(id=_id(2), priority=1, ready_at=NOW, created_at=NOW)
    assert ahead(waiting, [waiting, fresh], NOW, SECONDS_MAX * 100.0) == [fresh]
    assert ahead(fresh, [waiting, fresh], NOW, SECONDS_MAX * 100.0) == []


def test_one_who_has_just_aged_to_the_same_priority_comes_first_as_it_waits_longer() -> None:
    aged = Head(id=_id(2), priority=2, ready_at=NOW - timedelta(seconds=30), created_at=EPOCH)
    fresh = Head(id=_id(1), priority=1, ready_at=NOW, created_at=EPOCH)
    assert ahead(fresh, [aged, fresh], NOW, 30) == [aged]
    assert ahead(fresh, [aged, fresh], NOW - timedelta(microseconds=1), 30) == []


def _id(number: int) -> UUID:
    return UUID(int=number)
