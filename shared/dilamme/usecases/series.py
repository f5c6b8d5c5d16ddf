"""Series of recurring jobs: when an occurrence ends, the next one is stored."""

from collections.abc import Sequence
from uuid import UUID

from dilamme.domain.job import Ended, Status
from dilamme.domain.recurrence import next_slot
from dilamme.store import dependencies, series
from dilamme.store.connection import Connection
from dilamme.store.ids import new_id


def extend_series(connection: Connection, ended: Sequence[Ended]) -> None:
    """Stores the next occurrence of each series that has not ended, in the transaction that is open.

    A replayed occurrence does not extend its series. The dependencies that a cancelled one still waited for pass to the next.
    """
    links = {job.series_id: job for job in ended if job.series_id is not None and not job.replayed}
    if not links:
        return
    locked = series.lock_series(connection, links.keys())
    previous = {links[series_id].id: links[series_id] for series_id, one in locked.items() if one.ended_at is None}
    edges = dependencies.edges_of(connection, list(previous))
    statuses = dependencies.lock_parents(connection, {parent for _, parent in edges}) if edges else {}
    waits: dict[UUID, list[UUID]] = {job_id: [] for job_id in previous}
    for child, parent in edges:
        if statuses[parent] is not Status.COMPLETED:
            waits[child].append(parent)
    now = series.clock(connection)
    occurrences = [
        series.Next(
            id=new_id(),
            previous_id=job.id,
            slot=next_slot(job.scheduled_at, locked[job.series_id].interval_seconds, now),
            unmet=len(waits[job.id]),
        )
        for job in previous.values()
        if job.series_id is not None
    ]
    stored = set(series.insert_next(connection, occurrences))
    pairs = [(new.id, parent) for new in occurrences if new.id in stored for parent in waits[new.previous_id]]
    if pairs:
        dependencies.insert_edges(connection, pairs)
