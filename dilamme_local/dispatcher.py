"""Runs the invocations of a set of functions, and knows which run at this moment and how many ran."""

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from dilamme_local.environment import Environment
from dilamme_local.functions import Function
from dilamme_local.invocation import Invocation, Outcome, ThrottledError, UnknownFunctionError
from dilamme_local.pool import Pool

COUNTED = ("accepted", "started", "succeeded", "failed", "throttled")

logger = logging.getLogger("dilamme_local")


@dataclass(frozen=True)
class Running:
    """An invocation that runs at this moment, in the process ``pid``."""

    invocation: Invocation
    pid: int
    started_at: datetime


class Dispatcher:
    """The output of a function goes to ``<logs>/<name>.log``, its errors are told on the console too."""

    def __init__(self, functions: Iterable[Function], logs: Path) -> None:
        self.functions = {function.name: function for function in functions}
        self._logs = logs
        self._pools = {
            name: Pool(function, partial(Environment, function, self._log(name)))
            for name, function in self.functions.items()
        }
        self._lock = threading.Lock()
        self._running: dict[int, Running] = {}
        self._counts = {name: Counter(dict.fromkeys(COUNTED, 0)) for name in self.functions}
        self._stopping = False

    def function(self, name: str) -> Function:
        """Raises: UnknownFunctionError."""
        try:
            return self.functions[name]
        except KeyError:
            raise UnknownFunctionError(name) from None

    def warm_up(self) -> None:
        """Starts every function's spare environments, in the background."""
        for pool in self._pools.values():
            pool.warm_up()

    def trim(self, name: str) -> None:
        """Ends the function's idle environments beyond its spares."""
        self._pools[name].trim()

    def renew(self, name: str) -> Outcome | None:
        """Replaces the function's environments by new ones, which import its code anew; the error if that cannot be done."""
        return self._pools[name].renew()

    def run(self, invocation: Invocation) -> Outcome:
        """Runs one invocation to its end.

        Raises:
            UnknownFunctionError, ThrottledError, StoppingError: it did not run.
        """
        name = self.function(invocation.function_name).name
        try:
            with self._pools[name].lend() as environment, self._shown(invocation, environment):
                outcome = environment.run(invocation)
        except ThrottledError:
            self.count(name, "throttled")
            raise
        self.count(name, "succeeded" if outcome.succeeded else "failed")
        if not outcome.succeeded and not self._stopping:
            logger.error("%s: %s (see %s)", name, outcome.error, self._log(name))
        return outcome

    def count(self, name: str, what: str) -> None:
        with self._lock:
            self._counts[name][what] += 1

    def counts(self) -> dict[str, dict[str, int]]:
        """Per function: events accepted, invocations started, succeeded, failed and throttled."""
        with self._lock:
            return {name: dict(counter) for name, counter in self._counts.items()}

    def running(self) -> list[Running]:
        with self._lock:
            return list(self._running.values())

    def close(self, names: Iterable[str]) -> None:
        """Kills what these functions run; what they are asked from now on raises StoppingError."""
        self._stopping = True
        for name in names:
            self._pools[name].close()

    def _log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    @contextmanager
    def _shown(self, invocation: Invocation, environment: Environment) -> Iterator[None]:
        self.count(invocation.function_name, "started")
        with self._lock:
            self._running[environment.pid] = Running(invocation, environment.pid, datetime.now(UTC))
        try:
            yield
        finally:
            with self._lock:
                del self._running[environment.pid]
