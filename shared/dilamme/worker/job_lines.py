"""A line of the log for each job that ends, where `Settings.log_jobs` asks for it."""

import logging
from collections.abc import Container, Iterable
from uuid import UUID

from dilamme.domain.outcome import Bury, Complete, RetryLater, Return
from dilamme.worker.thread_pool import Done

ENDED = "job ended"

logger = logging.getLogger("dilamme.jobs")


def log_jobs(ends: Iterable[Done], settled: Container[UUID]) -> None:
    """Tells how the attempts ended that PostgreSQL has taken; a job that was returned unstarted is not told."""
    for job, outcome in ends:
        claim = job.claim
        if claim.id not in settled:
            continue
        match outcome:
            case Complete():
                how: dict[str, object] = {"status": "completed"}
            case RetryLater(reason=reason, message=message, delay_seconds=delay):
                how = {"status": "retried", "reason": reason, "error": message, "delay_seconds": round(delay, 3)}
            case Bury(reason=reason, message=message):
                how = {"status": "dead", "reason": reason, "error": message}
            case Return(unknown=True):
                how = {"status": "unknown"}
            case Return(delay_seconds=delay) if delay is not None:
                how = {"status": "snoozed", "delay_seconds": round(delay, 3)}
            case _:
                continue
        logger.info(
            ENDED,
            extra={
                "job_id": str(claim.id),
                "job_type": claim.type,
                "attempt": claim.attempt,
                "max_attempts": claim.max_attempts,
                "milliseconds": round(job.seconds * 1000, 1),
                **how,
            },
        )
