"""Series of recurring jobs (``sql/series.sql``)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from dilamme.store.connection import Connection, fetch, fetch_as, run


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


def insert_series(connection: Connection, ids: Sequence[UUID], interval_seconds: Sequence[int]) -> None:
    """Opens a series for each interval, in seconds."""
    run(connection, "insert_series", {"ids": list(ids), "interval_seconds": list(interval_seconds)})


def series_of(connection: Connection, job_id: UUID) -> UUID | None:
    """The series of a job, which must be locked before the job."""
    rows = fetch(connection, "series_of", {"id": job_id})
    return rows[0]["series_id"] if rows else None


def lock_series(connection: Connection, ids: Collection[UUID]) -> dict[UUID, Series]:
    """Locks the series until the transaction ends."""
    return {one.id: one for one in fetch_as(connection, Series, "lock_series", {"ids": list(ids)})}


def end_series(connection: Connection, ids: Collection[UUID]) -> int:
    """Ends series; the number of those that had not ended before."""
    return len(fetch(connection, "end_series", {"ids": list(ids)}))


def pending_of_series(connection: Connection, series_id: UUID) -> list[UUID]:
    """The occurrences that have not started."""
    return [row["id"] for row in fetch(connection, "pending_of_series", {"series_id": series_id})]


def insert_next(connection: Connection, occurrences: Sequence[Next]) -> list[UUID]:
    """Stores next occurrences; the ids of those that were stored, since they were new and their series has not ended."""
    parameters = {
        "ids": [occurrence.id for occurrence in occurrences],
        "previous_ids": [occurrence.previous_id for occurrence in occurrences],
        "slots": [occurrence.slot for occurrence in occurrences],
        "unmet": [occurrence.unmet for occurrence in occurrences],
    }
    return [row["id"] for row in fetch(connection, "insert_next", parameters)]


def clock(connection: Connection) -> datetime:
    """The database's time: the one clock of all processes."""
    now: datetime = fetch(connection, "clock")[0]["now"]
    return now


def keep_keys(connection: Connection, keys: Mapping[UUID, str]) -> None:
    """Hands idempotency keys over to series, by their ids."""
    run(connection, "keep_keys", {"ids": list(keys), "keys": list(keys.values())})


def newest_of_key(connection: Connection, key: str) -> UUID | None:
    """The newest occurrence of the series that holds an idempotency key, or None."""
    rows = fetch(connection, "newest_of_key", {"key": key})
    return rows[0]["id"] if rows else None


def prune_series(connection: Connection, ids: Collection[UUID]) -> list[str]:
    """Deletes those series that have no job left; the idempotency keys that they held."""
    gone = fetch(connection, "prune_series", {"ids": list(ids)})
    return [row["idempotency_key"] for row in gone if row["idempotency_key"] is not None]
