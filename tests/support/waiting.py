"""Waiting for what must come, without a fixed pause: a test is as fast as the machine, and red only after very long."""

import time
from collections.abc import Callable
from typing import TypeVar

LOOK_SECONDS = 0.005
T = TypeVar("T")


def wait_until(probe: Callable[[], T | None], what: str = "it comes to pass", *, seconds: float = 30) -> T:
    """The first true value of ``probe``, which is asked again and again; ``what`` is told if none has come in time."""
    deadline = time.monotonic() + seconds
    while not (value := probe()):
        assert time.monotonic() < deadline, f"waited {seconds:g} s in vain: {what}"
        time.sleep(LOOK_SECONDS)
    return value
