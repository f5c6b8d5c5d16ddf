"""Dilamme as the benchmarks run it: the deployed functions, in processes of their own, beside a no-op job.

The worker's handler is the one of `functions/worker`, in an execution environment of the local stack, entered with the
database role that it has when deployed, and called with the event that the scheduler would send.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from uuid import uuid4

from benchmarks._common import note
from benchmarks._tally import VARIABLE
from dilamme.domain.worker_event import WorkerEvent
from dilamme.settings import Settings, read
from dilamme.store import lease, slots
from dilamme.store.connection import connect
from dilamme.usecases.migrate import migrate
from dilamme_local.environment import Environment
from dilamme_local.functions import ROLES, Function
from dilamme_local.invocation import Invocation
from dilamme_local.postgres import Postgres
from dilamme_local.product import PRODUCT as CHECKOUT

NOOP = "bench.noop"
JOBS = Path(__file__).with_name("jobs")

# What usecases/submit stores for a job without options, by SQL alone: half a million in seconds.
_INSERT = """
    INSERT INTO dilamme.jobs (id, type, status, priority, unmet_dependencies, created_at, scheduled_at, ready_at, payload)
    SELECT uuidv7(), %(type)s, 'pending', %(priority)s, %(unmet)s, now(), now() + %(later)s, now() + %(later)s, '{}'
    FROM generate_series(1, %(count)s)
    RETURNING id"""


def fill(url: str, pending: int, future: int = 0, blocked: int = 0, priority: int = 2) -> None:
    """Migrates, and stores jobs: due ones, ones due tomorrow, and ones that wait for the first of these."""
    with closing(connect(url)) as connection:
        migrate(connection, read({}))
        insert = {"type": NOOP, "priority": priority, "unmet": 0, "later": "0", "count": pending}
        connection.execute(f"WITH stored AS ({_INSERT}) SELECT count(*) FROM stored", insert)  # noqa: S608
        if not future and not blocked:
            return
        insert |= {"later": "1 day", "count": max(future, 1)}
        ids = connection.execute(_INSERT, insert).fetchmany(1)
        insert |= {"later": "0", "unmet": 1, "count": blocked}
        edges = f"WITH child AS ({_INSERT}) INSERT INTO dilamme.job_dependencies SELECT id, %(parent)s FROM child"  # noqa: S608
        connection.execute(edges, insert | {"parent": ids[0][0]})


def settings(workers: int) -> Settings:
    """The defaults; only as many slots as workers are started, or they would call more."""
    return read({"DILAMME_WORKER_SLOTS": str(workers)})


@contextmanager
def functions(folder: Path) -> Iterator[Path]:
    """A copy of functions/ with the benchmarks' jobs in the place where users put theirs."""
    place = folder / "functions"
    shutil.copytree(CHECKOUT / "functions", place, ignore=shutil.ignore_patterns("__pycache__"))
    for file in JOBS.glob("*.py"):
        shutil.copy(file, place / "worker" / "jobs")
    shutil.copy(Path(__file__).with_name("_tally.py"), place / "worker" / "jobs" / "tally.py")
    try:
        yield place
    finally:
        shutil.rmtree(place)


class Workers:
    """So many warm worker processes; `start` calls them, each with a slot of its own."""

    def __init__(self, server: Postgres, database: str, workers: int, place: Path, tally: Path) -> None:
        self._settings = settings(workers)
        self._url = server.url(database)
        self._stopped = False
        variables = self._variables(server, database, tally)
        log = place.parent / "workers.log"
        function = Function("worker", place / "worker", self._settings.worker_timeout_seconds, environment=variables)
        self._environments = [Environment(function, log) for _ in range(workers)]
        for environment in self._environments:
            environment.wait_until_ready()
            # Warm and connected, as the stack does it; with an id, so that it leaves before the table that is locked.
            self._call(environment, WorkerEvent(0, uuid4(), [uuid4()], datetime.now(UTC)).to_json())

    def start(self) -> None:
        with closing(connect(self._url)) as connection:
            slots.provide_slots(connection, len(self._environments))
            lease.take_lead(connection, uuid4(), 3600)  # a scheduler is there, as it is under load
            tokens = [uuid4() for _ in self._environments]
            reserved = slots.reserve(connection, tokens, len(tokens), self._settings.invitation_seconds)
        for environment, slot in zip(self._environments, reserved, strict=True):
            Thread(
                target=self._call, args=(environment, WorkerEvent(slot.slot, slot.token).to_json()), daemon=True
            ).start()

    def stop(self) -> None:
        self._stopped = True
        for environment in self._environments:
            environment.kill()

    def _call(self, environment: Environment, event: Mapping[str, object]) -> None:
        outcome = environment.run(Invocation("worker", json.dumps(event).encode()))
        if not outcome.succeeded and not self._stopped:
            note(f"a worker failed: {outcome.payload.decode()}")

    def _variables(self, server: Postgres, database: str, tally: Path) -> dict[str, str]:
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PG", "DILAMME_"))
        }
        return {
            **inherited,
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
            "DATABASE_URL": server.url(database, ROLES["worker"]),
            "DILAMME_WORKER_SLOTS": str(self._settings.worker_slots),
            VARIABLE: str(tally),
        }
