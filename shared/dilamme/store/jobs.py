"""Jobs: stored, cancelled, replayed (``sql/jobs.sql``)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar, cast
from uuid import UUID

from dilamme.domain.job import Ended, Status
from dilamme.store.arrays import TextArray, UuidArray, sparse_array
from dilamme.store.connection import Connection, Row, fetch, fetch_as, fetch_tuples
from dilamme.store.job_columns import CHOSEN

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NewJobs:
    """Rows of ``dilamme.jobs`` to be stored. The keys of the mappings are indices of jobs.

    ``chosen`` has a list of values for each column of `dilamme.store.job_columns.CHOSEN`. ``unmet`` is the number of
    dependencies that a job waits for. A job in ``failures`` is stored as cancelled, with that message.
    """

    ids: Sequence[UUID]
    chosen: Mapping[str, Sequence[Any]]
    scheduled_at: Sequence[datetime | None]
    unmet: Mapping[int, int]
    series_ids: Mapping[int, UUID]
    failures: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class LockedJob:
    """The state of a job; it cannot change until the transaction ends."""

    status: Status
    replayed: bool


def insert(connection: Connection, jobs: NewJobs, idempotency_key: str | None) -> list[tuple[bool, bool]]:
    """Stores the jobs; (free, due) for each: has it no unmet dependency, and has its time come?"""
    return cast("list[tuple[bool, bool]]", fetch_tuples(connection, "insert", _columns(jobs, idempotency_key)))


def insert_one(connection: Connection, job: NewJobs, idempotency_key: str | None) -> Row:
    """Stores one job; its row as `dilamme.store.reads.find_job` gives it, without the interval and the dependencies.

    ``max_attempts`` is None if neither the job nor its type gives any.
    """
    return fetch(connection, "insert_one", _columns(job, idempotency_key))[0]


def _columns(jobs: NewJobs, idempotency_key: str | None) -> dict[str, str | UuidArray | TextArray | None]:
    def spread(values: Mapping[int, T]) -> list[T | None]:
        return [values.get(index) for index in range(len(jobs.ids))] if values else []

    return {
        **{column.name: column.spell(jobs.chosen[column.name]) for column in CHOSEN},
        "ids": UuidArray(jobs.ids),
        "unmet": sparse_array(spread(jobs.unmet)),
        "scheduled_at": sparse_array(jobs.scheduled_at, datetime.isoformat),
        "series_ids": sparse_array(spread(jobs.series_ids)),
        "failures": sparse_array(spread(jobs.failures)),
        "idempotency_key": idempotency_key,
    }


def lock_job(connection: Connection, job_id: UUID) -> LockedJob | None:
    """Locks a job until the transaction ends; None if there is no such job."""
    rows = fetch(connection, "lock_job", {"id": job_id})
    return LockedJob(Status(rows[0]["status"]), rows[0]["replayed"]) if rows else None


def cancel(connection: Connection, ids: Collection[UUID], message: str) -> list[Ended]:
    """Cancels those of the jobs that are pending."""
    return fetch_as(connection, Ended, "cancel", {"ids": list(ids), "message": message})


def replay(connection: Connection, ids: Collection[UUID]) -> list[UUID]:
    """Revives those of the jobs that are dead; their ids."""
    return [row["id"] for row in fetch(connection, "replay", {"ids": list(ids)})]


def dead_jobs(connection: Connection, type_: str | None, limit: int) -> list[UUID]:
    """The oldest dead jobs, of one type or of all."""
    return [row["id"] for row in fetch(connection, "dead_jobs", {"type": type_, "limit": limit})]


def any_dead(connection: Connection, type_: str | None) -> bool:
    """Is there a dead job, of one type or of any?"""
    return bool(fetch(connection, "any_dead", {"type": type_})[0]["found"])
