"""The demo.* jobs: on in the local stack, off when deployed (DILAMME_DEMO_JOBS)."""

import os
import time
from typing import Any

from dilamme.handlers.context import Context
from dilamme.handlers.registry import registry


@registry.job("demo.echo")
def echo(payload: Any, context: Context) -> Any:
    """Returns its payload."""
    return payload


@registry.job("demo.sleep")
def sleep(payload: dict[str, float], context: Context) -> dict[str, float]:
    """Sleeps for ``{"seconds": s}``."""
    time.sleep(payload["seconds"])
    return {"slept": payload["seconds"]}


@registry.job("demo.fail")
def fail(payload: dict[str, int], context: Context) -> dict[str, int]:
    """Fails its first ``{"times": n}`` attempts."""
    if context.attempt <= payload["times"]:
        raise RuntimeError(f"failure {context.attempt} of {payload['times']}, as asked for")
    return {"attempts": context.attempt}


@registry.job("demo.crash")
def crash(payload: Any, context: Context) -> None:
    """Ends its process without a word, as a segmentation fault or the out-of-memory killer would."""
    os._exit(137)
