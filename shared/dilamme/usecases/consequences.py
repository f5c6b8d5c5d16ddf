"""What follows a job's end, in the transaction that ended it: one way for completed, dead and cancelled alike."""

from collections.abc import Collection, Sequence
from datetime import datetime
from uuid import UUID

from dilamme.domain.job import Status
from dilamme.domain.recurrence import next_slot
from dilamme.store import dependencies as store
from dilamme.store import jobs
from dilamme.store.connection import Connection
from dilamme.store.dependencies import Ended, Next, Series
from dilamme.store.ids import new_id


def after_success(connection: Connection, completed: Collection[UUID], recurring: Sequence[Ended]) -> list[bool]:
    """Releases the children of completed jobs and extends the series of the recurring ones among them.

    For each child that came free: is it due?
    """
    extend_series(connection, recurring)
    return store.release(connection, completed) if completed else []


def after_failure(connection: Connection, ended: Sequence[Ended]) -> None:
    """Cancels the children of dead or cancelled jobs that asked for it, and extends the jobs' series."""
    extend_series(connection, ended)
    cancel_dependents(connection, [job.id for job in ended])


def cancel_dependents(connection: Connection, ids: Collection[UUID]) -> None:
    """Generation by generation. A recurring job whose dependency failed ends its series: the next one would fail too."""
    while ids:
        cancelled = store.cancel_dependents(connection, ids)
        if series := [series_id for _, series_id in cancelled if series_id is not None]:
            store.end_series(connection, sorted(series))
        ids = [job_id for job_id, _ in cancelled]


def extend_series(connection: Connection, ended: Sequence[Ended]) -> None:
    """Stores the next occurrence of each series that has not ended; a replayed occurrence extends no chain."""
    links = {job.series_id: job for job in ended if job.series_id is not None and not job.replayed}
    if not links:
        return
    series = store.lock_series(connection, links.keys())
    previous = [links[series_id] for series_id, one in series.items() if one.ended_at is None]
    waits = _open_dependencies(connection, previous)
    occurrences = _next_occurrences(previous, series, waits, store.clock(connection))
    stored = set(store.insert_next(connection, occurrences))
    pairs = [(n.id, parent) for n in occurrences if n.id in stored for parent in waits.get(n.previous_id, ())]
    if pairs:
        jobs.insert_edges(connection, pairs)


def _open_dependencies(connection: Connection, previous: Sequence[Ended]) -> dict[UUID, list[UUID]]:
    """What an occurrence still waited for when it ended (it was cancelled, then): its successor waits for that too."""
    edges = store.edges_of(connection, [job.id for job in previous])
    statuses = jobs.lock_parents(connection, {parent for _, parent in edges}) if edges else {}
    waits: dict[UUID, list[UUID]] = {}
    for child, parent in edges:
        if statuses[parent] is not Status.COMPLETED:
            waits.setdefault(child, []).append(parent)
    return waits


def _next_occurrences(
    previous: Sequence[Ended], series: dict[UUID, Series], waits: dict[UUID, list[UUID]], now: datetime
) -> list[Next]:
    return [
        Next(
            id=new_id(),
            previous_id=job.id,
            slot=next_slot(job.scheduled_at, series[job.series_id].interval_seconds, now),
            unmet=len(waits.get(job.id, ())),
        )
        for job in previous
        if job.series_id is not None
    ]
