"""`dilamme_worker`: an application's handlers, run in the test's process by the real engine."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any
from uuid import UUID

from dilamme.domain.job import Claim
from dilamme.domain.outcome import Outcome, Return
from dilamme.domain.worker_event import WorkerEvent
from dilamme.handlers.registry import Registry
from dilamme.library import submit
from dilamme.settings import Settings
from dilamme.store.connection import connect
from dilamme.testing.database import Database
from dilamme.testing.process import WorkerProcess
from dilamme.usecases.read import find_job
from dilamme.usecases.replay import replay_job
from dilamme.wire.answers import JobView

RUNS_MAX = 1_000
ANYTHING = object()
_ALL = "SELECT id FROM dilamme.jobs WHERE %(type)s::text IS NULL OR type = %(type)s ORDER BY created_at, id"
_NEXT = """
    SELECT extract(epoch FROM min(ready_at) - dilamme.clock())::float8
    FROM dilamme.jobs WHERE status = 'pending' AND unmet_dependencies = 0 AND type = ANY(%s)
"""


class _Process(WorkerProcess):
    """Remembers what ran, in order; and the slots that were reserved for workers that nobody invokes here."""

    def __init__(self, url: str, settings: Settings, registry: Registry) -> None:
        super().__init__(url, settings, registry)
        self.ran: list[UUID] = []
        self.reserved: list[WorkerEvent] = []

    def observe(self, settled: Sequence[tuple[Claim, Outcome]]) -> None:
        self.ran += [claim.id for claim, outcome in settled if not isinstance(outcome, Return) or outcome.delay_seconds]

    def invoke(self, function: str, event: Mapping[str, Any]) -> None:
        """Takes the place of Lambda: a worker's event is worked off by the next run."""
        if function == self.settings.worker_function:
            self.reserved.append(WorkerEvent.from_json(event))


class Worker:
    """Runs jobs when the test says so, in the test's own thread, one at a time: a handler can be patched, and stepped through."""

    def __init__(self, database: Database, settings: Settings, registry: Registry) -> None:
        self.database = database
        self.process = _Process(database.url, settings, registry)

    def close(self) -> None:
        """Lets go of a handler that hangs."""
        self.process.close()

    def submit(self, type: str, payload: Any = None, **options: Any) -> UUID:  # noqa: A002
        """Stores a job; the arguments are those of `dilamme.submit`, without the connection."""
        return submit(self.database.connection, type, payload, **options)

    def run_due(self) -> list[JobView]:
        """Runs all that is due now, and what that makes due; the jobs whose attempt ended, in that order, as they are then."""
        before = len(self.process.ran)
        while True:
            event = self.process.reserved.pop() if self.process.reserved else None
            settled = self.process.work(event).settled
            if not settled and not self.process.reserved:
                return [self.job(job_id) for job_id in self.process.ran[before:]]

    def drain_to_idle(self) -> list[JobView]:
        """Runs all that is due, and moves the clock to whatever comes next, until no job can run any more.

        Retries, snoozed and later jobs all come to their end; jobs of types that have no handler here stay. A series never
        ends: use `advance` and `run_due` for it.

        Raises:
            AssertionError: there is still something to run after `RUNS_MAX` moves of the clock.
        """
        ran = self.run_due()
        for _ in range(RUNS_MAX):
            (wait,) = self.database.connection.execute(_NEXT, ([*self.process.registry],)).fetchone() or (None,)
            if wait is None:
                return ran
            self.advance(max(0.001, wait + 0.001))
            ran += self.run_due()
        raise AssertionError(
            f"there is still something to run after {RUNS_MAX} moves of the clock: a series has no end"
        )

    def replay(self, job_id: UUID) -> None:
        """Brings a dead job back, with fresh attempts.

        Raises:
            dilamme.Conflict, dilamme.NotFound: it is not dead, or not there.
        """
        with closing(connect(self.database.url)) as connection:
            replay_job(connection, job_id)

    def advance(self, seconds: float = 0, *, minutes: float = 0, hours: float = 0, days: float = 0) -> None:
        """Moves the database's clock forwards; nothing runs by that."""
        self.database.clock.advance(seconds, minutes=minutes, hours=hours, days=days)

    def submitted(self, type: str | None = None) -> list[JobView]:  # noqa: A002
        """All jobs that were stored, or those of a type, oldest first."""
        found = self.database.connection.execute(_ALL, {"type": type}).fetchall()
        return [self.job(job_id) for (job_id,) in found]

    def job(self, job_id: UUID) -> JobView:
        """The job as it is now."""
        with closing(connect(self.database.url)) as connection:
            return find_job(connection, self.process.settings, job_id)

    def assert_enqueued(self, type: str, *, payload: Any = ANYTHING, count: int | None = None) -> list[JobView]:  # noqa: A002
        """Checks that a job of this type waits or ran, with this payload if one is given; the jobs that fit.

        Args:
            type: the job's type.
            payload: compared with the whole payload, as JSON gives it back.
            count: how many there must be; at least one when left out.
        """
        of_type = self.submitted(type)
        fit = [job for job in of_type if payload is ANYTHING or job.payload == payload]
        if (not fit) if count is None else (len(fit) != count):
            wanted = f"{'a job' if count is None else f'{count} jobs'} of type '{type}'"
            wanted += "" if payload is ANYTHING else f" with payload {payload!r}"
            others = "\n".join(f"  {job.type} {job.payload!r} ({job.status})" for job in of_type or self.submitted())
            raise AssertionError(f"expected {wanted}, found {len(fit)}; stored were:\n{others or '  no jobs'}")
        return fit
