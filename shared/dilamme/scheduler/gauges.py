"""The measurements for the dashboard and the alarms: not at every tick, and at a bounded cost."""

from collections import Counter
from dataclasses import dataclass

from dilamme.domain.priority import PRIORITIES
from dilamme.settings import Settings
from dilamme.store import slots, stats
from dilamme.store.connection import Connection

JOBS_COUNTED_MAX = 10_000  # "10,000 or more" is enough for a dashboard, and the count stays under 10 ms


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


def gauge(connection: Connection, settings: Settings) -> Gauges:
    """Reads all gauges, each group in a snapshot of its own."""
    counted = stats.count_jobs(connection, dict.fromkeys(("ready", "running", "dead"), JOBS_COUNTED_MAX))
    jobs = Counter({(one.kind, one.priority): one.jobs for one in counted})
    pulse = stats.pulse(connection)
    occupancy = slots.count_slots(connection, settings.worker_slots)
    server = stats.gauge_server(connection)
    return Gauges(
        dead=min(JOBS_COUNTED_MAX, sum(jobs["dead", priority] for priority in PRIORITIES)),
        running=sum(jobs["running", priority] for priority in PRIORITIES),
        ready_p1=jobs["ready", 1],
        ready_p2=jobs["ready", 2],
        ready_p3=jobs["ready", 3],
        oldest_ready_seconds=pulse.oldest_ready_seconds or 0.0,
        slots_invited=occupancy.invited,
        slots_started=occupancy.started,
        oldest_letter_seconds=stats.gauge_outbox(connection),
        connections=server.connections,
        oldest_snapshot_seconds=server.oldest_snapshot_seconds,
    )
