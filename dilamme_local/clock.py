"""EventBridge's rule: triggers a function every minute with a scheduled event.

EventBridge promises neither punctuality nor that a trigger comes once, so tests may make it late (`delay`), doubled
(`double`) or absent (`lose`): faults by the name ``clock``.
"""

import json
import logging
import threading
import time
import uuid
from datetime import UTC, datetime

from dilamme_local.events import Events
from dilamme_local.faults import Faults, Kind
from dilamme_local.invocation import ACCOUNT, REGION, StoppingError

RULE = f"arn:aws:events:{REGION}:{ACCOUNT}:rule/every-minute"

logger = logging.getLogger("dilamme_local")


class Clock:
    """Triggers ``function_name`` at the start and every ``interval_seconds`` from then on, on absolute times."""

    def __init__(
        self, events: Events, faults: Faults, *, interval_seconds: float, function_name: str = "scheduler"
    ) -> None:
        self._events = events
        self._faults = faults
        self._interval_seconds = interval_seconds
        self._function_name = function_name
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def trigger(self) -> None:
        """Sends one scheduled event, now."""
        try:
            self._events.submit(self._function_name, json.dumps(scheduled_event()).encode())
        except StoppingError:
            logger.debug("a trigger met the end of the stack")

    def _tick(self) -> None:
        due = time.monotonic()
        while not self._stopping.wait(max(0, due - time.monotonic())):
            due += self._interval_seconds
            if self._faults.strike("clock", Kind.LOSE):
                continue
            if late := self._faults.strike("clock", Kind.DELAY):
                self._stopping.wait(late.seconds)
            for _ in range(2 if self._faults.strike("clock", Kind.DOUBLE) else 1):
                self.trigger()


def scheduled_event() -> dict[str, object]:
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": ACCOUNT,
        "time": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "region": REGION,
        "resources": [RULE],
        "detail": {},
    }
