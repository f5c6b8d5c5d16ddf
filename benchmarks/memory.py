"""The peak memory of a worker, of the API and of PostgreSQL's backends, for small and for the largest payloads and results.

    PYTHONPATH=shared python -m benchmarks.memory [--scale 1]

On the local stack, at the defaults, beside what the template grants. A process's peak is the kernel's own (``VmHWM``); a
backend's is the largest sample of its private memory (``RssAnon``), since the rest of it is shared by all. ``--scale`` makes
the numbers of jobs smaller, for a try.
"""

import argparse
import http.client
import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import dilamme
from benchmarks import _common as common
from benchmarks import _dilamme, _server
from dilamme_local.options import Options
from dilamme_local.stack import Stack

PAYLOAD = "x" * (256 * 1024 - 2)
RESULT_CHARACTERS, RESULT_ONES = 262_000, 131_000
BATCH_BYTES, BATCH_JOBS_MAX = 4_000_000, 1000
WAIT_SECONDS_MAX = 600
GRANTED_MB = {"worker": 512, "api": 512}  # template.yaml
BACKEND_MB_MAX, WORKER_MB_MAX = 300, 300
Jobs = list[dict[str, Any]]


class Watcher:
    """The peaks so far, in MB: of each function's processes while they run, and of the backends of each role."""

    def __init__(self, stack: Stack) -> None:
        self.peaks: dict[str, float] = defaultdict(float)
        self._stack = stack
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        pids: dict[int, str] = {}
        with _server.connect(self._stack.database_url) as connection:
            while not self._done.wait(0.02):
                pids |= {one.pid: one.invocation.function_name for one in self._stack.dispatcher.running()}
                for pid, function in pids.items():
                    self._note(function, pid, "VmHWM")
                backends = connection.execute(
                    "SELECT pid FROM pg_stat_activity WHERE usename ~ '^dilamme_(worker|api)'"
                )
                for (pid,) in backends.fetchall():
                    self._note("backend", pid, "RssAnon")

    def _note(self, name: str, pid: int, field: str) -> None:
        try:
            lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
        except (FileNotFoundError, ProcessLookupError):
            return
        kilobytes = next((int(line.split()[1]) for line in lines if line.startswith(field)), 0)
        self.peaks[name] = max(self.peaks[name], kilobytes / 1024)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Peak memory at the defaults.")
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of jobs")
    scale = parser.parse_args(arguments).scale

    def times(number: int) -> int:
        return max(1, int(number * scale))

    wide = {"DILAMME_WORKER_CONCURRENCY": "32"}
    scenarios: dict[str, tuple[dict[str, str], Callable[[Stack], None]]] = {
        "20,000 small jobs": ({}, lambda stack: run(stack, [{"type": "bench.noop"}] * times(20_000))),
        "3,000 small, then 2,010 payloads of 256 KiB": (
            {},
            lambda stack: run(
                stack,
                [{"type": "bench.noop", "priority": 1}] * times(3_000)
                + [{"type": "bench.noop", "payload": PAYLOAD}] * times(2_010),
            ),
        ),
        "2,000 results of 262 kB": (
            {},
            lambda stack: run(stack, [{"type": "bench.text", "payload": RESULT_CHARACTERS}] * times(2_000)),
        ),
        "1,000 results of 131,000 numbers, 32 at a time": (
            wide,
            lambda stack: run(stack, [{"type": "bench.ones", "payload": RESULT_ONES}] * times(1_000)),
        ),
        "1,000 parents with results of 262 kB, one child": ({}, lambda stack: family(stack, times(1_000))),
        "POST 256 KiB and 4 MB, GET them and lists of 200": ({}, lambda stack: over_http(stack, times(50))),
    }
    found: dict[str, dict[str, float]] = {}
    progress = common.Progress("memory", len(scenarios))
    for name, (settings, work) in scenarios.items():
        with running(settings) as stack, Watcher(stack) as watcher:
            work(stack)
        found[name] = dict(watcher.peaks)
        progress.step(name)
    progress.end()
    report(scale, found)


