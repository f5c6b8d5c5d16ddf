"""The leader's maintenance, in bounded steps: counters that are wrong, jobs that are past their retention."""

import logging
import time
from uuid import UUID

import psycopg

from dilamme.domain.job import Status
from dilamme.settings import Settings
from dilamme.store import dependencies, idempotency_keys, lease, retention, series
from dilamme.store.connection import Connection, repeat_on_conflict, transaction
from dilamme.usecases import consequences

logger = logging.getLogger("dilamme.maintenance")

CASCADES_SECONDS = 0.25
PRUNE_SECONDS = 0.25  # each a quarter of a tick at the most, after the tick has given out its jobs
SWEEP_JOBS_MAX = 100
PRUNE_JOBS_MAX = 500


def sweep(connection: Connection, epoch: int) -> int:
    """Compares some counters with their parents and mends the wrong ones; how many were wrong.

    The gate at the claim makes a counter that is too low harmless, but a job with one too high would wait for ever. Each
    call goes on where the last one stopped, so that every blocked job has its turn.
    """
    checked = dependencies.sweep(connection, SWEEP_JOBS_MAX)
    blocked = [job.id for job in checked if job.blocked]
    if wrong := [job.id for job in checked if job.disagrees]:
        _mend(connection, wrong)
        logger.error(
            "dependency counters mended", extra={"jobs": [str(job_id) for job_id in wrong[:20]], "count": len(wrong)}
        )
    lease.move_sweep(connection, epoch, blocked[-1] if len(blocked) >= SWEEP_JOBS_MAX else None)
    return len(wrong)


@repeat_on_conflict
def _mend(connection: Connection, ids: list[UUID]) -> None:
    with transaction(connection):
        dependencies.lock_parents(connection, {parent for _, parent in dependencies.edges_of(connection, ids)})
        dependencies.mend(connection, ids)


def carry_on_cascades(connection: Connection) -> None:
    """Cancels the dependents that were too many for the transaction in which their parent ended, for a part of a tick."""
    until = time.monotonic() + CASCADES_SECONDS
    try:
        while repeat_on_conflict(consequences.carry_on)(connection) and time.monotonic() < until:
            pass
    except psycopg.errors.LockNotAvailable:
        logger.info("a dependent that is to be cancelled is held by somebody: the next tick tries again")


def prune_for_a_while(connection: Connection, settings: Settings) -> bool:
    """`prune` for a part of a tick, or until nothing is left. Is there more?"""
    until = time.monotonic() + PRUNE_SECONDS
    while prune(connection, settings) >= PRUNE_JOBS_MAX:
        if time.monotonic() >= until:
            return True
    return False


def prune(connection: Connection, settings: Settings) -> int:
    """Deletes a bounded number of jobs past their retention; how many. A job stays while a live one waits on it."""
    return sum(
        prune_status(connection, status, keep_seconds)
        for status, keep_seconds in (
            (Status.COMPLETED, settings.completed_retention_seconds),
            (Status.CANCELLED, settings.completed_retention_seconds),
            (Status.DEAD, settings.dead_retention_seconds),
        )
    )


@repeat_on_conflict
def prune_status(connection: Connection, status: Status, keep_seconds: float) -> int:
    """`prune` for one status, a bounded number; how many."""
    with transaction(connection):
        ids = retention.lock_prunable(connection, status, keep_seconds, PRUNE_JOBS_MAX)
        if not ids:
            return 0
        retention.prune_edges(connection, ids)
        gone = retention.prune(connection, ids, status, keep_seconds)
        keys = [job.idempotency_key for job in gone if job.idempotency_key is not None]
        if series_ids := {job.series_id: job.idempotency_key for job in gone if job.series_id is not None}:
            if kept := {series_id: key for series_id, key in series_ids.items() if key is not None}:
                series.keep_keys(connection, kept)
            keys += series.prune_series(connection, series_ids)
        if keys:
            idempotency_keys.prune_keys(connection, keys)
        return len(gone)
