"""Runs jobs: those that the scheduler's heap chose, then the most urgent ones, until none is left."""

from functools import partial
from pathlib import Path
from typing import Any

from dilamme import session, settings
from dilamme.aws import database, environment, invoke, log
from dilamme.aws.telemetry import set_up
from dilamme.domain.durations import Durations
from dilamme.domain.worker_event import WorkerEvent
from dilamme.handlers.context import Context
from dilamme.handlers.discovery import load_jobs
from dilamme.handlers.registry import registry
from dilamme.store.job_types import upsert_types
from dilamme.worker.drain import drain
from dilamme.worker.metrics import observe_settled
from dilamme.worker.watchdog import Watchdog
from dilamme.worker.worker import Worker

logger, metrics = set_up("worker")
configuration = settings.load()
durations = Durations()
watchdog = Watchdog(log.STANDARD_ERROR)
JOBS = Path(__file__).parent / "jobs"

Context.opener = staticmethod(session.open_connection)
environment.keep()
database.hold_login()
load_jobs(JOBS, demo=configuration.demo_jobs)
if environment.boto3_is_misled():
    invoke.prepare()  # now, while no handler runs who would see the variables as they were
log.keep_hold(logger.name)
registry.resolve_shapes()
registry.refuse_timeouts_over(configuration.job_timeout_seconds_max)
_published = False


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Claims and runs jobs in the slot of the event; {admitted, settled}."""
    global _published
    connection = session.connection()
    if not _published:
        upsert_types(connection, list(registry.values()))
        _published = True
    worker = Worker(
        settings=configuration,
        registry=registry,
        durations=durations,
        remaining_seconds=lambda: context.get_remaining_time_in_millis() / 1000,
        reconnect=session.reconnect,
        connect=session.open_connection,
        observe=partial(observe_settled, metrics),
        watchdog=watchdog,
    )
    drained = drain(connection, worker, WorkerEvent.from_json(event))
    return {"admitted": drained.admitted, "settled": drained.settled}
