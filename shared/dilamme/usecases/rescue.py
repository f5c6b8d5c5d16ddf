"""Free the slot and the jobs of a lost worker: at the platform's report, or, if that is lost too, when its lease ends."""

import logging
import random
from collections.abc import Callable, Sequence
from uuid import UUID

import psycopg

from dilamme.domain.job import Held
from dilamme.domain.outcome import after_loss
from dilamme.domain.retry import Backoff
from dilamme.settings import Settings
from dilamme.store import claims, lease, slots
from dilamme.store.connection import Connection
from dilamme.usecases.settle import Settlement, settle
from dilamme.usecases.wake import invoke_scheduler, wake, wake_scheduler

logger = logging.getLogger("dilamme.rescue")

EXPIRED_JOBS_MAX = 500


def rescue_worker(connection: Connection, settings: Settings, worker: UUID) -> Settlement:
    """Frees the slot and the jobs of the worker that had this token, and nothing else. A second call changes nothing.

    Raises:
        psycopg.errors.LockNotAvailable: a caller's transaction holds one of the jobs: the others are free, call again.
    """
    slots.free(connection, [worker])
    settlement = _settle_lost(connection, claims.held_by(connection, worker, settings.policy))
    # If the worker was lost before its claim, its work is left to the next tick: make sure that a scheduler leads.
    wake(connection, settings, due=settlement.due, later=True)
    if settlement.locked:
        raise psycopg.errors.LockNotAvailable(f"somebody holds {len(settlement.locked)} of the jobs: call again")
    return settlement


def take_back_slot(connection: Connection, settings: Settings, worker: UUID) -> None:
    """Frees the slot of a worker whose event became too old in AWS's queue, unless a worker has come.

    A worker that has come was invoked by another delivery of the same event, and is alive: its jobs are not touched.
    """
    slots.take_back(connection, [worker])
    wake_scheduler(connection, settings)


def rescue_leader(connection: Connection, settings: Settings, owner: UUID) -> bool:
    """Invokes the next scheduler if this one led, or if nobody does."""
    if lease.depose(connection, owner, settings.invitation_seconds):
        return invoke_scheduler(connection, settings)
    return wake_scheduler(connection, settings)


def expire(connection: Connection, settings: Settings) -> Settlement:
    """Frees jobs whose lease has run out: a bounded number in each call."""
    return _settle_lost(connection, claims.expired(connection, EXPIRED_JOBS_MAX, settings.policy))


def _settle_lost(connection: Connection, held: Sequence[Held], rand: Callable[[], float] = random.random) -> Settlement:
    if not held:
        return Settlement()
    settlement = settle(
        connection,
        [(job, after_loss(job, Backoff(job.backoff_base_seconds, job.backoff_cap_seconds), rand())) for job in held],
    )
    for job_id, error in settlement.refused.items():
        logger.error("a lost job cannot be freed", extra={"job_id": str(job_id), "error": str(error)})
    return settlement
