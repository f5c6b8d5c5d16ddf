"""Workers in this process: the deployed drain loop, with handlers of the test's own."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from dilamme.domain.durations import Durations
from dilamme.domain.job import Claim
from dilamme.domain.outcome import Outcome
from dilamme.domain.worker_event import WorkerEvent
from dilamme.handlers.registry import Registry
from dilamme.settings import Settings
from dilamme.store import slots
from dilamme.store.connection import Connection, connect
from dilamme.store.job_types import upsert_types
from dilamme.worker.drain import Drained, drain
from dilamme.worker.worker import Worker
from tests.support.entrance import Entrance
from tests.support.jobs import ECHO


class Workshop:
    """Holds what a worker's process holds. Change ``settings``, ``durations``, ``url`` before work begins.

    A process that a worker would end lives on here, so `ended` is set instead: handlers that hang wait for it.
    """

    def __init__(self, entrance: Entrance, settings: Settings) -> None:
        self.settings = settings
        self.registry = Registry()
        self.durations = Durations()
        self.url = entrance.url("worker")
        self.exit_codes: list[int] = []
        self.ended = threading.Event()
        self.first_pid = 0
        self.more_connections: list[Connection] = []
        self.observed: list[tuple[datetime, Claim, Outcome]] = []
        self.ran: list[tuple[Any, int]] = []
        self.before_reconnect: Callable[[], object] = lambda: None
        self.registry.job(ECHO)(self._echo)

    def close(self) -> None:
        """Lets go of every handler that hangs."""
        self.ended.set()

    def adjust(self, **changes: Any) -> None:
        """Other settings, checked as `Settings` checks them."""
        self.settings = Settings.model_validate({**self.settings.model_dump(), **changes})

    def timed(self, type_: str, seconds: float) -> None:
        """As if this worker had run many jobs of a type, each in that time."""
        self.durations.record([(type_, seconds)] * 128)

    def reserve(self, ids: Sequence[UUID] = ()) -> WorkerEvent:
        """A slot, taken as the scheduler takes one."""
        with closing(connect(self.url)) as connection:
            (reserved,) = slots.reserve(connection, [uuid4()], self.settings.worker_slots, 70)
        return WorkerEvent(reserved.slot, reserved.token, list(ids))

    def work(self, event: WorkerEvent | None = None, seconds: float = 300.0) -> Drained:
        """One invocation that has so many seconds until the platform would kill it."""
        with closing(connect(self.url)) as connection:
            self.first_pid = connection.info.backend_pid
            upsert_types(connection, list(self.registry.values()))
            return drain(connection, self.worker(seconds), event or self.reserve())

    def worker(self, seconds: float) -> Worker:
        end = time.monotonic() + seconds
        return Worker(
            settings=self.settings,
            registry=self.registry,
            durations=self.durations,
            remaining_seconds=lambda: end - time.monotonic(),
            reconnect=self._reconnect,
            connect=self.connect_once_more,
            observe=self._observe,
            end_process=self._end_process,
        )

    def connect_once_more(self) -> Connection:
        """The connection that a worker opens beside its first."""
        self.more_connections.append(connect(self.url))
        return self.more_connections[-1]

    def _reconnect(self) -> Connection:
        self.before_reconnect()
        return connect(self.url)

    def _observe(self, settled: Sequence[tuple[Claim, Outcome]]) -> None:
        now = datetime.now(UTC)
        self.observed += [(now, claimed, outcome) for claimed, outcome in settled]

    def _end_process(self, code: int) -> None:
        self.exit_codes.append(code)
        self.ended.set()

    def _echo(self, payload: Any, context: Any) -> Any:
        self.ran.append((payload, context.attempt))
        return payload
