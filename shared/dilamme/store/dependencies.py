"""The edges of the DAG, and the counters of what a job still waits for (``sql/dependencies.sql``)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from dilamme.domain.job import Status
from dilamme.store.arrays import UuidArray
from dilamme.store.connection import Connection, fetch, fetch_as, run

FIRST = UUID(int=0)


@dataclass(frozen=True, slots=True)
class CancelledDependent:
    """A job that was cancelled because its dependency failed."""

    id: UUID
    series_id: UUID | None
    is_child: bool  # not a descendant further down


@dataclass(frozen=True, slots=True)
class Checked:
    """A job whose counter was compared with its parents."""

    id: UUID
    blocked: bool
    disagrees: bool


def lock_parents(connection: Connection, ids: Collection[UUID]) -> dict[UUID, Status]:
    """The statuses of those ids that exist; they cannot change until the transaction ends."""
    rows = fetch(connection, "lock_parents", {"ids": list(ids)})
    return {row["id"]: Status(row["status"]) for row in rows}


def insert_edges(connection: Connection, edges: Sequence[tuple[UUID, UUID]]) -> None:
    """Stores (child, parent) pairs."""
    child_ids, parent_ids = [child for child, _ in edges], [parent for _, parent in edges]
    run(connection, "insert_edges", {"child_ids": child_ids, "parent_ids": parent_ids})


def edges_of(connection: Connection, ids: Collection[UUID]) -> list[tuple[UUID, UUID]]:
    """The (child, parent) pairs of these children."""
    return [(row["child_id"], row["parent_id"]) for row in fetch(connection, "edges_of", {"ids": list(ids)})]


def dependency_results(connection: Connection, job_id: UUID, characters: int) -> tuple[dict[UUID, Any], list[UUID]]:
    """The results of the jobs that this one waited for, by their ids: the first, up to ``characters``; the ids of the rest."""
    rows = fetch(connection, "dependency_results", {"id": job_id, "characters": characters})
    return {row["id"]: row["result"] for row in rows if row["is_here"]}, [
        row["id"] for row in rows if not row["is_here"]
    ]


def dependency_result(connection: Connection, job_id: UUID, parent_id: UUID) -> Any:
    """The result of one job that this one waited for."""
    return fetch(connection, "dependency_result", {"id": job_id, "parent_id": parent_id})[0]["result"]


def release(connection: Connection, ids: Collection[UUID]) -> list[bool]:
    """Counts down the children of completed jobs. For each that came free: can it run now?"""
    return [row["due"] for row in fetch(connection, "release", {"ids": UuidArray(ids)}) if row["free"]]


def cancel_dependents(
    connection: Connection, ids: Collection[UUID], limit: int, after: UUID = FIRST
) -> tuple[int, list[CancelledDependent]]:
    """Cancels up to ``limit`` descendants that asked for it; how many were found, and those that are cancelled.

    Of the children of ``ids``, those whose id is greater than ``after``. If there are more than ``limit``, they are the first.
    """
    rows = fetch(connection, "cancel_dependents", {"ids": list(ids), "limit": limit, "after": after})
    cancelled = [
        CancelledDependent(row["id"], row["series_id"], row["is_child"]) for row in rows if row["id"] is not None
    ]
    return rows[0]["found"], cancelled


def note_cascades(connection: Connection, after: Mapping[UUID, UUID]) -> None:
    """Notes those of these ended jobs that have a child left to cancel, after the id that is given for each."""
    run(connection, "note_cascades", {"ids": list(after), "after": list(after.values())})


def take_cascades(connection: Connection, limit: int) -> dict[UUID, UUID]:
    """Takes back up to ``limit`` such notes, or one that is not at its beginning."""
    return {row["job_id"]: row["after"] for row in fetch(connection, "take_cascades", {"limit": limit})}


def sweep(connection: Connection, reach: int) -> list[Checked]:
    """Checks ``reach`` blocked jobs after the sweep's cursor, and the heads of the lanes; in id order."""
    return fetch_as(connection, Checked, "sweep", {"reach": reach})


def mend(connection: Connection, ids: Sequence[UUID]) -> list[UUID]:
    """Counts the unmet dependencies anew; the ids of the jobs whose counters were wrong."""
    return [row["id"] for row in fetch(connection, "mend", {"ids": list(ids)})]
