"""Runs jobs: those that the scheduler's heap chose, then the most urgent, until nothing is left."""

import importlib
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from dilamme import session, settings
from dilamme.aws.telemetry import enable_loggers, set_up, spread
from dilamme.domain.durations import Pace
from dilamme.domain.job import Claim
from dilamme.domain.outcome import Bury, Complete, HandBack, Outcome, RetryLater
from dilamme.handlers.registry import registry
from dilamme.store.job_types import upsert_types
from dilamme.worker.drain import Worker, WorkerEvent, drain

logger, metrics = set_up("worker")
configuration = settings.load()
pace = Pace()
JOBS = Path(__file__).parent / "jobs"


def load_jobs(folder: Path) -> None:
    """Imports every module below ``folder``, which registers the handlers in it; the demo.* ones only where they are on."""
    sys.path.insert(0, str(folder.parent))  # so that a module of handlers can import another as jobs.<name>
    for file in sorted(folder.rglob("*.py")):
        name = "jobs." + ".".join(file.relative_to(folder).with_suffix("").parts)
        if not name.endswith("__init__") and (name != "jobs.demo" or configuration.demo_jobs):
            importlib.import_module(name)


load_jobs(JOBS)
enable_loggers(logger)
registry.refuse_timeouts_over(configuration.job_timeout_seconds_max)
MILLISECOND = timedelta(milliseconds=1)
_published = False
_METRIC_OF = {Complete: "JobsCompleted", RetryLater: "JobsRetried", Bury: "JobsDied", HandBack: "JobsHandedBack"}


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Drains; {admitted, settled}."""
    connection = session.connection()
    _publish_types(connection)
    worker = Worker(
        settings=configuration,
        registry=registry,
        pace=pace,
        remaining_seconds=lambda: context.get_remaining_time_in_millis() / 1000,
        reconnect=session.reconnect,
        connect=session.open_connection,
        observe=observe,
    )
    drained = drain(connection, worker, _parse(event))
    return {"admitted": drained.admitted, "settled": drained.settled}


def _publish_types(connection: Any) -> None:
    global _published
    if not _published:
        upsert_types(connection, list(registry.values()))
        _published = True


def _parse(event: dict[str, Any]) -> WorkerEvent:
    ticked_at = event.get("tickedAt")
    return WorkerEvent(
        slot=event["slot"],
        token=UUID(event["token"]),
        ids=[UUID(job_id) for job_id in event.get("ids", ())],
        ticked_at=datetime.fromisoformat(ticked_at) if ticked_at else None,
    )


def observe(settled: Sequence[tuple[Claim, Outcome]]) -> None:
    """Counts how jobs ended, and how long those that ran had waited, by their original priority."""
    for kind, count in Counter(map(type, [outcome for _, outcome in settled])).items():
        metrics.add(_METRIC_OF[kind], count)
    started = [claim for claim, outcome in settled if not isinstance(outcome, HandBack)]
    if started:
        metrics.add("JobsStarted", len(started))
    waits: dict[int, list[timedelta]] = defaultdict(list)
    for claim in started:
        waits[claim.priority].append(claim.started_at - claim.ready_at)
    for priority, waited in waits.items():
        for wait in spread(waited):
            metrics.add(f"WaitP{priority}", wait / MILLISECOND)
    if unknown := sum(isinstance(outcome, HandBack) and outcome.unknown for _, outcome in settled):
        metrics.add("JobsOfUnknownType", unknown)
    # At once: a worker that is killed, or ends its process because a handler overran, would take them with it.
    metrics.flush()
