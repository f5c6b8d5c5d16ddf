"""`make recovery ROUNDS=20`: how long after a kill a job runs again, and the scheduler ticks again; prints a table.

Workers and leaders are killed one at a time in a system that is otherwise idle, so that nothing but the recovery itself is
measured. A worker's successor is a warm process, a scheduler's a cold start, as the local stack keeps them. The settings
are the deployed ones where the table does not say otherwise.
"""

import argparse
import json
import logging
import os
import random
import signal
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import psycopg

from dilamme_local.faults import Fault, Kind
from dilamme_local.stack import Stack
from tests.soak.evidence import Run, install_history, read_runs
from tests.soak.stage import stage
from tests.support.waiting import wait_until

ROUND_SECONDS_MAX = 90
T = TypeVar("T")
# A function's time of 6 s in place of 300 s, so that a lease is worth waiting for; a trigger every 5 s in place of 60 s.
SHORT_LEASE = {
    "worker_timeout_seconds": 6,
    "worker_reserve_seconds": 1,
    "lease_margin_seconds": 1,
    "job_timeout_seconds": 5,
    "trigger_seconds": 5,
}
SHORT_TRIGGER = {"trigger_seconds": 5}


@dataclass
class Bench:
    """A stack under measurement, and the journals of its handlers."""

    stack: Stack
    folder: Path

    def post(self, **job: Any) -> UUID:
        request = urllib.request.Request(
            f"{self.stack.url}/jobs", json.dumps(job).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return UUID(json.load(answer)["id"])

    def post_due_in(self, seconds: float) -> UUID:
        return self.post(type="soak.note", scheduledAt=(datetime.now(UTC) + timedelta(seconds=seconds)).isoformat())

    def query(self, statement: str, *parameters: Any) -> tuple[Any, ...]:
        with psycopg.connect(self.stack.database_url) as connection:
            (row,) = connection.execute(statement.encode(), parameters).fetchall()
            return row

    def start_of(self, job_id: UUID, number: int) -> Run | None:
        runs = read_runs(self.folder / "runs").get(job_id, [])
        return runs[number - 1] if len(runs) >= number else None

    def leader_pid(self) -> int | None:
        """The process of the scheduler that holds the lease."""
        owner, leads = self.query("SELECT owner, expires_at > dilamme.clock() FROM dilamme.scheduler_lease")
        pids = [one.pid for one in self.stack.dispatcher.running() if one.invocation.request_id == str(owner)]
        return pids[0] if leads and pids else None

    def ticked_since(self, moment: float) -> float | None:
        """When the first tick that is seen after a time was (both in seconds since 1970)."""
        (at,) = self.query("SELECT extract(epoch FROM last_tick_at)::float8 FROM dilamme.scheduler_lease")
        return at if at is not None and at > moment else None

    def lose_next_report(self) -> None:
        self.stack.faults.arm(Fault("rescue", Kind.LOSE))


def until(probe: Callable[[], T | None]) -> T:
    return wait_until(probe, seconds=ROUND_SECONDS_MAX)


# ===== a killed worker


class WorkerRound(NamedTuple):
    """Seconds from the kill until the job is free, until it runs again, and from the end of its lease until that."""

    freed: float
    ran: float
    ran_after_lease: float


def worker_round(bench: Bench, *, reported: bool) -> WorkerRound:
    """Kills a worker in the middle of a job, and sees the job through."""
    job_id = bench.post(type="soak.slow", payload={"seconds": 30 if reported else 4.5, "attempts": 1})
    first = until(lambda: bench.start_of(job_id, 1))
    (lease,) = bench.query(
        "SELECT extract(epoch FROM lease_expires_at)::float8 FROM dilamme.jobs WHERE id = %s", job_id
    )
    lease_ends_at = lease - time.time() + time.monotonic()
    if reported:
        until(lambda: bench.stack.dispatcher._pools["worker"]._idle)  # the successor; unreported, it has time to come
    else:
        bench.lose_next_report()
    killed_at, since_1970 = time.monotonic(), time.time() - time.monotonic()
    os.kill(int(first.process.partition("-")[0]), signal.SIGKILL)
    again = until(lambda: bench.start_of(job_id, 2))
    until(lambda: bench.query("SELECT status FROM dilamme.jobs WHERE id = %s", job_id) == ("completed",))
    (freed,) = bench.query(
        "SELECT extract(epoch FROM min(at))::float8 FROM soak.history WHERE job_id = %s AND was = 'running'", job_id
    )
    return WorkerRound(freed - since_1970 - killed_at, again.started - killed_at, again.started - lease_ends_at)


# ===== a killed leader


def leader_round(bench: Bench, *, reported: bool, busy: bool = False) -> float:
    """Seconds from the kill to the next tick; ``busy``: jobs for later go on coming in."""
    bench.post_due_in(60)  # so that there is something to lead for
    pid = until(bench.leader_pid)
    time.sleep(random.random())  # anywhere between two ticks
    if not reported:
        bench.lose_next_report()
    killed_at = time.time()
    os.kill(pid, signal.SIGKILL)

    def look() -> float | None:
        if busy:
            bench.post_due_in(60)
        return bench.ticked_since(killed_at)

    return until(look) - killed_at


# ===== the table


@contextmanager
def bench(settings: Mapping[str, object], *, deployed_times: bool) -> Iterator[Bench]:
    with tempfile.TemporaryDirectory(prefix="dilamme-recovery-") as name:
        folder = Path(name)
        with stage(folder, {"worker_slots": 4, **settings}, deployed_times=deployed_times) as stack:
            with psycopg.connect(stack.database_url) as connection:
                install_history(connection)
            yield Bench(stack, folder)


def tell(what: str, seconds: list[float]) -> None:
    sys.stdout.write(f"{what:<66} {len(seconds):>3} {median(seconds):>8.2f} {max(seconds):>8.2f}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.recovery", description=__doc__)
    parser.add_argument("rounds", type=int, nargs="?", default=20)
    rounds = range(parser.parse_args().rounds)
    logging.getLogger("dilamme_local").setLevel(logging.CRITICAL)  # that invocations fail is no news here
    sys.stdout.write(f"{'seconds':<66} {'n':>3} {'median':>8} {'max':>8}\n")
    with bench({}, deployed_times=True) as at:
        workers = [worker_round(at, reported=True) for _ in rounds]
        tell("killed worker, reported -> its job is free", [one.freed for one in workers])
        tell("killed worker, reported -> its job runs again", [one.ran for one in workers])
        tell("killed leader, reported -> next tick", [leader_round(at, reported=True) for _ in rounds])
        busy = [leader_round(at, reported=False, busy=True) for _ in rounds]
        tell("killed leader, unreported, scheduled jobs come in -> next tick", busy)
    with bench(SHORT_LEASE, deployed_times=False) as at:
        workers = [worker_round(at, reported=False) for _ in rounds]
        tell("killed worker, unreported, 6 s of function time -> runs again", [one.ran for one in workers])
        tell("  the same, counted from the end of the lease", [one.ran_after_lease for one in workers])
    with bench(SHORT_TRIGGER, deployed_times=False) as at:
        idle = [leader_round(at, reported=False) for _ in rounds]
        tell("killed leader, unreported, a trigger every 5 s -> next tick", idle)


if __name__ == "__main__":
    main()