@contextmanager
def running(settings: dict[str, str]) -> Iterator[Stack]:
    with (
        _server.scratch() as folder,
        _dilamme.functions(folder) as place,
        Stack(
            Options(
                port=0, data_dir=folder, functions_folder=place, variables={"DILAMME_WORKER_SLOTS": "1", **settings}
            )
        ) as stack,
    ):
        yield stack


def run(stack: Stack, jobs: Jobs) -> None:
    """Stores them, wakes a worker, waits until all are completed."""
    store(stack, jobs)
    finish(stack)


def store(stack: Stack, jobs: Sequence[dict[str, Any]]) -> list[Any]:
    ids: list[Any] = []
    with _server.connect(stack.database_url) as connection:
        part: Jobs = []
        size = 0
        for one in jobs:
            length = len(str(one.get("payload", "")))
            if part and (size + length > BATCH_BYTES or len(part) == BATCH_JOBS_MAX):
                ids += dilamme.submit_many(connection, part)
                part, size = [], 0
            part.append(one)
            size += length
        ids += dilamme.submit_many(connection, part)
    return ids


def finish(stack: Stack) -> None:
    call(stack, "POST", "/jobs", {"type": "bench.noop"})
    left = "SELECT count(*) FROM dilamme.jobs WHERE status IN ('pending', 'running')"
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    with _server.connect(stack.database_url) as connection:
        while connection.execute(left).fetchone() != (0,):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not done after {WAIT_SECONDS_MAX} s")
            time.sleep(0.1)
        bad = connection.execute("SELECT count(*) FROM dilamme.jobs WHERE status <> 'completed'").fetchone()
    if bad != (0,):
        raise RuntimeError(f"{bad} jobs are not completed")


def family(stack: Stack, parents: int) -> None:
    ids = store(stack, [{"type": "bench.text", "payload": RESULT_CHARACTERS}] * parents)
    store(stack, [{"type": "bench.join", "dependency_ids": ids}])
    finish(stack)


def over_http(stack: Stack, times: int) -> None:
    for _ in range(times):
        job = call(stack, "POST", "/jobs", {"type": "bench.noop", "payload": PAYLOAD})
        call(stack, "GET", f"/jobs/{job['id']}")
        call(stack, "POST", "/jobs/batch", {"jobs": [{"type": "bench.noop", "payload": PAYLOAD}] * 15})
        call(stack, "GET", "/jobs?limit=200")
    finish(stack)


def call(stack: Stack, method: str, path: str, body: object = None) -> Any:
    connection = http.client.HTTPConnection(urlsplit(stack.url).netloc, timeout=120)
    headers = {"content-type": "application/json"} if body else {}
    connection.request(method, path, json.dumps(body) if body else None, headers)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    if answer.status not in (200, 201):
        raise RuntimeError(f"the API answered {answer.status}: {text[:500]!r}")
    return json.loads(text)


def report(scale: float, found: dict[str, dict[str, float]]) -> None:
    names = ("worker", "api", "backend")
    common.table(
        "Peak memory in MB",
        ["", *names],
        [[what, *(f"{peaks.get(name, 0):.0f}" for name in names)] for what, peaks in found.items()],
    )
    most = {name: max(peaks.get(name, 0.0) for peaks in found.values()) for name in names}
    targets = [
        common.at_most("a worker, of the 512 MB that it is granted", most["worker"], WORKER_MB_MAX, " MB"),
        common.at_most("the API, of the 512 MB that it is granted", most["api"], GRANTED_MB["api"], " MB"),
        common.at_most("a backend of PostgreSQL's", most["backend"], BACKEND_MB_MAX, " MB"),
    ]
    common.print_targets(targets)
    common.write_results(
        "memory",
        {"machine": common.machine(), "scale": scale, "granted_mb": GRANTED_MB, "targets": targets, "results": found},
    )


if __name__ == "__main__":
    main()
