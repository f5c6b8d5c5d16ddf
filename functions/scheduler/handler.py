"""Leads for a minute or two: a tick a second."""

from typing import Any
from uuid import UUID

from dilamme import session, settings
from dilamme.aws.invoke import prepare
from dilamme.aws.telemetry import set_up
from dilamme.scheduler.lead import lead
from dilamme.scheduler.metrics import TickMetrics

logger, metrics = set_up("scheduler")
configuration = settings.load()
if configuration.worker_function:
    prepare()


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Leads until taken over, idle or out of time; {ticks, missed, takenOver}."""
    try:
        led = lead(
            session.connection(),
            configuration,
            UUID(context.aws_request_id),
            context.get_remaining_time_in_millis() / 1000,
            session.reconnect,
            TickMetrics(metrics, session.connection, configuration).observe,
        )
        metrics.add("TicksMissed", led.missed)
    finally:
        metrics.flush()
    logger.info("led", extra={"ticks": led.ticks, "missed": led.missed, "taken_over": led.taken_over})
    return {"ticks": led.ticks, "missed": led.missed, "takenOver": led.taken_over}
