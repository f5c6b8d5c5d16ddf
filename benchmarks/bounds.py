"""Work in proportion to somebody's data: how long a call takes, whether the ticks go on, whether a table grows.

    PYTHONPATH=shared python -m benchmarks.bounds [--jobs 120000] [--rate 1000] [--minutes 5] [--kept 60]

* A chain: each job is cancelled with the one before; the first is cancelled over HTTP.
* A fan: as many dependents of one job, which is cancelled.
* A release: as many dependents of one job, which completes.
* A batch with the most dependencies that are taken, half of them by refs and half by ids.
* Retention: so many completed jobs a second, each kept for so many seconds; the rows are counted every 10 s. Nothing else
  keeps a scheduler at work, so that it comes once a minute.

Each on the local stack, with its scheduler at work. The ticks are those that the scheduler's lease records.
"""

import argparse
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from benchmarks import _common as common
from benchmarks import _dilamme, _server
from dilamme.wire.requests import BATCH_DEPENDENCIES_MAX
from dilamme_local.options import Options
from dilamme_local.stack import Stack

WAIT_SECONDS_MAX = 600
COUNT_SECONDS = 10.0
# Ids as our own are made: the older the smaller, so that retention and the claim find them where they would be.
JOBS = """
    INSERT INTO dilamme.jobs (id, status, created_at, scheduled_at, ready_at, finished_at, type, priority, payload,
        on_dependency_failure, unmet_dependencies)
    SELECT ('01890000-0000-7000-8000-' || lpad(to_hex(number), 12, '0'))::uuid, %(status)s, dilamme.clock(), dilamme.clock(),
        dilamme.clock() + CASE WHEN number = 0 THEN %(head)s::interval ELSE '0' END,
        CASE WHEN %(status)s = 'completed' THEN dilamme.clock() END, %(type)s, 2, '{}', %(policy)s,
        CASE WHEN number > 0 AND %(status)s = 'pending' THEN 1 ELSE 0 END
    FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS number
"""
EDGES = """
    INSERT INTO dilamme.job_dependencies (child_id, parent_id)
    SELECT child.id, (CASE WHEN %(chain)s THEN lag(child.id) OVER (ORDER BY child.id)
                           ELSE first_value(child.id) OVER (ORDER BY child.id) END)
    FROM dilamme.jobs AS child ORDER BY child.id OFFSET 1
"""
HEAD = UUID("01890000-0000-7000-8000-000000000000")
LEFT = "SELECT count(*) FROM dilamme.jobs WHERE status = 'pending' AND unmet_dependencies > 0"


@dataclass
class Ticks:
    """When the scheduler ticked, seen every few milliseconds."""

    at: list[datetime] = field(default_factory=list)

    def longest_gap_seconds(self) -> float:
        return max(
            ((late - soon).total_seconds() for soon, late in zip(self.at, self.at[1:], strict=False)), default=0.0
        )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Work in proportion to somebody's data.")
    parser.add_argument("--jobs", type=int, default=120_000, help="of the chain, the fan and the release")
    parser.add_argument("--rate", type=int, default=1_000, help="jobs that complete in a second")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--kept", type=float, default=60, help="seconds that a completed job is kept")
    options = parser.parse_args(arguments)
    found = {
        "chain, cancelled": spread(options.jobs, chain=True, settings={}),
        "fan, cancelled": spread(options.jobs, chain=False, settings={}),
        "fan, released": release(options.jobs),
    }
    batch = wide_batch()
    rows = retention(options.rate, options.minutes, options.kept)
    report(options, found, batch, rows)


@contextmanager
def running(settings: dict[str, str]) -> Iterator[Stack]:
    with (
        _server.scratch() as folder,
        _dilamme.functions(folder) as place,
        Stack(Options(port=0, data_dir=folder, functions_folder=place, variables=settings)) as stack,
    ):
        yield stack


def store(stack: Stack, number: int, *, chain: bool, type_: str, policy: str, head: str) -> None:
    with _server.connect(stack.database_url) as connection:
        values = {"status": "pending", "type": type_, "policy": policy, "head": head, "first": 0, "last": number}
        with connection.transaction():  # jobs without their edges would be mended by a tick, and run
            connection.execute(JOBS, values)
            connection.execute(EDGES, {"chain": chain})
        connection.execute("ANALYZE dilamme.jobs, dilamme.job_dependencies")


def spread(number: int, *, chain: bool, settings: dict[str, str]) -> dict[str, float]:
    with running(settings) as stack:
        store(stack, number, chain=chain, type_="bench.noop", policy="cancel", head="1 hour")
        return watched(stack, lambda: call(stack.url, f"/jobs/{HEAD}/cancel"))


def release(number: int) -> dict[str, float]:
    """The head is due as soon as it is stored: its worker completes it, and the rest is released."""
    with running({"DILAMME_WORKER_SLOTS": "1"}) as stack:
        store(stack, number, chain=False, type_="bench.noop", policy="wait", head="5 s")
        # Any POST wakes a scheduler, which finds the head at its time.
        return watched(stack, lambda: call(stack.url, "/jobs", {"type": "bench.noop"}))


