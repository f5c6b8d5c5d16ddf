"""Storing jobs, one by one and in batches of 1,000: through the whole API handler, and library against library.

    PYTHONPATH=shared python -m benchmarks.enqueue [--single 1000] [--batches 20] [--batch 1000] [--rounds 5]

The API: from API Gateway's event to the answer, in one process: parsing, validation, the transaction, the look whom to
wake, the answer's own validation. As under load: the workers' slots are taken and a scheduler leads, so that nobody has
to be called.

The libraries: a call with arguments at hand, each in a transaction of its own. Ours is `dilamme.submit` and `submit_many`
on psycopg, `dilamme.submit_async` on psycopg's AsyncConnection (a job at a time: it has no batch), and the SQL function on
asyncpg, whose batch is one statement over an array. PgQueuer's is its `enqueue`, on asyncpg, one by one and in its batch.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from importlib.util import find_spec
from typing import Any
from uuid import uuid4

from benchmarks import _common as common
from benchmarks import _dilamme, _peers, _server
from benchmarks._common import Measures, Rival, Spread, Target
from dilamme.settings import read
from dilamme.store import lease, slots
from dilamme.store.connection import connect
from dilamme_local.functions import ROLES
from dilamme_local.postgres import Postgres
from dilamme_local.product import PRODUCT as CHECKOUT

Results = dict[str, dict[str, Spread]]
OURS, PGQUEUER, BARE = "Dilamme's API", "PgQueuer's library", "bare INSERT"
LIBRARY, ASYNC, FUNCTION = "Dilamme's library", "Dilamme's library, async", "Dilamme's SQL function, asyncpg"
MEASURES = {"single_per_second": "one by one", "batch_per_second": "in batches"}
# Without the SQL function in batches: an INSERT a job. A batch of many jobs is what `submit_many` and the API are for.
TARGETS: dict[str, dict[str, float]] = {
    OURS: {"single_per_second": 0.8, "batch_per_second": 0.9},
    LIBRARY: {"single_per_second": 1, "batch_per_second": 1},
    ASYNC: {"single_per_second": 1},
    FUNCTION: {"single_per_second": 1},
}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Storing jobs through the API's handler, beside PgQueuer's library.")
    parser.add_argument("--single", type=int, default=1_000, help="jobs stored one by one")
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--batch", type=int, default=1_000, help="jobs in a batch, at most 1,000")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="how rivals' names begin, with commas between")
    options = parser.parse_args(arguments)
    counts = [options.single, options.batches, options.batch]
    with _server.serve() as server:
        rivals, missing = line_up(server, counts, options.only)
        results = common.in_turns(rivals, options.rounds, "enqueue")
        settings = _server.describe(server)
    report(options, results, missing, settings)


def line_up(server: Postgres, counts: list[int], only: str) -> tuple[dict[str, Rival], dict[str, str]]:
    wanted = tuple(name.strip().lower() for name in only.split(","))
    rivals: dict[str, Rival] = {}
    missing: dict[str, str] = {}
    peer = next(peer for peer in _peers.peers() if peer.name == "PgQueuer")
    for name, short, fill, user in (
        (OURS, "ours", fill_ours, ROLES["api"]),
        (LIBRARY, "library", fill_ours, ROLES["worker"]),
        (ASYNC, "submit_async", fill_ours, ROLES["worker"]),
        (FUNCTION, "function", fill_ours, ROLES["worker"]),
        (PGQUEUER, "pgqueuer", peer.filling(0), "postgres"),
        (BARE, "bare", partial(_peers.fill_bare, count=0), "postgres"),
    ):
        if not name.lower().startswith(wanted):
            continue
        lacks = {PGQUEUER: peer.missing, FUNCTION: "" if find_spec("asyncpg") else "asyncpg is not installed"}.get(name)
        if lacks:
            missing[name] = lacks
            common.note(f"without {name}: {lacks}")
            continue
        rivals[name] = partial(once, server, _server.template(server, fill), short, user, counts)
    return rivals, missing


def fill_ours(url: str) -> None:
    """No jobs, all slots taken, a scheduler that leads."""
    _dilamme.fill(url, pending=0)
    settings = read({})
    with closing(connect(url)) as connection:
        slots.provide_slots(connection, settings.worker_slots)
        slots.reserve(connection, [uuid4() for _ in range(settings.worker_slots)], settings.worker_slots, 86_400)
        lease.take_lead(connection, uuid4(), 86_400)


def once(server: Postgres, source: str, name: str, user: str, counts: list[int]) -> Measures:
    with _server.copy(server, source) as database:
        command = [sys.executable, "-m", "benchmarks._enqueue_worker", name, server.url(database, user)]
        done = subprocess.run(
            [*command, *map(str, counts)],
            cwd=CHECKOUT,
            env=_peers.environment(),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    measures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measures


def targets(results: Results) -> list[Target]:
    return [
        common.at_least(
            f"{ours}, {MEASURES[name]}, against PgQueuer's",
            results[ours][name].median / results[PGQUEUER][name].median,
            wanted,
        )
        for ours, wanted_by_measure in TARGETS.items()
        if ours in results and PGQUEUER in results
        for name, wanted in wanted_by_measure.items()
    ]


def report(
    options: argparse.Namespace, results: Results, missing: Mapping[str, str], server: Mapping[str, str]
) -> None:
    rows = [
        (name, *(common.extent(found[measure]) if measure in found else "–" for measure in MEASURES))
        for name, found in results.items()
    ]
    title = f"Jobs stored a second: median (lowest to highest) of {options.rounds} rounds"
    common.table(title, ("", "one by one", f"in batches of {options.batch:,}"), rows)
    found = targets(results)
    common.print_targets(found)
    common.write_results(
        "enqueue",
        {
            "machine": common.machine(),
            "versions": common.versions(
                "psycopg", "pgqueuer", "asyncpg", "uvloop", "aws-lambda-powertools", "pydantic"
            ),
            "postgresql": server,
            "single": options.single,
            "batches": options.batches,
            "batch": options.batch,
            "rounds": options.rounds,
            "settings": {
                OURS: "default; all slots taken, a scheduler leads",
                LIBRARY: "dilamme.submit, submit_many; psycopg in autocommit",
                ASYNC: "dilamme.submit_async; psycopg in autocommit, uvloop",
                FUNCTION: "SELECT dilamme.submit(…); asyncpg, uvloop",
                PGQUEUER: _pgqueuer_settings(),
            },
            "missing": missing,
            "results": results,
            "targets": found,
        },
    )
    common.plot("enqueue", partial(draw, results, options.batch))


def _pgqueuer_settings() -> dict[str, object]:
    peer = next(peer for peer in _peers.peers() if peer.name == "PgQueuer")
    return {name: value for name, value in peer.settings.items() if name != "batch_size"}


def draw(results: Results, batch: int, pyplot: Any) -> Any:
    figure, panels = pyplot.subplots(1, 2, figsize=(10, 3.2))
    for panel, (measure, what) in zip(panels, MEASURES.items(), strict=True):
        names = [name for name in reversed(results) if measure in results[name]]
        found = [results[name][measure] for name in names]
        errors = [[s.median - s.low for s in found], [s.high - s.median for s in found]]
        colors = [common.color(name, "Dilamme") for name in names]
        bars = panel.barh(names, [s.median for s in found], xerr=errors, color=colors, ecolor="#00000066")
        panel.bar_label(bars, labels=[f" {s.median:,.0f}" for s in found], padding=6)
        title = f"Stored {what}" + (f" of {batch:,}" if "batch" in measure else "")
        panel.set(xlabel="jobs a second", title=title)
        panel.margins(x=0.22)
        panel.xaxis.set_major_formatter("{x:,.0f}")
        panel.locator_params(axis="x", nbins=5)
        panel.grid(visible=False, axis="y")
    return figure


if __name__ == "__main__":
    main()
