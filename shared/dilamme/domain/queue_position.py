"""A job's place in line, without looking at those before it.

Inside one lane the comparator's order is (ready time, creation, id), whatever the time, so the jobs that precede a
given one are a lane's first n. Where they end follows from the ageing formula alone, which leaves PostgreSQL an index
range to count.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from dilamme.domain.priority import FIRST_MOMENT, HIGHEST, LOWEST, Orderable, aged_by, effective_priority

_LAST_MOMENT = datetime.max.replace(tzinfo=UTC)
_LAST_ID = UUID(int=2**128 - 1)


@dataclass(frozen=True, slots=True, order=True)
class Bound:
    """The end of a lane's part: the jobs below it, as (ready_at, created_at, id), precede the job in question."""

    ready_at: datetime
    created_at: datetime
    id: UUID


def bounds(job: Orderable, now: datetime, ageing_seconds: float) -> dict[int, Bound]:
    """For each priority, where the ready jobs end that come before ``job``, itself ready at ``now``."""
    return {priority: _bound(priority, job, now, ageing_seconds) for priority in range(HIGHEST, LOWEST + 1)}


def _bound(priority: int, job: Orderable, now: datetime, ageing_seconds: float) -> Bound:
    """Those of a more urgent effective priority, and of those of the same one whoever is before ``job``.

    Both are beginnings of the lane, so their union is the longer one.
    """
    effective = effective_priority(job.priority, job.ready_at, now, ageing_seconds)
    more_urgent = _until(_aged_to(priority, effective - 1, now, ageing_seconds))
    as_urgent = _until(_aged_to(priority, effective, now, ageing_seconds))
    return max(more_urgent, min(as_urgent, Bound(job.ready_at, job.created_at, job.id)))


def _until(ready_at: datetime) -> Bound:
    return Bound(ready_at, _LAST_MOMENT, _LAST_ID)


def _aged_to(priority: int, effective: int, now: datetime, ageing_seconds: float) -> datetime:
    """The latest ready time at which a job of ``priority`` is of priority ``effective`` or more urgent by ``now``."""
    steps = priority - effective
    if steps <= 0:
        return now
    aged = aged_by(steps, now, ageing_seconds) if effective >= HIGHEST else None
    return FIRST_MOMENT if aged is None else aged
