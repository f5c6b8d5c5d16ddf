"""Cancel a job that has not started, or a series in any state."""

from uuid import UUID

from dilamme.domain.errors import Conflict, NotFound
from dilamme.domain.job import Status
from dilamme.store import jobs, series
from dilamme.store.connection import Connection, repeat_on_conflict, transaction
from dilamme.usecases import consequences


@repeat_on_conflict
def cancel_job(connection: Connection, job_id: UUID) -> None:
    """Cancels a pending job; a second call changes nothing. If the job belongs to a series, the next occurrence is stored.

    Raises:
        NotFound: there is no such job.
        Conflict: it is running, or has ended otherwise.
    """
    with transaction(connection):
        if series_id := series.series_of(connection, job_id):
            series.lock_series(connection, [series_id])
        job = jobs.lock_job(connection, job_id)
        if job is None:
            raise NotFound(f"no job has the id {job_id}")
        if job.status is Status.CANCELLED:
            return
        if job.status is not Status.PENDING:
            raise Conflict(f"the job is {job.status}: only a pending job can be cancelled")
        consequences.of_failure(connection, jobs.cancel(connection, [job_id], "cancelled on request"))


@repeat_on_conflict
def cancel_series(connection: Connection, series_id: UUID) -> bool:
    """Ends a series: pending occurrences are cancelled, a running one finishes without a successor. False if it had ended.

    Raises:
        NotFound: there is no such series.
    """
    with transaction(connection):
        if not series.lock_series(connection, [series_id]):
            raise NotFound(f"no series has the id {series_id}")
        ended = series.end_series(connection, [series_id])
        pending = series.pending_of_series(connection, series_id)
        consequences.of_failure(connection, jobs.cancel(connection, pending, "its series was cancelled"))
        return bool(ended)
