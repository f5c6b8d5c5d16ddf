"""The equipment of one worker invocation."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dilamme.domain.durations import Durations
from dilamme.handlers.registry import Registry
from dilamme.settings import Settings
from dilamme.store.connection import Connection
from dilamme.worker.settling import Observe
from dilamme.worker.watchdog import Watchdog


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker's tools. ``remaining_seconds`` is its time until the platform kills it.

    ``durations`` outlive the invocation. ``observe`` gets the jobs of each settlement, with their outcomes.
    """

    settings: Settings
    registry: Registry
    durations: Durations
    remaining_seconds: Callable[[], float]
    reconnect: Callable[[], Connection]
    connect: Callable[[], Connection]  # one more, beside the first
    observe: Observe = lambda ends: None
    end_process: Callable[[int], Any] = os._exit
    watchdog: Watchdog | None = None  # none where a process must not end, as in tests

    def longest_seconds(self) -> float:
        """The longest timeout of any type."""
        policy = self.settings.policy
        return max([policy.timeout_seconds, *(policy.timeout(one) for one in self.registry.values())])

    def hold_seconds(self) -> float:
        """The seconds for which a slot or a job is ours: longer than the platform lets us live."""
        return self.remaining_seconds() + self.settings.lease_margin_seconds

    def handler_seconds(self) -> float:
        """The seconds that handlers may still use."""
        return self.remaining_seconds() - self.settings.worker_reserve_seconds
