"""The leader's bounded chores: mend counters, forget what is past its retention."""

import logging
from uuid import UUID

from dilamme.domain.job import Status
from dilamme.settings import Settings
from dilamme.store import dependencies, jobs, lease
from dilamme.store import retention as store
from dilamme.store.connection import Connection, repeat_on_conflict, transaction

logger = logging.getLogger("dilamme.upkeep")

SWEEP_JOBS_MAX = 100
PRUNE_JOBS_MAX = 500


def sweep(connection: Connection, epoch: int) -> int:
    """Holds some counters against their parents and mends those that disagree; how many did.

    The gate at the claim makes a wrong counter harmless, but a job with one too high would wait for ever. Each call
    goes on where the last one stopped, so all blocked jobs are seen in turn.
    """
    checked = store.sweep(connection, SWEEP_JOBS_MAX)
    blocked = [row.id for row in checked if row.blocked]
    if wrong := [row.id for row in checked if row.disagrees]:
        _mend(connection, wrong)
        logger.error(
            "dependency counters mended", extra={"jobs": [str(job_id) for job_id in wrong[:20]], "count": len(wrong)}
        )
    lease.move_sweep(connection, epoch, blocked[-1] if len(blocked) >= SWEEP_JOBS_MAX else None)
    return len(wrong)


@repeat_on_conflict
def _mend(connection: Connection, ids: list[UUID]) -> None:
    with transaction(connection):
        jobs.lock_parents(connection, {parent for _, parent in dependencies.edges_of(connection, ids)})
        store.mend(connection, ids)


def prune(connection: Connection, settings: Settings) -> int:
    """Deletes a bounded number of jobs past their retention; how many. A job that a live one waits on stays."""
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
    """`prune` for one status."""
    with transaction(connection):
        ids = store.lock_prunable(connection, status, keep_seconds, PRUNE_JOBS_MAX)
        if not ids:
            return 0
        store.prune_edges(connection, ids)
        gone = store.prune(connection, ids, status, keep_seconds)
        if keys := [row["idempotency_key"] for row in gone if row["idempotency_key"] is not None]:
            store.prune_keys(connection, keys)
        if series := [row["series_id"] for row in gone if row["series_id"] is not None]:
            store.prune_series(connection, series)
        return len(gone)
