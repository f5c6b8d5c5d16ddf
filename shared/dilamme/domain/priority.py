"""The comparator: effective priority, then ready time, then creation, then id.

    effective = max(1, priority - floor(wait / ageing_seconds))

Inside one original priority the order never changes with ``now``: who became ready earlier has aged at least as
much. So an index on (ready_at, created_at, id) is in effective order for every ``now``, and three index heads merge
into the global order (ARCHITECTURE, one job's life). `store/sql/lanes.sql` states the same formula in SQL; a property test holds the
two equal.
"""

from datetime import UTC, datetime, timedelta
from typing import Protocol
from uuid import UUID

HIGHEST, MEDIUM, LOWEST = 1, 2, 3

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# 62 bits hold the microseconds of years 1 to 9999 about the epoch, shifted to be positive.
_TIME_BITS = 62
_TIME_OFFSET = 1 << (_TIME_BITS - 1)
_ID_BITS = 128


class Orderable(Protocol):
    """What the comparator looks at."""

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


def order_key(job: Orderable, now: datetime, ageing_seconds: float) -> int:
    """The comparator's levels packed into one integer: smaller is more urgent.

    One int compares in a single step where a tuple compares level by level; the levels keep their weight because
    each lower one fits below the next (2 bits, 62, 62, 128).
    """
    effective = effective_priority(job.priority, job.ready_at, now, ageing_seconds)
    ready = microseconds(job.ready_at) + _TIME_OFFSET
    created = microseconds(job.created_at) + _TIME_OFFSET
    return (((effective << _TIME_BITS | ready) << _TIME_BITS | created) << _ID_BITS) | job.id.int
