"""Series of recurring jobs: when an occurrence ends, the next one is stored."""

import logging
from collections.abc import Sequence
from uuid import UUID

from dilamme.domain.job import Ended, Status
from dilamme.domain.recurrence import next_slot
from dilamme.store import dependencies, series
from dilamme.store.connection import Connection
from dilamme.store.ids import new_id

logger = logging.getLogger("dilamme.series")


def extend_series(connection: Connection, ended: Sequence[Ended]) -> None:
    """Stores the next occurrence of each series that has not ended, in the transaction that is open.

    A replayed occurrence does not extend its series. The dependencies that a cancelled one still waited for pass to the next.
    A series ends where its next time would lie past the year 9999.
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
    slots = {
        series_id: next_slot(links[series_id].scheduled_at, one.interval_seconds, now)
        for series_id, one in locked.items()
        if one.ended_at is None
    }
    if over := [series_id for series_id, slot in slots.items() if slot is None]:
        series.end_series(connection, sorted(over))
        logger.warning(
            "series ended: their next time lies past the year 9999", extra={"series": [str(one) for one in over]}
        )
    occurrences = [
        series.Next(new_id(), previous_id=links[series_id].id, slot=slot, unmet=len(waits[links[series_id].id]))
        for series_id, slot in slots.items()
        if slot is not None
    ]
    stored = set(series.insert_next(connection, occurrences))
    pairs = [(new.id, parent) for new in occurrences if new.id in stored for parent in waits[new.previous_id]]
    if pairs:
        dependencies.insert_edges(connection, pairs)
