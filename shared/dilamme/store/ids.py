"""Ids: UUIDv7 (RFC 9562), made here and not by PostgreSQL, so that a batch knows its ids before it is sent.

uuid-utils counts up within a millisecond, so in one process the order of ids is the order of creation. Across processes it
follows their clocks, which suffices for the last level of the comparator. The standard library has `uuid7` only from Python
3.14 on.
"""

from uuid import UUID

from uuid_utils.compat import uuid7


def new_id() -> UUID:
    """A new id, greater than every one before it in this process."""
    return uuid7()


def new_ids(count: int) -> list[UUID]:
    """``count`` new ids, ascending."""
    return [uuid7() for _ in range(count)]
