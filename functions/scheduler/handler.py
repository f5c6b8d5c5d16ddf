"""Leads for a minute or two: a tick a second."""

from typing import Any
from uuid import UUID

import psycopg

from dilamme import session, settings
from dilamme.aws.invoke import prepare
from dilamme.aws.telemetry import set_up
from dilamme.scheduler.gauges import gauge
from dilamme.scheduler.lead import lead
from dilamme.scheduler.tick import Dispatch

GAUGE_EVERY_TICKS = 10

logger, metrics = set_up("scheduler")
configuration = settings.load()
if configuration.worker_function:
    prepare()


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Takes the lead; {ticks, missed, takenOver}."""
    observer = Observer()
    try:
        led = lead(
            session.connection(),
            configuration,
            UUID(context.aws_request_id),
            context.get_remaining_time_in_millis() / 1000,
            session.reconnect,
            observer.observe,
        )
        metrics.add("TicksMissed", led.missed)
    finally:
        metrics.flush()
    logger.info("led", extra={"ticks": led.ticks, "missed": led.missed, "taken_over": led.taken_over})
    return {"ticks": led.ticks, "missed": led.missed, "takenOver": led.taken_over}


class Observer:
    """Counts ticks, and measures the queue at the first of them and at every `GAUGE_EVERY_TICKS`-th."""

    def __init__(self) -> None:
        self.ticks = 0

    def observe(self, dispatched: Dispatch, lag_seconds: float, seconds: float) -> None:
        """Adds a tick, flushed with the gauges: a loop that is killed takes no more than their interval with it."""
        metrics.add("Ticks", 1)
        metrics.add("TickLag", lag_seconds * 1000)
        metrics.add("TickDuration", seconds * 1000)
        metrics.add("WorkersInvoked", dispatched.invoked)
        metrics.add("InvokesRefused", dispatched.refused)
        if self.ticks % GAUGE_EVERY_TICKS == 0:
            _add_gauges()
            metrics.flush()
        self.ticks += 1


def _add_gauges() -> None:
    try:
        gauges = gauge(session.connection())
    except psycopg.Error as error:  # what cannot be measured must not cost a tick
        logger.warning("gauges not read", extra={"error": str(error)})
        return
    metrics.add("DeadJobs", gauges.dead)
    metrics.add("ReadyJobsP1", gauges.ready_p1)
    metrics.add("ReadyJobsP2", gauges.ready_p2)
    metrics.add("ReadyJobsP3", gauges.ready_p3)
    metrics.add("OldestReadyAge", gauges.oldest_ready_seconds)
    metrics.add("RunningJobs", gauges.running)
    metrics.add("SlotsInvited", gauges.slots_invited)
    metrics.add("SlotsStarted", gauges.slots_started)
    metrics.add("OldestDeadLetterAge", gauges.oldest_letter_seconds)
    metrics.add("Connections", gauges.connections)
    if gauges.oldest_snapshot_seconds is not None:
        metrics.add("OldestSnapshotAge", gauges.oldest_snapshot_seconds)
