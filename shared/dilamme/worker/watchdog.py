"""End the process although a handler holds the interpreter.

A handler that never lets the interpreter go (a regular expression that backtracks, a library in C) stops every thread of
Python's, and so the loop, which would give up on it at its timeout. What still runs is a thread of C: `faulthandler` writes the
traceback of all threads and ends the process, unless it is told in time to wait longer.

Nobody is then left to record the timeout. The platform reports the loss, and the rescue finds that the job's time was over.
"""

import faulthandler
import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

GRACE_SECONDS = 2.0  # past a timeout, for the loop to give up on the handler by itself
BEAT_SECONDS = 1.0


class HasFileno(Protocol):
    """A file, or what has the descriptor of one."""

    def fileno(self) -> int:
        """The descriptor."""
        ...


class Watchdog:
    """One a process, beside all its invocations. It beats in a thread of its own, since the loop may wait for the database.

    A beat costs a tenth of a millisecond, and comes once a second. So a job costs one comparison, with `expects`.

    Attributes:
        expects: the earliest deadline that it knows of, in monotonic seconds. After it and the grace it ends the process,
            unless there is another beat.
    """

    def __init__(self, log: HasFileno) -> None:
        self.expects = math.inf
        self._log = log
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._first_deadline: Callable[[], float] | None = None
        self._longest_seconds = 0.0

    def watch(self, first_deadline: Callable[[], float], longest_seconds: float) -> None:
        """Begins to watch. No job that is still to start may take more than ``longest_seconds``."""
        with self._changed:
            self._first_deadline, self._longest_seconds = first_deadline, longest_seconds
            if self._thread is None:
                thread = threading.Thread(target=self._beat, daemon=True)
                with suppress(RuntimeError):  # the system gives no more threads, which the pool will notice too
                    thread.start()
                    self._thread = thread
            self._changed.notify()

    def expect(self, ends_by: float) -> None:
        """A handler is about to start that must end earlier than the watchdog would notice. From any thread."""
        with self._changed:
            if self._first_deadline is not None:
                self._arm(ends_by)

    def rest(self) -> None:
        """Ends the watch: between two invocations the process may be frozen for long."""
        with self._changed:
            self._first_deadline = None
            self.expects = math.inf
            faulthandler.cancel_dump_traceback_later()

    def _beat(self) -> None:
        with self._changed:
            while True:
                if self._first_deadline is None:
                    self._changed.wait()
                else:
                    now = time.monotonic()
                    # The interpreter answers. So a handler past its time is the loop's affair, and gets the grace once more.
                    self._arm(max(now, min(self._first_deadline(), now + self._longest_seconds)))
                    self._changed.wait(BEAT_SECONDS)

    def _arm(self, deadline: float) -> None:
        self.expects = deadline
        seconds = max(0.01, deadline + GRACE_SECONDS - time.monotonic())
        with suppress(RuntimeError):  # no more threads, again: the job that starts now is not to fail for it
            faulthandler.dump_traceback_later(seconds, exit=True, file=self._log)
