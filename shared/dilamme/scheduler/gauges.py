"""Measure what the dashboard shows and the alarms watch: now and then, not at every tick, and at a bounded cost."""

from dataclasses import dataclass

from dilamme.store import stats as store
from dilamme.store.connection import Connection

JOBS_COUNTED_MAX = 10_000  # a dashboard that says "10,000 or more" says enough, and the count stays under 10 ms


@dataclass(frozen=True, slots=True)
class Gauges:
    """Counts of jobs stop at `JOBS_COUNTED_MAX`. ``oldest_snapshot_seconds`` is None where our role may not see it."""

    dead: int
    running: int
    ready_p1: int
    ready_p2: int
    ready_p3: int
    oldest_ready_seconds: float
    slots_invited: int
    slots_started: int
    oldest_letter_seconds: float
    connections: int
    oldest_snapshot_seconds: float | None


def gauge(connection: Connection) -> Gauges:
    """Reads all of it; every value is from a snapshot of its own."""
    slots = store.gauge_slots(connection)
    return Gauges(
        **store.gauge_jobs(connection, JOBS_COUNTED_MAX),
        **store.gauge_outbox(connection),
        **store.gauge_server(connection),
        slots_invited=slots["invited"],
        slots_started=slots["started"],
    )
