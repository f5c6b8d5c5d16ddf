"""The consequences of a job's end for its children, its series and the dead-letter queue, in the transaction that ends it."""

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from dilamme.domain.job import Ended
from dilamme.domain.outcome import Bury
from dilamme.store import dependencies, outbox, series
from dilamme.store.connection import Connection
from dilamme.usecases.series import extend_series


def of_completion(connection: Connection, completed: Collection[UUID], recurring: Sequence[Ended]) -> list[bool]:
    """Releases the children of completed jobs and extends the series of the recurring ones among them.

    For each child that came free: is it due?
    """
    extend_series(connection, recurring)
    return dependencies.release(connection, completed) if completed else []


def of_death(connection: Connection, ended: Sequence[Ended], outcomes: Mapping[UUID, Bury]) -> None:
    """Announces dead jobs on the queue; then as `of_failure`."""
    if ended:
        # Without the payload: it may hold secrets, and the job is there to be read.
        letters = {
            job.id: {
                "jobId": str(job.id),
                "type": job.type,
                "attempts": job.attempt,
                "error": {"reason": outcomes[job.id].reason, "message": outcomes[job.id].message},
                "seriesId": job.series_id and str(job.series_id),
            }
            for job in ended
        }
        outbox.announce(connection, letters)
    of_failure(connection, ended)


def of_failure(connection: Connection, ended: Sequence[Ended]) -> None:
    """Extends the series of dead or cancelled jobs, and cancels their children that asked for it."""
    extend_series(connection, ended)
    # Generation by generation. A recurring job whose dependency failed ends its series: the next one would fail too.
    ids = [job.id for job in ended]
    while ids:
        cancelled = dependencies.cancel_dependents(connection, ids)
        if series_ids := [job.series_id for job in cancelled if job.series_id is not None]:
            series.end_series(connection, sorted(series_ids))
        ids = [job.id for job in cancelled]
