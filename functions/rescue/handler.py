"""The OnFailure destination of worker and scheduler: the platform reports a lost invocation."""

from typing import Any
from uuid import UUID

from dilamme import session, settings
from dilamme.aws.telemetry import set_up
from dilamme.domain.worker_event import WorkerEvent
from dilamme.usecases.rescue import rescue_leader, rescue_worker, take_back_slot

logger, _ = set_up("rescue")
configuration = settings.load()
_NEVER_RAN = "EventAgeExceeded"  # worker and scheduler have no retries, so such an event never ran


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Frees the slot and jobs, or the lead, of a lost invocation; {jobs} for a worker, {invoked} for a scheduler."""
    lost, request = event["requestPayload"], event["requestContext"]
    logger.warning("invocation lost", extra={"function": request["functionArn"], "condition": request.get("condition")})
    connection = session.connection()
    if "token" in lost:
        worker = WorkerEvent.from_json(lost).token
        if request.get("condition") == _NEVER_RAN:
            take_back_slot(connection, configuration, worker)
            return {"jobs": 0}
        return {"jobs": len(rescue_worker(connection, configuration, worker).done)}
    return {"invoked": rescue_leader(connection, configuration, UUID(request["requestId"]))}
