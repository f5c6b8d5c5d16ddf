"""The execution environments of one function: reused warm, started when there are too few, bounded by concurrency."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dilamme_local.environment import Environment
from dilamme_local.functions import Function
from dilamme_local.invocation import Outcome, StoppingError, ThrottledError

# Imports are work for a processor: starting more processes at once than there are makes each of them late.
STARTS = threading.Semaphore(os.cpu_count() or 2)
START_AGAIN_SECONDS = 1

logger = logging.getLogger("dilamme_local")


class Pool:
    """Lends environments, one invocation each.

    Who finds none idle does not wait for a particular one to start: whichever comes first, a new one or one that is given
    back, serves.
    """

    def __init__(self, function: Function, start: Callable[[], Environment]) -> None:
        self._function = function
        self._start = start
        self._changed = threading.Condition()
        self._idle: list[Environment] = []  # the last one used is taken first
        self._busy: set[Environment] = set()
        self._starting = 0
        self._unready: set[Environment] = set()
        self._waiting = 0
        self._version = 0  # one more with each `renew`; what was started under another is not used again
        self._retired: set[Environment] = set()
        self._paused = False
        self._closed = False

    def warm_up(self) -> None:
        """Starts the spares, in the background."""
        with self._changed:
            self._start_missing()

    @contextmanager
    def lend(self) -> Iterator[Environment]:
        """Yields an environment of the caller's own.

        Raises:
            ThrottledError: the reserved concurrency is in use.
            StoppingError: `close` was called.
        """
        environment = self._take()
        try:
            yield environment
        finally:
            self._give_back(environment)

    def trim(self) -> None:
        """Kills idle environments beyond the spares, of a function that will not be asked again for long."""
        with self._changed:
            surplus, self._idle = self._idle[self._function.spares :], self._idle[: self._function.spares]
        for environment in surplus:
            environment.kill()

    def renew(self) -> Outcome | None:
        """Uses new environments from now on. Those that are at work are asked to end soon, and are not used again.

        The first new one is tried before. If it cannot import its handler, the error is returned, and invocations wait for
        the next call: the code of before is no longer there to start an environment with.
        """
        first = self._start()
        first.wait_until_ready()
        error = first.import_error
        with self._changed:
            self._version += 1
            self._paused = error is not None
            doomed, self._idle = self._idle, ([] if error else [first])
            working = self._busy - self._retired
            self._retired |= working
            self._start_missing()
            self._changed.notify_all()
        for environment in [*doomed, *([first] if error else [])]:
            environment.kill()
        for environment in working:
            environment.retire()
        return error

    def close(self) -> None:
        """Kills every environment, idle, busy or starting."""
        with self._changed:
            self._closed = True
            doomed = [*self._idle, *self._busy, *self._unready]
            self._idle.clear()
            self._changed.notify_all()
        for environment in doomed:
            environment.kill()

    def _take(self) -> Environment:
        with self._changed:
            reserved = self._function.reserved_concurrency
            if reserved is not None and len(self._busy) + self._waiting >= reserved:
                raise ThrottledError
            self._waiting += 1
            try:
                environment = self._wait_for_idle()
            finally:
                self._waiting -= 1
            self._busy.add(environment)
            self._start_missing()
            return environment

    def _wait_for_idle(self) -> Environment:
        while not self._closed:
            while self._idle and not self._paused:
                environment = self._idle.pop()
                if environment.usable:
                    return environment
                environment.kill()
            self._start_missing()
            self._changed.wait(START_AGAIN_SECONDS)
        raise StoppingError

    def _give_back(self, environment: Environment) -> None:
        with self._changed:
            self._busy.discard(environment)
            is_old = environment in self._retired
            self._retired.discard(environment)
            if environment.usable and not is_old:
                self._idle.append(environment)
            self._start_missing()
            self._changed.notify()
        if is_old:
            environment.kill()

    def _start_missing(self) -> None:
        wanted = self._waiting + self._function.spares
        while not (self._closed or self._paused) and self._starting + len(self._idle) < wanted and self._room():
            try:
                threading.Thread(target=self._start_one, daemon=True).start()
            except RuntimeError:  # no thread is to be had; whoever waits looks again
                return
            self._starting += 1

    def _room(self) -> bool:
        return len(self._idle) + len(self._busy) + self._starting < self._function.environments_max

    def _start_one(self) -> None:
        while not self._closed:
            version = self._version
            environment = self._try_to_start()
            if environment is None:
                time.sleep(START_AGAIN_SECONDS)
                continue
            with self._changed:
                self._unready.discard(environment)
                if not self._closed and version == self._version:
                    self._starting -= 1
                    self._idle.insert(0, environment)  # behind those that are warm: it has no connection yet
                    self._changed.notify()
                    return
            environment.kill()
        with self._changed:
            self._starting -= 1

    def _try_to_start(self) -> Environment | None:
        with STARTS:
            if self._closed:
                return None
            try:
                environment = self._start()
            except (OSError, MemoryError) as error:  # no file, process or memory is left; some will be
                logger.error(
                    "%s: a process could not be started, once more in a moment: %s", self._function.name, error
                )
                return None
            with self._changed:
                self._unready.add(environment)
            if not self._closed:
                environment.wait_until_ready()
            return environment
