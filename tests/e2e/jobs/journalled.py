"""Job handlers of the end-to-end tests, put beside the user's: each run leaves its steps in a journal, to be counted."""

import json
import os
import time
from pathlib import Path
from typing import Any

from dilamme import Retry, Snooze, job

FOLDER = Path(os.environ["E2E_FOLDER"])


def note(context: Any, step: str) -> None:
    """Adds a line; one write in append mode, so that the lines of many processes do not mix, nor die with them."""
    line = {"job": str(context.job_id), "attempt": context.attempt, "step": step, "pid": os.getpid(), "at": time.time()}
    with (FOLDER / "journal").open("ab", buffering=0) as journal:
        journal.write(json.dumps(line).encode() + b"\n")


def came_before(context: Any) -> bool:
    """Has this job been here already?"""
    return f'"job": "{context.job_id}"' in (FOLDER / "journal").read_text()


@job("e2e.note")
def take_note(payload: Any, context: Any) -> None:
    """Ends at once."""
    note(context, "start")


@job("e2e.gate")
def gate(payload: dict[str, str], context: Any) -> dict[str, str]:
    """Runs until the test opens the gate ``{"gate": name}``."""
    note(context, "start")
    while not (FOLDER / payload["gate"]).exists():
        time.sleep(0.01)
    note(context, "end")
    return payload


@job("e2e.sum")
def add_up(payload: int, context: Any) -> int:
    """Its payload and the results of its dependencies."""
    results: dict[Any, int] = context.dependency_results
    return payload + sum(results.values())


@job("e2e.crash")
def crash(payload: Any, context: Any) -> None:
    """As demo.crash."""
    note(context, "start")
    os._exit(137)


@job("e2e.snooze", timeout_seconds=2.5)  # beside the whole 5 below: users write both
def snooze(payload: dict[str, float], context: Any) -> None:
    """Asks the first time to come back in ``{"seconds": s}``."""
    first = not came_before(context)
    note(context, "start")
    if first:
        raise Snooze(payload["seconds"])


@job("e2e.retry")
def retry(payload: dict[str, float], context: Any) -> None:
    """Asks the first time for another attempt after ``{"seconds": s}``."""
    note(context, "start")
    if context.attempt == 1:
        raise Retry(after=payload["seconds"])


@job("e2e.overrun", timeout_seconds=5)
def overrun(payload: Any, context: Any) -> None:
    """Sleeps for a minute in small steps, whatever its timeout says."""
    note(context, "start")
    for _ in range(600):
        time.sleep(0.1)
        note(context, "step")


@job("e2e.sleep")
def sleep(payload: dict[str, float], context: Any) -> None:
    """As demo.sleep."""
    note(context, "start")
    time.sleep(payload["seconds"])
    note(context, "end")
