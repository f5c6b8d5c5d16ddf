"""The stack that a soak runs on: the deployed functions with the soak's job handlers, and times cut from minutes to seconds."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from dilamme_local.options import Options
from dilamme_local.postgres import NOT_DURABLE
from dilamme_local.stack import Stack
from tests.support.checkout import CHECKOUT

JOBS = Path(__file__).parent / "jobs" / "soaked.py"
WORKER_SECONDS = 10
MAX_ATTEMPTS = 3
KEPT_SECONDS = 30  # longer than a client asks again under its key
# The proportions are the deployed ones: a leader outlives two triggers, a lease is the function's time and a margin.
SETTINGS = {
    "worker_slots": 6,
    "max_attempts": MAX_ATTEMPTS,
    "worker_timeout_seconds": WORKER_SECONDS,
    "worker_reserve_seconds": 1.5,
    "lease_margin_seconds": 1.5,
    "job_timeout_seconds": 6,
    "event_age_seconds": 4,
    "backoff_base_seconds": 0.3,
    "backoff_cap_seconds": 3,
    "ageing_seconds": 5,
    "trigger_seconds": 5,
    "leader_seconds": 11,
    "idle_exit_seconds": 1,
    "unknown_type_delay_seconds": 1,
    "unknown_type_grace_seconds": 4,
    "completed_retention_seconds": KEPT_SECONDS,
    "dead_retention_seconds": KEPT_SECONDS,
}
CLOCK_SECONDS = 5
SCHEDULER_SECONDS = 25


@contextmanager
def stage(folder: Path, settings: Mapping[str, object] = SETTINGS, *, deployed_times: bool = False) -> Iterator[Stack]:
    """A running stack in ``folder``, with a PostgreSQL of its own; ``deployed_times`` leaves trigger and timeouts as they are."""
    for name in ("runs", *(f"locks/{number:02x}" for number in range(256))):
        (folder / name).mkdir(parents=True)
    options = Options(
        port=0,
        data_dir=folder / "data",
        functions_folder=_functions(folder),
        variables={
            "SOAK_FOLDER": str(folder),
            **{f"DILAMME_{key.upper()}": str(value) for key, value in settings.items()},
        },
        clock_seconds=60 if deployed_times else CLOCK_SECONDS,
        timeouts_seconds={} if deployed_times else {"scheduler": SCHEDULER_SECONDS},
        postgres_settings=NOT_DURABLE,
    )
    with Stack(options) as stack:
        yield stack


def _functions(folder: Path) -> Path:
    functions = folder / "functions"
    shutil.copytree(CHECKOUT / "functions", functions, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(JOBS, functions / "worker" / "jobs")
    return functions
