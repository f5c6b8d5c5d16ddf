"""The consequences of a job's end for its children, its series and the dead-letter queue, in the transaction that ends it."""

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from dilamme.domain.job import Ended, Status
from dilamme.domain.outcome import Bury
from dilamme.store import dependencies, outbox, series
from dilamme.store.connection import Connection, transaction
from dilamme.usecases.series import extend_series

CASCADE_JOBS_MAX = 1_000  # of one step: some 50 ms
CASCADES_MAX = 100  # carried on in one step


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
    """Extends the series of dead or cancelled jobs, and cancels their dependents that asked for it, or the first of them.

    The leader goes on with the rest (`carry_on`). Until then these wait: the gate lets none start.
    """
    extend_series(connection, ended)
    if ended:
        _cascade(connection, [job.id for job in ended])


def carry_on(connection: Connection) -> bool:
    """The next step of the cascades that were too long for one transaction, in one of its own. False if there is none."""
    with transaction(connection):
        noted = dependencies.take_cascades(connection, CASCADES_MAX)
        # One that was replayed meanwhile may yet succeed: its children wait for it again.
        statuses = dependencies.lock_parents(connection, noted) if noted else {}
        if failed := [job_id for job_id, status in statuses.items() if status in (Status.DEAD, Status.CANCELLED)]:
            _cascade(connection, failed, noted[failed[0]])
        return bool(noted)


def _cascade(connection: Connection, failed: Sequence[UUID], after: UUID = dependencies.FIRST) -> None:
    found, cancelled = dependencies.cancel_dependents(connection, failed, CASCADE_JOBS_MAX, after)
    if not found:
        return
    # A recurring job whose dependency failed ends its series: the next one would fail too.
    if series_ids := [job.series_id for job in cancelled if job.series_id is not None]:
        series.end_series(connection, sorted(series_ids))
    # The children of one job come in order. Those of many do not, and no id parts what is done from what is not.
    if len(failed) == 1:
        after = max((job.id for job in cancelled if job.is_child), default=after)
    left = dict.fromkeys(failed, after)
    dependencies.note_cascades(connection, left | {job.id: dependencies.FIRST for job in cancelled})
