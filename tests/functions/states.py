"""Puts a stored job into a state, as the functions that would have done so leave it."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from psycopg.types.json import Jsonb

from dilamme.store import slots
from dilamme.store.connection import Connection


def start(connection: Connection, job_id: str, worker: UUID | None = None) -> None:
    """As claimed by a worker."""
    connection.execute(
        "UPDATE dilamme.jobs SET status = 'running', attempt = attempt + 1, started_at = dilamme.clock(), worker = %s,"
        " token = %s, lease_expires_at = dilamme.clock() + interval '1 minute' WHERE id = %s AND status = 'pending'",
        (worker or uuid4(), uuid4(), job_id),
    )


def finish(connection: Connection, job_id: str, status: str, result: Any = None, error: str | None = None) -> None:
    """As ended in its first attempt; its children are not looked at."""
    start(connection, job_id)
    connection.execute(
        "UPDATE dilamme.jobs SET status = %s, finished_at = dilamme.clock(), worker = NULL, token = NULL,"
        " lease_expires_at = NULL, result = %s, errors = errors || CASE WHEN %s::text IS NULL THEN '[]' ELSE jsonb_build_array("
        " jsonb_build_object('reason', 'error', 'message', %s::text, 'attempt', attempt, 'at', dilamme.clock())) END"
        " WHERE id = %s AND status = 'running'",
        (status, Jsonb(result) if status == "completed" else None, error, error, job_id),
    )


def know_type(connection: Connection, type_: str, max_attempts: int | None = None) -> None:
    """As a worker that starts makes its types known."""
    connection.execute(
        "INSERT INTO dilamme.job_types VALUES (%s, %s, NULL, NULL, NULL, dilamme.clock())", (type_, max_attempts)
    )


def lead(connection: Connection, ticked_ago: timedelta = timedelta(0)) -> None:
    """As a scheduler that has just ticked, or did so a while ago."""
    connection.execute(
        "UPDATE dilamme.scheduler_lease SET owner = %s, last_tick_at = dilamme.clock() - %s,"
        " expires_at = dilamme.clock() - %s + interval '5 s'",
        (uuid4(), ticked_ago, ticked_ago),
    )


def occupy(connection: Connection, workers: int) -> list[UUID]:
    """As ``workers`` workers that have started; their tokens."""
    invitations = slots.reserve(connection, [uuid4() for _ in range(workers)], 1000, 60)
    for invitation in invitations:
        slots.start(connection, invitation.slot, invitation.token, 60)
    return [invitation.token for invitation in invitations]
