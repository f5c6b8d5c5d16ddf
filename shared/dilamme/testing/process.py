"""A worker's process within the test's own: the deployed drain loop, on a real database."""

import threading
import time
from collections.abc import Sequence
from contextlib import closing
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


class WorkerProcess:
    """Holds what a worker's process holds. Change ``settings``, ``durations``, ``url`` before work begins.

    A process that a worker would end lives on here, so `ended` is set instead: handlers that hang wait for it.
    """

    def __init__(self, url: str, settings: Settings, registry: Registry) -> None:
        self.url = url
        self.settings = settings
        self.registry = registry
        self.durations = Durations()
        self.exit_codes: list[int] = []
        self.ended = threading.Event()
        self.first_pid = 0

    def close(self) -> None:
        """Lets go of every handler that hangs."""
        self.ended.set()

    def adjust(self, **changes: Any) -> None:
        """Other settings, checked as `Settings` checks them."""
        self.settings = Settings.model_validate({**self.settings.model_dump(), **changes})

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
        """The equipment of such an invocation."""
        end = time.monotonic() + seconds
        return Worker(
            settings=self.settings,
            registry=self.registry,
            durations=self.durations,
            remaining_seconds=lambda: end - time.monotonic(),
            reconnect=self.reconnect,
            connect=self.connect_once_more,
            observe=self.observe,
            end_process=self.end_process,
        )

    def reconnect(self) -> Connection:
        """The connection that takes a lost one's place."""
        return connect(self.url)

    def connect_once_more(self) -> Connection:
        """The connection that a worker opens beside its first."""
        return connect(self.url)

    def observe(self, settled: Sequence[tuple[Claim, Outcome]]) -> None:
        """Gets the jobs of each settlement."""

    def end_process(self, code: int) -> None:
        """Takes the place of ``os._exit``."""
        self.exit_codes.append(code)
        self.ended.set()
