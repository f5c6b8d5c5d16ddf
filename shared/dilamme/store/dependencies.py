"""What follows a job's end (``sql/finish.sql``)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from dilamme.store.arrays import UuidArray
from dilamme.store.connection import Connection, fetch


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that has just ended, as its fenced update returned it."""

    id: UUID
    type: str
    attempt: int
    scheduled_at: datetime
    series_id: UUID | None
    replayed: bool


@dataclass(frozen=True, slots=True)
class Series:
    """A chain of occurrences, locked."""

    id: UUID
    interval_seconds: int
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class Next:
    """The next occurrence of a series."""

    id: UUID
    previous_id: UUID
    slot: datetime
    unmet: int


def release(connection: Connection, ids: Collection[UUID]) -> list[bool]:
    """Counts down the children of completed jobs. For each that came free: can it run now?"""
    return [row["due"] for row in fetch(connection, "release", {"ids": UuidArray(ids)}) if row["free"]]


def cancel_dependents(connection: Connection, ids: Collection[UUID]) -> list[tuple[UUID, UUID | None]]:
    """Cancels the children that asked for it; their ids and series."""
    return [(row["id"], row["series_id"]) for row in fetch(connection, "cancel_dependents", {"ids": list(ids)})]


def lock_series(connection: Connection, ids: Collection[UUID]) -> dict[UUID, Series]:
    """The series, held still until the transaction ends."""
    return {row["id"]: Series(**row) for row in fetch(connection, "lock_series", {"ids": list(ids)})}


def end_series(connection: Connection, ids: Collection[UUID]) -> int:
    """Ends series; how many had not ended before."""
    return len(fetch(connection, "end_series", {"ids": list(ids)}))


def edges_of(connection: Connection, ids: Collection[UUID]) -> list[tuple[UUID, UUID]]:
    """The (child, parent) pairs of these children."""
    return [(row["child_id"], row["parent_id"]) for row in fetch(connection, "edges_of", {"ids": list(ids)})]


def insert_next(connection: Connection, occurrences: Sequence[Next]) -> list[UUID]:
    """Stores next occurrences; the ids of those that did not exist and whose series has not ended."""
    parameters = {
        "ids": [occurrence.id for occurrence in occurrences],
        "previous_ids": [occurrence.previous_id for occurrence in occurrences],
        "slots": [occurrence.slot for occurrence in occurrences],
        "unmet": [occurrence.unmet for occurrence in occurrences],
    }
    return [row["id"] for row in fetch(connection, "insert_next", parameters)]


def clock(connection: Connection) -> datetime:
    """The database's time: the only clock there is."""
    now: datetime = fetch(connection, "clock")[0]["now"]
    return now
