"""Job handlers of the soak, put beside the user's: each run writes down its start and its end, and proves that it is alone.

A run holds a lock on its job's own file, which the kernel lets go of when the process ends, however it ends. A run that
finds the lock taken has met another that lives: no clock and no record of kills can be wrong about that.
"""

import asyncio
import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

from dilamme import Fail, Retry, Snooze, job

FOLDER = Path(os.environ["SOAK_FOLDER"])
PROCESS = f"{os.getpid()}-{uuid4().hex}"
# In append mode and one write a line, so that a SIGKILL loses nothing that happened before it.
PID = os.getpid()
JOURNAL = os.open(FOLDER / "runs" / f"{PROCESS}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

Body = Callable[[Any, Any], Any]


def write(step: str, run: str, **more: Any) -> None:
    """Adds a line; ``at`` is the machine's monotonic clock, the same for all processes."""
    line = {"step": step, "run": run, "at": time.monotonic(), **more}
    os.write(JOURNAL, json.dumps(line).encode() + b"\n")


@contextmanager
def journalled(context: Any) -> Iterator[None]:
    """Surrounds one run of a handler."""
    run, name = uuid4().hex, str(context.job_id)
    lock = os.open(FOLDER / "locks" / name[-2:] / name, os.O_RDWR | os.O_CREAT, 0o644)
    write("start", run, job=name, attempt=context.attempt, process=PROCESS, alone=_take(lock))
    how = "raised"
    try:
        yield
        how = "returned"
    finally:
        if os.getpid() == PID:  # a forked child's end is not the run's
            write("end", run, how=how)
            os.close(lock)


def _take(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def soak_job(name: str, **options: Any) -> Callable[[Body], Body]:
    """As `job`, with a journal."""

    def register(body: Body) -> Body:
        def handle(payload: Any, context: Any) -> Any:
            with journalled(context):
                return body(payload, context)

        return job(name, **options)(handle)

    return register


def is_first_visit(context: Any) -> bool:
    """Has no run of this job been here before? By a mark in its lock's file."""
    name = str(context.job_id)
    with (FOLDER / "locks" / name[-2:] / name).open("r+b") as mark:
        return not mark.read() and bool(mark.write(b"x"))


@soak_job("soak.note")
def take_note(payload: Any, context: Any) -> Any:
    """Ends at once."""
    return payload


@soak_job("soak.slow")
def take_time(payload: dict[str, float], context: Any) -> None:
    """Sleeps for ``{"seconds": s}``; with ``"attempts": n`` only at the first n."""
    if context.attempt <= payload.get("attempts", context.attempt):
        time.sleep(payload["seconds"])


@job("soak.async")
async def take_time_asynchronously(payload: dict[str, float], context: Any) -> None:
    """As soak.slow."""
    with journalled(context):
        await asyncio.sleep(payload["seconds"])


@soak_job("soak.flaky")
def succeed_the_second_time(payload: Any, context: Any) -> None:
    """Raises at its first attempt."""
    if context.attempt == 1:
        raise RuntimeError("the first attempt fails")


@soak_job("soak.error", max_attempts=2)
def raise_always(payload: Any, context: Any) -> NoReturn:
    """Uses up its attempts."""
    raise RuntimeError("each attempt fails")


@soak_job("soak.fail")
def give_up(payload: Any, context: Any) -> NoReturn:
    """Dies at once."""
    raise Fail("no attempt will help")


@soak_job("soak.retry")
def ask_for_a_retry(payload: Any, context: Any) -> None:
    """Asks the first time for another attempt after 0.2 s."""
    if context.attempt == 1:
        raise Retry(after=0.2)


@soak_job("soak.snooze")
def snooze(payload: Any, context: Any) -> None:
    """Asks the first time to come back after 0.3 s."""
    if is_first_visit(context):
        raise Snooze(0.3)


@soak_job("soak.fork")
def fork(payload: dict[str, str], context: Any) -> None:
    """Leaves a child behind that returns, raises or exits where the handler does: whatever it does, the run is the parent's."""
    if os.fork():
        return
    match payload["child"]:
        case "raises":
            raise RuntimeError("in the child")
        case "exits":
            sys.exit(0)


@soak_job("soak.large")
def carry_much(payload: dict[str, str], context: Any) -> Any:
    """Returns what it got, or thousands of small values."""
    return payload if payload["weight"] else [1] * 100_000


@soak_job("soak.sum")
def add_up(payload: Any, context: Any) -> int:
    """How many dependencies it had; asks the controller for their results."""
    return len(context.dependency_results)


@soak_job("soak.exit")
def end_process(payload: dict[str, int], context: Any) -> None:
    """Ends its process at its first ``{"times": n}`` attempts."""
    if context.attempt <= payload["times"]:
        os._exit(137)


@soak_job("soak.kill")
def kill_process(payload: dict[str, int], context: Any) -> None:
    """As soak.exit, by the signal that the out-of-memory killer sends."""
    if context.attempt <= payload["times"]:
        os.kill(os.getpid(), signal.SIGKILL)


@soak_job("soak.overrun", timeout_seconds=1, max_attempts=2)
def overrun(payload: Any, context: Any) -> None:
    """Runs on at its first attempt, whatever its timeout says."""
    if context.attempt == 1:
        time.sleep(60)
