"""The comparator: effective priority, then ready time, then creation, then id.

    effective = max(1, priority - floor(wait / ageing_seconds))

Inside one original priority the order never changes with ``now``: a job that became ready earlier has aged at least as
much. So an index on (ready_at, created_at, id) is in effective order for every ``now``, and three index heads merge into
the global order (ARCHITECTURE, one job's life). `store/sql/lanes.sql` states the same formula in SQL; a property test
holds the two equal.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol
from uuid import UUID

HIGHEST, MEDIUM, LOWEST = PRIORITIES = 1, 2, 3

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
FIRST_MOMENT = datetime.min.replace(tzinfo=UTC)

Key = tuple[int, datetime, datetime, int]


class Orderable(Protocol):
    """The fields that the comparator reads."""

    @property
    def id(self) -> UUID: ...
    @property
    def priority(self) -> int: ...
    @property
    def ready_at(self) -> datetime: ...
    @property
    def created_at(self) -> datetime: ...


def microseconds(moment: datetime) -> int:
    """Whole microseconds since 1970-01-01T00:00Z, exactly: a float would lose the last digits."""
    return (moment - _EPOCH) // _MICROSECOND


def effective_priority(priority: int, ready_at: datetime, now: datetime, ageing_seconds: float) -> int:
    """The priority after ageing, from 1 (most urgent) to ``priority``.

    Whole microseconds on both sides, as in SQL, so that both step at the same instant.
    """
    step = round(ageing_seconds * 1_000_000)
    if step == 0:
        return priority
    wait = max(0, microseconds(now) - microseconds(ready_at))
    return max(HIGHEST, priority - wait // step)


def aged_by(steps: int, now: datetime, ageing_seconds: float) -> datetime | None:
    """The latest ready time with which a job has aged by ``steps`` at ``now``; None if no time is early enough."""
    try:
        step = timedelta(microseconds=round(ageing_seconds * 1_000_000))
        return now - steps * step if step else None
    except OverflowError:
        return None


def order_key(now: datetime, ageing_seconds: float) -> Callable[[Orderable], Key]:
    """The comparator at ``now``: gives a job's key, its four levels; smaller is more urgent. Times must be in UTC.

    It is made once a tick and called for every head. So the formula is reduced to two times to compare with. The key is
    a tuple, made and compared in C; the rival, one integer of all four levels, would be made in Python.
    """
    # The first times that are too late to have aged once, and twice. Without ageing no time is early enough.
    latest = [aged_by(steps, now, ageing_seconds) for steps in (1, 2)]
    once, twice = [FIRST_MOMENT if moment is None else moment + _MICROSECOND for moment in latest]

    def key(job: Orderable) -> Key:
        effective, ready_at = job.priority, job.ready_at
        if effective > HIGHEST and ready_at < once:
            effective -= 2 if effective == LOWEST and ready_at < twice else 1
        return effective, ready_at, job.created_at, job.id.int

    return key
