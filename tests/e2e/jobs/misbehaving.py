"""Job handlers that do to their process what they should not: one of them among many that behave."""

import _thread
import asyncio
import atexit
import concurrent.futures
import decimal
import gc
import locale
import multiprocessing
import os
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

from jobs.journalled import note  # type: ignore[import-not-found]

from dilamme import job

# ===== forks: how a child may go on =====


def go_on(how: str, context: Any) -> Any:  # noqa: C901
    """In the child: notes itself, then does what it should not."""
    note(context, "child")
    match how:
        case "return":
            return "the child's"
        case "raise":
            raise ValueError("the child's")
        case "exit":
            sys.exit(0)
        case "execv":
            os.execv("/nonexistent", ["nonexistent"])
        case "ask":
            return str(context.dependency_results)
        case "log":
            context.logger.warning("from the child")
        case "fork":
            if os.fork() == 0:
                note(context, "child")
        case "thread":
            thread = threading.Thread(target=note, args=(context, "child"))
            thread.start()
            thread.join()
        case "await":
            return asyncio.sleep(0)
    return None


def parent_of(child: int) -> str:
    """Sees the child's end; its status."""
    return str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


@job("bad.fork")
def fork(payload: str, context: Any) -> Any:
    """Forks; the child goes on as the payload says."""
    note(context, "start")
    if (child := os.fork()) == 0:
        return go_on(payload, context)
    return parent_of(child)


@job("bad.async_fork")
async def async_fork(payload: str, context: Any) -> Any:
    """As `fork`, with a task of its own beside it, which would run on in both."""
    note(context, "start")
    beside = asyncio.create_task(asyncio.sleep(60))
    await asyncio.sleep(0)
    if (child := os.fork()) == 0:
        result = go_on(payload, context)
        return await result if payload == "await" else result
    status = parent_of(child)
    beside.cancel()
    return status


def square(number: int) -> int:
    """For another process."""
    return number * number


@job("good.processes")
def processes(payload: Any, context: Any) -> list[Any]:
    """What starts processes and ends them itself."""
    note(context, "start")
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pooled = pool.map(square, range(4))
    with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as executor:
        executed = list(executor.map(square, range(4)))
    ran = subprocess.run([sys.executable, "-c", "print(3)"], capture_output=True, text=True, check=True)
    return [pooled, executed, int(ran.stdout)]


# ===== event loops =====


async def nothing() -> None:
    """Something to await."""


def leave_closed_loop() -> None:
    """Ends as old code does that made a loop of its own."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.run_until_complete(nothing())
    loop.close()


LOOP_MISDEEDS = {
    "close": lambda: asyncio.get_event_loop().close(),
    "run": lambda: asyncio.run(nothing()),
    "other": leave_closed_loop,
}


@job("bad.loop")
def spoil_loop(payload: str, context: Any) -> None:
    """Does to its thread's event loop what the payload says."""
    note(context, "start")
    LOOP_MISDEEDS[payload]()


def refuse(*_arguments: Any, **_named: Any) -> Any:
    """Takes the place of a part of the event loop."""
    raise RuntimeError("spoilt by another job")


@job("bad.async_loop", timeout_seconds=5)  # "instance" never comes back
async def spoil_loop_from_within(payload: str, context: Any) -> None:
    """Likewise, while it runs."""
    note(context, "start")
    loop = asyncio.get_running_loop()
    match payload:
        case "executor":
            await loop.shutdown_default_executor()
        case "other executor":
            with concurrent.futures.ThreadPoolExecutor(1) as executor:
                loop.set_default_executor(executor)
        case "factory":
            loop.set_task_factory(refuse)
        case "stop":
            loop.stop()
            await asyncio.sleep(60)
        case "close later":
            loop.call_soon(loop.close)
        case "instance":
            loop.create_task = loop.call_soon = refuse  # type: ignore[assignment]
        case "policy":
            asyncio.set_event_loop(None)


@job("good.async")
async def behave(payload: Any, context: Any) -> str:
    """Uses what an event loop gives."""
    note(context, "start")
    await asyncio.sleep(0.02)
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(0.01))
    return await asyncio.to_thread(lambda: "behaved")


@job("good.gathered")
def gather(payload: Any, context: Any) -> Any:
    """Sync, but gives something to await that needs its thread's event loop."""
    note(context, "start")
    return asyncio.gather(asyncio.sleep(0, 1), asyncio.sleep(0, 2))


# ===== resources =====


@job("bad.descriptors", max_attempts=1)
def leak_descriptors(payload: Any, context: Any) -> None:
    """Opens files until there is no more room."""
    note(context, "start")
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    try:
        while True:
            os.dup(0)
    except OSError:
        return


@job("bad.threads", max_attempts=1)
def leak_threads(payload: Any, context: Any) -> None:
    """Makes no more threads possible for a while, in this process."""
    note(context, "start")
    threading.stack_size(2**46)


@job("bad.policy", max_attempts=1)
def set_policy(payload: Any, context: Any) -> None:
    """Makes event loops impossible."""
    note(context, "start")

    class Policy(asyncio.DefaultEventLoopPolicy):
        new_event_loop = refuse

    asyncio.set_event_loop_policy(Policy())


# ===== what else belongs to the whole process =====


def lose_digits() -> None:
    """Makes decimals of one digit, here and in every thread to come."""
    decimal.DefaultContext.prec = 1
    decimal.setcontext(decimal.DefaultContext)


def break_hooks() -> None:
    """Makes whoever reports an exception fail."""
    sys.excepthook = sys.unraisablehook = threading.excepthook = refuse


STATES: dict[str, Callable[[], object]] = {
    "folder": lambda: os.chdir("/"),
    "path": sys.path.clear,
    "variables": os.environ.clear,
    "socket timeout": lambda: socket.setdefaulttimeout(1e-6),
    "collector": gc.disable,
    "locale": lambda: locale.setlocale(locale.LC_ALL, "C"),
    "warnings": lambda: warnings.simplefilter("error"),
    "decimal": lose_digits,
    "seed": lambda: random.seed(1),
    "umask": lambda: os.umask(0o777),
    "trace": lambda: threading.settrace(lambda *_: None),
    "atexit": lambda: atexit.register(os._exit, 3),
    "switch interval": lambda: sys.setswitchinterval(0.1),
    "standard input": lambda: os.close(0),
    "hooks": break_hooks,
    "integers": lambda: sys.set_int_max_str_digits(640),
    # The process does not survive these, and the jobs in it run again.
    "recursion": lambda: sys.setrecursionlimit(60),
    "interrupt": _thread.interrupt_main,
    "signal": lambda: os.kill(os.getpid(), signal.SIGTERM),
    "all descriptors": lambda: os.closerange(3, 200),
}


@job("bad.state", max_attempts=1)
def change_state(payload: str, context: Any) -> None:
    """Changes for all what the payload says."""
    note(context, "start")
    STATES[payload]()


# ===== the interpreter =====


@job("good.hold")
def hold(payload: int, context: Any) -> int:
    """Holds the interpreter too, but within its time."""
    note(context, "start")
    return sum(range(payload))


@job("bad.backtrack", timeout_seconds=3, max_attempts=2)
def backtrack(payload: Any, context: Any) -> None:
    """A regular expression that backtracks for longer than anyone waits, and never lets the interpreter go."""
    note(context, "start")
    time.sleep(0.2)
    note(context, "hold")
    re.match(r"(a+)+$", "a" * 60 + "b")
