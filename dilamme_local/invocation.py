"""What an invocation is, how it can end, and the record of it that Lambda hands to an OnFailure destination."""

import json
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

REGION = "us-east-1"
ACCOUNT = "123456789012"


class UnknownFunctionError(Exception):
    """No function has this name."""


class ThrottledError(Exception):
    """The function's reserved concurrency is in use."""


class StoppingError(Exception):
    """The stack is stopping; nothing new is run."""


def arn(function_name: str) -> str:
    return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{function_name}"


@dataclass(frozen=True)
class Invocation:
    """``event``: the JSON text that the caller sent, passed on as it is."""

    function_name: str
    event: bytes
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))


@dataclass(frozen=True)
class Outcome:
    """``payload``: JSON text, the handler's result or Lambda's error object."""

    succeeded: bool
    payload: bytes

    @property
    def error(self) -> str:
        """One line for the console."""
        described = json.loads(self.payload)
        return f"{described.get('errorType')}: {described.get('errorMessage')}"


def failure(invocation: Invocation, error_type: str, message: str) -> Outcome:
    """An end that Lambda, not the handler, reports."""
    described = {"errorType": error_type, "errorMessage": f"RequestId: {invocation.request_id} Error: {message}"}
    return Outcome(succeeded=False, payload=json.dumps(described).encode())


def on_failure_record(invocation: Invocation, outcome: Outcome | None, invoke_count: int, condition: str) -> bytes:
    """Lambda's invocation record, version 1.0. ``outcome`` is None when the event never ran (``EventAgeExceeded``)."""
    record: dict[str, Any] = {
        "version": "1.0",
        "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "requestContext": {
            "requestId": invocation.request_id,
            "functionArn": f"{arn(invocation.function_name)}:$LATEST",
            "condition": condition,
            "approximateInvokeCount": invoke_count,
        },
        "requestPayload": json.loads(invocation.event),
    }
    if outcome is not None:
        record["responseContext"] = {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"}
        record["responsePayload"] = json.loads(outcome.payload)
    return json.dumps(record).encode()
