"""The metrics of a scheduler: its ticks, and the gauges of the queue."""

import logging
from collections.abc import Callable

import psycopg

from dilamme.aws.telemetry import Meter
from dilamme.scheduler.gauges import gauge
from dilamme.scheduler.tick import Dispatch
from dilamme.settings import Settings
from dilamme.store.connection import Connection

GAUGE_EVERY_TICKS = 10

logger = logging.getLogger("dilamme.gauges")

# The fields of `Gauges`.
_METRIC_OF = {
    "dead": "DeadJobs",
    "ready_p1": "ReadyJobsP1",
    "ready_p2": "ReadyJobsP2",
    "ready_p3": "ReadyJobsP3",
    "oldest_ready_seconds": "OldestReadyAge",
    "running": "RunningJobs",
    "slots_invited": "SlotsInvited",
    "slots_started": "SlotsStarted",
    "oldest_letter_seconds": "OldestDeadLetterAge",
    "connections": "Connections",
    "oldest_snapshot_seconds": "OldestSnapshotAge",
}


class TickMetrics:
    """Counts ticks, and measures the queue at the first of them and at every `GAUGE_EVERY_TICKS`-th."""

    def __init__(self, meter: Meter, connection: Callable[[], Connection], settings: Settings) -> None:
        self._meter = meter
        self._connection = connection
        self._settings = settings
        self._ticks = 0

    def observe(self, dispatched: Dispatch, lag_seconds: float, seconds: float) -> None:
        """Adds a tick. Metrics are flushed with the gauges: a loop that is killed loses those of one interval at most."""
        meter = self._meter
        meter.add("Ticks", 1)
        meter.add("TickLag", lag_seconds * 1000)
        meter.add("TickDuration", seconds * 1000)
        meter.add("WorkersInvoked", dispatched.invoked)
        meter.add("InvokesRefused", dispatched.refused)
        if self._ticks % GAUGE_EVERY_TICKS == 0:
            try:
                gauges = gauge(self._connection(), self._settings)
            except psycopg.Error as error:  # a failed measurement must not end a tick
                logger.warning("gauges not read", extra={"error": str(error)})
            else:
                for field, name in _METRIC_OF.items():
                    if (value := getattr(gauges, field)) is not None:
                        meter.add(name, value)
            meter.flush()
        self._ticks += 1
