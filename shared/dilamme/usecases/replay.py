"""Revive dead jobs: their attempts begin anew, their errors stay."""

from uuid import UUID

from dilamme.domain.errors import Conflict, NotFound
from dilamme.domain.job import Status
from dilamme.store import jobs
from dilamme.store.connection import Connection, repeat_on_conflict, transaction
from dilamme.wire.requests import REPLAY_JOBS_MAX


@repeat_on_conflict
def replay_job(connection: Connection, job_id: UUID) -> bool:
    """Revives a dead job. False if it was replayed before and has not died since.

    Raises:
        NotFound: there is no such job.
        Conflict: it never died.
    """
    with transaction(connection):
        job = jobs.lock_job(connection, job_id)
        if job is None:
            raise NotFound(f"no job has the id {job_id}")
        if job.status is Status.DEAD:
            return bool(jobs.replay(connection, [job_id]))
        if not job.replayed:
            raise Conflict(f"the job is {job.status}: only a dead job can be replayed")
        return False


@repeat_on_conflict
def replay_dead(connection: Connection, type_: str | None, limit: int = REPLAY_JOBS_MAX) -> list[UUID]:
    """Revives the ``limit`` oldest dead jobs, of one type or of all; their ids. Repeat until it returns none."""
    with transaction(connection):
        return jobs.replay(connection, jobs.dead_jobs(connection, type_, limit))
