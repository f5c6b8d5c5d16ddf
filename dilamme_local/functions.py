"""The functions as they are deployed: folder, timeout, concurrency, what happens to a failed event, database role."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from dilamme.settings import Settings

UNRESERVED_ENVIRONMENTS_MAX = 8  # on one machine; a caller beyond it waits for a free one


@dataclass(frozen=True)
class Function:
    """``reserved_concurrency`` throttles, as on AWS; without it callers wait. ``spares`` are kept idle and warm.

    ``retries`` and ``event_age_seconds`` apply to events; a failed one goes to the function ``on_failure``, if any.
    """

    name: str
    folder: Path
    timeout_seconds: float
    reserved_concurrency: int | None = None
    retries: int = 2
    event_age_seconds: float = 6 * 3600
    on_failure: str | None = None
    spares: int = 1
    memory_mb: int = 512
    handler: str = "handler.handler"
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def environments_max(self) -> int:
        return self.reserved_concurrency or UNRESERVED_ENVIRONMENTS_MAX


ROLES = {"api": "dilamme_api", "scheduler": "dilamme_scheduler", "worker": "dilamme_worker", "rescue": "dilamme_rescue"}
"""The database role of each function; `migrate` creates them, so it connects as the superuser."""


def deployed(folder: Path, settings: Settings) -> list[Function]:
    """The functions under ``folder``, set up as the template deploys them.

    An event that fails is not retried by Lambda where the retry policy lives in PostgreSQL: the attempts would multiply.
    The scheduler has room for a successor beside the leader, the worker for one more than there are slots, so that an
    event never queues behind one that runs.
    """
    once = partial(Function, retries=0, event_age_seconds=settings.event_age_seconds, on_failure="rescue")
    slots = settings.worker_slots + 1
    return [
        Function("api", folder / "api", timeout_seconds=29),
        once("scheduler", folder / "scheduler", timeout_seconds=150, reserved_concurrency=2, spares=0),
        once("worker", folder / "worker", settings.worker_timeout_seconds, reserved_concurrency=slots),
        Function("rescue", folder / "rescue", timeout_seconds=60),
        Function("migrate", folder / "migrate", timeout_seconds=300, spares=0),
    ]
