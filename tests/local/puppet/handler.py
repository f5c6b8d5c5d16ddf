"""A function that does what its event says, and journals that it was called to the file JOURNAL."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

COLD_STARTED_AT = time.monotonic()


def handler(event: dict[str, Any], context: Any) -> Any:
    journal(event, context)
    match event.get("do"):
        case "raise":
            raise RuntimeError(event["message"])
        case "exit":
            os._exit(event["status"])
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "sleep":
            time.sleep(event["seconds"])
        case "return":
            return event["value"]
        case "return an object":
            return object()
        case "return megabytes":
            return "x" * 1_000_000 * event["megabytes"]
        case "describe":
            return describe(context)
    return {"pid": os.getpid(), "event": event}


def journal(event: object, context: Any) -> None:
    line = json.dumps({"requestId": context.aws_request_id, "pid": os.getpid(), "event": event})
    with Path(os.environ["JOURNAL"]).open("a") as file:
        file.write(line + "\n")


def describe(context: Any) -> dict[str, Any]:
    before = context.get_remaining_time_in_millis()
    time.sleep(0.05)
    return {
        "name": context.function_name,
        "version": context.function_version,
        "arn": context.invoked_function_arn,
        "memory": context.memory_limit_in_mb,
        "requestId": context.aws_request_id,
        "logGroup": context.log_group_name,
        "logStream": context.log_stream_name,
        "remaining": [before, context.get_remaining_time_in_millis()],
        "folder": str(Path.cwd()),
        "path": sys.path,
        "variables": dict(os.environ),
    }
