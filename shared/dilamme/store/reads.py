"""Questions about jobs, each with a bounded answer (``sql/reads.sql``)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from uuid import UUID

from dilamme.domain.job import TERMINAL, Status
from dilamme.domain.queue_position import Bound
from dilamme.store.connection import Connection, Row, fetch

# The block that finds the few jobs of a status.
_FEW = {Status.PENDING: "few_pending", Status.RUNNING: "few_running", **dict.fromkeys(TERMINAL, "few_finished")}


@dataclass(frozen=True, slots=True)
class Filter:
    """The filter of a list; None does not filter."""

    status: Status | None = None
    type: str | None = None
    priority: int | None = None
    series_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Slice:
    """A page of a list: at most ``limit`` jobs, older than ``before``."""

    before: UUID
    limit: int
    max_attempts: int  # the setting, for a job if neither it nor its type gives a value


def find_job(connection: Connection, job_id: UUID, max_attempts: int) -> Row | None:
    """A job in full, or None."""
    rows = fetch(connection, "find_job", {"id": job_id, "max_attempts": max_attempts})
    return rows[0] if rows else None


def statuses_of(connection: Connection, ids: Collection[UUID]) -> dict[UUID, Status]:
    """The statuses of those ids that exist."""
    return {row["id"]: Status(row["status"]) for row in fetch(connection, "statuses_of", {"ids": list(ids)})}


def few_of_status(connection: Connection, status: Status, limit: int) -> list[UUID]:
    """Up to ``limit`` jobs of a status, in no particular order."""
    return [row["id"] for row in fetch(connection, _FEW[status], {"status": status, "limit": limit})]


def few_in_series(connection: Connection, series_id: UUID, limit: int) -> list[UUID]:
    """Up to ``limit`` jobs of a series, in no particular order."""
    return [row["id"] for row in fetch(connection, "few_in_series", {"series_id": series_id, "limit": limit})]


def page_among(connection: Connection, ids: Sequence[UUID], filter_: Filter, slice_: Slice) -> list[Row]:
    """The slice of those ``ids`` that pass the filter, newest first."""
    return fetch(connection, "page_among", {**asdict(filter_), **asdict(slice_), "ids": list(ids)})


def page_of_window(connection: Connection, reach: int, filter_: Filter, slice_: Slice) -> tuple[list[Row], UUID | None]:
    """Those of the next ``reach`` jobs that pass the filter, newest first; the last of them all, if the page is not full."""
    rows = fetch(connection, "page_of_window", {**asdict(filter_), **asdict(slice_), "reach": reach})
    return [row for row in rows if row["id"] is not None], rows[0]["window_end"]


def explain_job(connection: Connection, job_id: UUID, max_attempts: int) -> Row | None:
    """A job and everything that may keep it from running, or None."""
    rows = fetch(connection, "explain_job", {"id": job_id, "max_attempts": max_attempts})
    return rows[0] if rows else None


def waits_on(connection: Connection, job_id: UUID, limit: int) -> list[Row]:
    """Up to ``limit`` dependencies that have not completed, {id, status}, dead and cancelled ones first."""
    return fetch(connection, "waits_on", {"id": job_id, "limit": limit})


def count_ahead(connection: Connection, bounds: Mapping[int, Bound], limit: int) -> int:
    """The number of ready jobs below their lane's bound; each lane is counted up to ``limit``."""
    parameters = {
        "priorities": list(bounds),
        "ready_at": [bound.ready_at for bound in bounds.values()],
        "created_at": [bound.created_at for bound in bounds.values()],
        "ids": [bound.id for bound in bounds.values()],
        "limit": limit,
    }
    ahead: int = fetch(connection, "count_ahead", parameters)[0]["ahead"]
    return ahead
