"""The files of events/, which SAM invokes the functions with as well, and a context like Lambda's."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

EVENTS = Path(__file__).parents[2] / "events"


def load(name: str) -> Any:
    return json.loads((EVENTS / f"{name}.json").read_text(encoding="utf-8"))


def context(function: str, seconds: float = 60, request_id: str | None = None) -> Any:
    """``seconds`` stay left for ever: time does not pass in a test."""
    return SimpleNamespace(
        function_name=function,
        memory_limit_in_mb=512,
        invoked_function_arn=f"arn:aws:lambda:us-east-1:123456789012:function:{function}",
        aws_request_id=request_id or str(uuid4()),
        get_remaining_time_in_millis=lambda: int(seconds * 1000),
    )


def emf(output: str) -> dict[str, list[float]]:
    """The values of each metric in what a function wrote to standard output."""
    values: dict[str, list[float]] = {}
    for line in output.splitlines():
        blob = json.loads(line) if line.startswith('{"_aws"') else {}
        for directive in blob.get("_aws", {}).get("CloudWatchMetrics", []):
            for metric in directive["Metrics"]:
                values.setdefault(metric["Name"], []).extend(blob[metric["Name"]])
    return values
