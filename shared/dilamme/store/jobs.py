"""Storing jobs: keys, parents, rows, edges (``sql/submit.sql``)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar, cast
from uuid import UUID

from psycopg.types.json import Jsonb

from dilamme.domain.job import OnDependencyFailure, Status
from dilamme.store.arrays import UuidArray, number_array, sparse_array, text_array, word_array
from dilamme.store.connection import Connection, Row, fetch, fetch_tuples, run
from dilamme.wire.requests import Submission

T = TypeVar("T")
_USUAL_POLICY = OnDependencyFailure.WAIT  # the statement's own, where none is given


@dataclass(frozen=True, slots=True)
class NewJobs:
    """Rows of ``dilamme.jobs`` about to be stored: what was asked for, and, by its places, what goes with it.

    ``unmet`` counts the dependencies that a job waits for; a job with one of the ``failures`` is stored as cancelled.
    """

    ids: Sequence[UUID]
    asked: Sequence[Submission]
    unmet: Mapping[int, int]
    series_ids: Mapping[int, UUID]
    failures: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class KeptKey:
    """What an idempotency key stands for."""

    request_hash: bytes
    job_ids: list[UUID]
    refs: list[str | None]


def take_key(
    connection: Connection, key: str, request_hash: bytes, job_ids: Sequence[UUID], refs: Sequence[str | None]
) -> bool:
    """Is the key ours? Waits for a rival that is storing the same one."""
    parameters = {"key": key, "request_hash": request_hash, "job_ids": list(job_ids), "refs": Jsonb(list(refs))}
    return bool(fetch(connection, "take_key", parameters))


def find_key(connection: Connection, key: str) -> KeptKey | None:
    """What the key stands for, or None if it has been pruned meanwhile."""
    rows = fetch(connection, "find_key", {"key": key})
    return KeptKey(**rows[0]) if rows else None


def lock_parents(connection: Connection, ids: Collection[UUID]) -> dict[UUID, Status]:
    """The statuses of those ids that exist, held still until the transaction ends."""
    rows = fetch(connection, "lock_parents", {"ids": list(ids)})
    return {row["id"]: Status(row["status"]) for row in rows}


def insert_series(connection: Connection, ids: Sequence[UUID], interval_seconds: Sequence[int]) -> None:
    """Opens series, one an interval in seconds."""
    run(connection, "insert_series", {"ids": list(ids), "interval_seconds": list(interval_seconds)})


def insert(connection: Connection, jobs: NewJobs, idempotency_key: str | None) -> list[tuple[bool, bool]]:
    """Stores the jobs; (free, due) each: does it wait for nothing but its time, and has that come?"""
    return cast("list[tuple[bool, bool]]", fetch_tuples(connection, "insert", _columns(jobs, idempotency_key)))


def insert_one(connection: Connection, job: NewJobs, idempotency_key: str | None) -> Row:
    """Stores the one job; its row as `dilamme.store.reads.find_job` gives it, but for what comes from elsewhere.

    That is its interval, its dependencies, and the setting for ``max_attempts``: None where neither it nor its type
    gives any.
    """
    return fetch(connection, "insert_one", _columns(job, idempotency_key))[0]


def _columns(jobs: NewJobs, idempotency_key: str | None) -> dict[str, str | UuidArray | None]:
    asked = jobs.asked
    policies = [None if job.on_dependency_failure is _USUAL_POLICY else job.on_dependency_failure for job in asked]
    return {
        "ids": UuidArray(jobs.ids),
        "types": word_array([job.type for job in asked]),
        "priorities": number_array([job.priority for job in asked]),
        "max_attempts": sparse_array([job.max_attempts for job in asked]),
        "unmet": sparse_array(_spread(jobs.unmet, len(asked))),
        "policies": sparse_array(policies),
        "scheduled_at": sparse_array([job.scheduled_at for job in asked], datetime.isoformat),
        "series_ids": sparse_array(_spread(jobs.series_ids, len(asked))),
        "payloads": text_array([job.payload for job in asked]),
        "failures": sparse_array(_spread(jobs.failures, len(asked))),
        "idempotency_key": idempotency_key,
    }


def _spread(values: Mapping[int, T], count: int) -> list[T | None]:
    return [values.get(place) for place in range(count)] if values else []


def insert_edges(connection: Connection, edges: Sequence[tuple[UUID, UUID]]) -> None:
    """Stores (child, parent) pairs."""
    child_ids, parent_ids = [child for child, _ in edges], [parent for _, parent in edges]
    run(connection, "insert_edges", {"child_ids": child_ids, "parent_ids": parent_ids})