def wide_batch() -> float:
    """Seconds of the call; the third of three, since the first one starts the function."""
    with running({}) as stack:
        parents = [
            job["id"] for job in call(stack.url, "/jobs/batch", {"jobs": [{"type": "bench.noop"}] * 100})["jobs"]
        ]
        stages: list[dict[str, object]] = [{"type": "bench.noop", "ref": str(index)} for index in range(100)]
        half = BATCH_DEPENDENCIES_MAX // 100 // 2
        jobs: list[Any] = [
            *stages,
            *[{"type": "bench.noop", "dependencyRefs": [job["ref"] for job in stages]}] * half,
            *[{"type": "bench.noop", "dependencyIds": parents}] * half,
        ]
        for _ in range(3):
            began = time.monotonic()
            call(stack.url, "/jobs/batch", {"jobs": jobs})
            took = time.monotonic() - began
        return took


def watched(stack: Stack, begin: Callable[[], None]) -> dict[str, float]:
    """Seconds of the call, and until nothing is left; the longest gap between two ticks meanwhile."""
    ticks, done = Ticks(), threading.Event()
    watcher = threading.Thread(target=watch, args=[stack.database_url, ticks, done])
    watcher.start()
    began = time.monotonic()
    begin()
    called = time.monotonic() - began
    with _server.connect(stack.database_url) as connection:
        while connection.execute(LEFT).fetchone() != (0,):
            if time.monotonic() - began > WAIT_SECONDS_MAX:
                raise TimeoutError(f"not done after {WAIT_SECONDS_MAX} s")
            time.sleep(0.1)
    last = time.monotonic() - began
    done.set()
    watcher.join()
    return {"call_seconds": called, "last_seconds": last, "longest_tick_gap_seconds": ticks.longest_gap_seconds()}


def watch(url: str, ticks: Ticks, done: threading.Event) -> None:
    with _server.connect(url) as connection:
        while not done.wait(0.02):
            (at,) = connection.execute("SELECT last_tick_at FROM dilamme.scheduler_lease").fetchone() or (None,)
            if at is not None and (not ticks.at or ticks.at[-1] != at):
                ticks.at.append(at)


def call(url: str, path: str, body: object = None) -> Any:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=120)
    connection.request("POST", path, json.dumps(body) if body else None, {"content-type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status not in (200, 201):
        raise RuntimeError(f"the API answered {answer.status}: {text!r}")
    return json.loads(text)


def retention(rate: int, minutes: float, kept: float) -> list[dict[str, float]]:
    """Rows by the second, while so many jobs complete; one job a second keeps the scheduler at work."""
    found = []
    settings = {"DILAMME_COMPLETED_RETENTION_SECONDS": str(kept)}
    with running(settings) as stack, _server.connect(stack.database_url) as connection:
        began = time.monotonic()
        progress = common.Progress("retention", int(minutes * 60))
        for second in range(int(minutes * 60)):
            values = {"status": "completed", "type": "bench.noop", "policy": "wait", "head": "0"}
            connection.execute(JOBS, {**values, "first": second * rate + 1, "last": (second + 1) * rate})
            call(stack.url, "/jobs", {"type": "bench.noop"})
            if (second + 1) % COUNT_SECONDS == 0:
                (rows,) = connection.execute("SELECT count(*) FROM dilamme.jobs").fetchone() or (0,)
                found.append({"seconds": second + 1, "rows": rows})
            progress.step(f"{second + 1} s")
            time.sleep(max(0.0, began + second + 1 - time.monotonic()))
        progress.end()
    return found


def report(
    options: argparse.Namespace, found: dict[str, dict[str, float]], batch: float, rows: list[dict[str, float]]
) -> None:
    common.table(
        f"{options.jobs:,} dependents of one job",
        ["", "the call", "until the last", "longest gap between ticks"],
        [[name, *(f"{seconds:.2f} s" for seconds in one.values())] for name, one in found.items()],
    )
    common.table(
        f"{options.rate:,} jobs complete a second, kept for {options.kept:g} s",
        ["after", "rows"],
        [[f"{row['seconds']:g} s", f"{row['rows']:,}"] for row in rows],
    )
    targets = [
        common.at_most("a call", max(one["call_seconds"] for one in found.values()), 2.0, " s"),
        common.at_most(f"a batch with {BATCH_DEPENDENCIES_MAX:,} dependencies", batch, 2.0, " s"),
        common.at_most(
            "longest gap between ticks", max(one["longest_tick_gap_seconds"] for one in found.values()), 2.0, " s"
        ),
    ]
    if rows:
        most = max(row["rows"] for row in rows)
        targets.append(
            common.at_most(
                "rows, of those of their retention and a minute", most / (options.rate * (options.kept + 60)), 1.2
            )
        )
    common.print_targets(targets)
    results = {"dependents": found, "batch_seconds": batch, "retention": rows}
    common.write_results(
        "bounds", {"machine": common.machine(), "arguments": vars(options), "targets": targets, "results": results}
    )


if __name__ == "__main__":
    main()
