"""What a person may do to a job (``sql/revise.sql``)."""

from collections.abc import Collection
from uuid import UUID

from dilamme.domain.job import Status
from dilamme.store.connection import Connection, Row, fetch
from dilamme.store.dependencies import Ended


def lock_job(connection: Connection, job_id: UUID) -> Row | None:
    """{id, status, series_id, scheduled_at, replayed}, held still; None if there is no such job."""
    rows = fetch(connection, "lock_job", {"id": job_id})
    return {**rows[0], "status": Status(rows[0]["status"])} if rows else None


def series_of(connection: Connection, job_id: UUID) -> UUID | None:
    """The series of a job, which must be locked before it."""
    rows = fetch(connection, "series_of", {"id": job_id})
    return rows[0]["series_id"] if rows else None


def cancel(connection: Connection, ids: Collection[UUID], message: str) -> list[Ended]:
    """Cancels those that are pending."""
    return [Ended(**row) for row in fetch(connection, "cancel", {"ids": list(ids), "message": message})]


def pending_of_series(connection: Connection, series_id: UUID) -> list[UUID]:
    """The occurrences that have not started."""
    return [row["id"] for row in fetch(connection, "pending_of_series", {"series_id": series_id})]


def replay(connection: Connection, ids: Collection[UUID]) -> list[UUID]:
    """Revives those that are dead; their ids."""
    return [row["id"] for row in fetch(connection, "replay", {"ids": list(ids)})]


def dead_jobs(connection: Connection, type_: str | None, most: int) -> list[UUID]:
    """The oldest dead jobs, of one type or of all."""
    return [row["id"] for row in fetch(connection, "dead_jobs", {"type": type_, "most": most})]
