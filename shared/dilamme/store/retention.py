"""Retention: ended jobs are deleted once they are old enough (``sql/retention.sql``)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from dilamme.store.connection import Connection, fetch, fetch_as, run


@dataclass(frozen=True, slots=True)
class Pruned:
    """A deleted job, with its key and its series: it may have been the last job of either."""

    id: UUID
    idempotency_key: str | None
    series_id: UUID | None


def lock_prunable(connection: Connection, status: str, keep_seconds: float, limit: int) -> list[UUID]:
    """Jobs past their retention that no live job waits on."""
    parameters = {"status": status, "keep": timedelta(seconds=keep_seconds), "limit": limit}
    return [row["id"] for row in fetch(connection, "lock_prunable", parameters)]


def prune_edges(connection: Connection, ids: Sequence[UUID]) -> None:
    """Deletes the edges from these jobs to their children; those of a job with a new live child stay."""
    run(connection, "prune_edges", {"ids": list(ids)})


def prune(connection: Connection, ids: Sequence[UUID], status: str, keep_seconds: float) -> list[Pruned]:
    """Deletes those jobs that still may be deleted."""
    parameters = {"ids": list(ids), "status": status, "keep": timedelta(seconds=keep_seconds)}
    return fetch_as(connection, Pruned, "prune", parameters)
