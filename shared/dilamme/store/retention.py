"""The leader's bounded chores (``sql/upkeep.sql``)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from dilamme.store.connection import Connection, Row, fetch, run


@dataclass(frozen=True, slots=True)
class Checked:
    """A job whose counter was held against its parents."""

    id: UUID
    blocked: bool
    disagrees: bool


def sweep(connection: Connection, reach: int) -> list[Checked]:
    """Checks ``reach`` blocked jobs after the sweep's cursor, and the heads of the lanes; in id order."""
    return [Checked(**row) for row in fetch(connection, "sweep", {"reach": reach})]


def mend(connection: Connection, ids: Sequence[UUID]) -> list[UUID]:
    """Sets counters to what the parents say; those that were wrong."""
    return [row["id"] for row in fetch(connection, "mend", {"ids": list(ids)})]


def lock_prunable(connection: Connection, status: str, keep_seconds: float, most: int) -> list[UUID]:
    """Jobs past their retention that no live job waits on."""
    parameters = {"status": status, "keep": timedelta(seconds=keep_seconds), "most": most}
    return [row["id"] for row in fetch(connection, "lock_prunable", parameters)]


def prune_edges(connection: Connection, ids: Sequence[UUID]) -> None:
    """Deletes the edges below these jobs, unless a live child came in between."""
    run(connection, "prune_edges", {"ids": list(ids)})


def prune(connection: Connection, ids: Sequence[UUID], status: str, keep_seconds: float) -> list[Row]:
    """Deletes those jobs that still may be; {id, idempotency_key, series_id} each."""
    parameters = {"ids": list(ids), "status": status, "keep": timedelta(seconds=keep_seconds)}
    return fetch(connection, "prune", parameters)


def prune_keys(connection: Connection, keys: Sequence[str]) -> None:
    """Deletes idempotency keys none of whose jobs is left."""
    run(connection, "prune_keys", {"keys": list(keys)})


def prune_series(connection: Connection, ids: Sequence[UUID]) -> None:
    """Deletes series none of whose jobs is left."""
    run(connection, "prune_series", {"ids": list(ids)})
