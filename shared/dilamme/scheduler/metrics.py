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
                self._add_gauges()
            except psycopg.Error as error:  # a failed measurement must not end a tick
                logger.warning("gauges not read", extra={"error": str(error)})
            meter.flush()
        self._ticks += 1

    def _add_gauges(self) -> None:
        gauges = gauge(self._connection(), self._settings)
        for name, value in (
            ("DeadJobs", gauges.dead),
            ("ReadyJobsP1", gauges.ready_p1),
            ("ReadyJobsP2", gauges.ready_p2),
            ("ReadyJobsP3", gauges.ready_p3),
            ("OldestReadyAge", gauges.oldest_ready_seconds),
            ("RunningJobs", gauges.running),
            ("SlotsInvited", gauges.slots_invited),
            ("SlotsStarted", gauges.slots_started),
            ("OldestDeadLetterAge", gauges.oldest_letter_seconds),
            ("Connections", gauges.connections),
            ("OldestSnapshotAge", gauges.oldest_snapshot_seconds),
        ):
            if value is not None:
                self._meter.add(name, value)
