"""Leads for a minute or two: a tick a second."""

from typing import Any
from uuid import UUID

from aws_lambda_powertools.metrics import MetricUnit

from dilamme import settings
from dilamme.aws.telemetry import set_up
from dilamme.usecases import session
from dilamme.usecases.lead import lead
from dilamme.usecases.tick import Dispatch

logger, metrics = set_up("scheduler")
configuration = settings.load()


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Takes the lead; {ticks, missed, takenOver}."""
    led = lead(
        session.connection(),
        configuration,
        UUID(context.aws_request_id),
        context.get_remaining_time_in_millis() / 1000,
        session.reconnect,
        observe,
    )
    metrics.add_metric("TicksMissed", MetricUnit.Count, led.missed)
    metrics.flush_metrics()
    logger.info("led", extra={"ticks": led.ticks, "missed": led.missed, "taken_over": led.taken_over})
    return {"ticks": led.ticks, "missed": led.missed, "takenOver": led.taken_over}


def observe(dispatched: Dispatch, lag_seconds: float) -> None:
    """Counts a tick; flushed at once, since a loop that is killed would take a minute's metrics with it."""
    metrics.add_metric("Ticks", MetricUnit.Count, 1)
    metrics.add_metric("TickLag", MetricUnit.Milliseconds, lag_seconds * 1000)
    metrics.add_metric("WorkersInvoked", MetricUnit.Count, dispatched.invoked)
    metrics.add_metric("InvokesRefused", MetricUnit.Count, dispatched.refused)
    metrics.flush_metrics()
