"""A job's position in line, without a look at the jobs ahead of it.

Inside one lane the comparator's order is (ready time, creation, id), at any time. So the jobs that precede a given one are
the lane's first n. The ageing formula alone says where they end, and PostgreSQL has to count only a range of an index.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from dilamme.domain.priority import FIRST_MOMENT, HIGHEST, PRIORITIES, Orderable, aged_by, effective_priority

_LAST_MOMENT = datetime.max.replace(tzinfo=UTC)
_LAST_ID = UUID(int=2**128 - 1)


@dataclass(frozen=True, slots=True, order=True)
class Bound:
    """The end of a lane's first part: the jobs below it, as (ready_at, created_at, id), precede the given job."""

    ready_at: datetime
    created_at: datetime
    id: UUID


def bounds(job: Orderable, now: datetime, ageing_seconds: float) -> dict[int, Bound]:
    """For each priority, the end of the jobs ahead of ``job``, which is ready at ``now``.

    Two kinds are ahead: all jobs of a more urgent effective priority, and those of the same one that come before ``job``.
    Both are beginnings of the lane, so their union is the longer one.
    """
    effective = effective_priority(job.priority, job.ready_at, now, ageing_seconds)
    ends = {}
    for priority in PRIORITIES:
        more_urgent = _until(_aged_to(priority, effective - 1, now, ageing_seconds))
        as_urgent = _until(_aged_to(priority, effective, now, ageing_seconds))
        ends[priority] = max(more_urgent, min(as_urgent, Bound(job.ready_at, job.created_at, job.id)))
    return ends


def _until(ready_at: datetime) -> Bound:
    return Bound(ready_at, _LAST_MOMENT, _LAST_ID)


def _aged_to(priority: int, effective: int, now: datetime, ageing_seconds: float) -> datetime:
    """The latest ready time with which a job of ``priority`` has aged to ``effective``, or further, by ``now``."""
    steps = priority - effective
    if steps <= 0:
        return now
    aged = aged_by(steps, now, ageing_seconds) if effective >= HIGHEST else None
    return FIRST_MOMENT if aged is None else aged
