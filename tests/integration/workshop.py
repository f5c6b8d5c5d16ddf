"""Workers in this process: the deployed drain loop, with handlers of the test's own."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from dilamme.domain.job import Claim
from dilamme.domain.outcome import Outcome
from dilamme.handlers.registry import Registry
from dilamme.settings import Settings
from dilamme.store.connection import Connection, connect
from dilamme.testing.process import WorkerProcess
from tests.support.entrance import Entrance
from tests.support.jobs import ECHO


class Workshop(WorkerProcess):
    """A worker's process that knows `ECHO`, and keeps a record of what it did."""

    def __init__(self, entrance: Entrance, settings: Settings) -> None:
        super().__init__(entrance.url("worker"), settings, Registry())
        self.more_connections: list[Connection] = []
        self.observed: list[tuple[datetime, Claim, Outcome]] = []
        self.ran: list[tuple[Any, int]] = []
        self.before_reconnect: Callable[[], object] = lambda: None
        self.registry.job(ECHO)(self._echo)

    def timed(self, type_: str, seconds: float) -> None:
        """As if this worker had run many jobs of a type, each in that time."""
        self.durations.record([(type_, seconds)] * 128)

    def connect_once_more(self) -> Connection:
        self.more_connections.append(connect(self.url))
        return self.more_connections[-1]

    def reconnect(self) -> Connection:
        self.before_reconnect()
        return connect(self.url)

    def observe(self, settled: Sequence[tuple[Claim, Outcome]]) -> None:
        now = datetime.now(UTC)
        self.observed += [(now, claimed, outcome) for claimed, outcome in settled]

    def _echo(self, payload: Any, context: Any) -> Any:
        self.ran.append((payload, context.attempt))
        return payload
