"""Free what a lost worker held: by the platform's report at once, by the lease when the report is lost too."""

import random
from collections.abc import Callable, Sequence
from uuid import UUID

import psycopg

from dilamme.domain.job import Held
from dilamme.domain.outcome import after_loss
from dilamme.domain.retry import Backoff
from dilamme.settings import Settings
from dilamme.store import claims as store
from dilamme.store import lease, slots
from dilamme.store.connection import Connection
from dilamme.usecases import wake
from dilamme.usecases.settle import Settled, Settlement, settle

EXPIRED_JOBS_MAX = 500


def rescue_worker(connection: Connection, settings: Settings, worker: UUID) -> Settlement:
    """Frees the slot and the jobs of the worker that had this token, and nothing else. Twice is the same as once.

    Raises:
        psycopg.errors.LockNotAvailable: a caller's transaction holds one of the jobs: the others are free, call again.
    """
    settlement = _free_worker(connection, settings, worker)
    # A worker that was lost before it claimed leaves behind what it was called for: for the next tick, if somebody ticks.
    wake.wake(connection, settings, due=settlement.due, later=True)
    if settlement.locked:
        raise psycopg.errors.LockNotAvailable(f"somebody holds {len(settlement.locked)} of the jobs: call again")
    return settlement


def _free_worker(connection: Connection, settings: Settings, worker: UUID) -> Settlement:
    slots.free(connection, [worker])
    held = store.carried_by(connection, worker, defaults(settings))
    return settle(connection, _lost(held)) if held else Settlement()


def withdraw_worker(connection: Connection, settings: Settings, worker: UUID) -> None:
    """The event for the worker of this token grew too old in the queue: frees its slot, unless a worker has come.

    One that has was called by another delivery of the same event, and is alive: what it holds is not touched.
    """
    slots.take_back(connection, [worker])
    wake.wake_leader(connection, settings)


def rescue_leader(connection: Connection, settings: Settings, owner: UUID) -> bool:
    """Brings the next scheduler if this one led, or if nobody does."""
    if lease.depose(connection, owner, settings.invitation_seconds):
        return wake.call_leader(connection, settings)
    return wake.wake_leader(connection, settings)


def expire(connection: Connection, settings: Settings) -> Settlement:
    """Frees jobs whose lease has run out, a bounded number a call."""
    held = store.expired(connection, EXPIRED_JOBS_MAX, defaults(settings))
    return settle(connection, _lost(held)) if held else Settlement()


def _lost(held: Sequence[Held], rand: Callable[[], float] = random.random) -> list[Settled]:
    return [(job, after_loss(job, Backoff(job.backoff_base_seconds, job.backoff_cap_seconds), rand())) for job in held]


def defaults(settings: Settings) -> dict[str, float]:
    """The settings that stand in where neither a job nor its type says."""
    return {
        "max_attempts": settings.max_attempts,
        "backoff_base_seconds": settings.backoff_base_seconds,
        "backoff_cap_seconds": settings.backoff_cap_seconds,
    }
