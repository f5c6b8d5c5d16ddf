"""A flood of P1 with a trickle of P3: who waits how long, with ageing and without.

    PYTHONPATH=shared python -m benchmarks.fairness [--seconds 30] [--ageing 3] [--capacity 100] [--flood 1.1]

More P1 jobs arrive than can be run, and a few of P2 and P3. Twenty times a second the arrivals are stored, and as many
jobs are claimed and completed as the capacity allows: the worker's own statements on a real PostgreSQL, without the
handlers. Time is scaled: DILAMME_AGEING_SECONDS is 30, here it is 3, so that a minute of the flood takes six seconds.
"""

import argparse
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import uuid4

from benchmarks import _common as common
from benchmarks import _dilamme, _server
from dilamme.domain.outcome import Complete
from dilamme.settings import read
from dilamme.store import lanes
from dilamme.store.connection import Connection, connect
from dilamme.usecases.settle import settle
from dilamme.usecases.submit import submit
from dilamme.wire.requests import BatchSubmission, parse

BEATS_PER_SECOND = 20
TRICKLE = {2: 0.04, 3: 0.02}
"""Arrivals by priority, as a part of the capacity."""
WITH, WITHOUT = "with ageing", "without ageing"


@dataclass
class Waits:
    """By priority: (seconds since the start, seconds waited) of jobs that ran, and of those that still wait."""

    ran: dict[int, list[tuple[float, float]]] = field(default_factory=lambda: {1: [], 2: [], 3: []})
    waiting: dict[int, list[tuple[float, float]]] = field(default_factory=lambda: {1: [], 2: [], 3: []})


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="A flood of P1 with a trickle of P3, with ageing and without.")
    parser.add_argument("--seconds", type=float, default=30, help="of the flood")
    parser.add_argument("--ageing", type=float, default=3, help="seconds of wait that raise a job by one priority")
    parser.add_argument("--capacity", type=int, default=100, help="jobs a second that are run")
    parser.add_argument("--flood", type=float, default=1.1, help="P1 arrivals, as a multiple of the capacity")
    options = parser.parse_args(arguments)
    with _server.serve() as server:
        source = _server.template(server, partial(_dilamme.fill, pending=0))
        progress = common.Progress("fairness", 2)
        found = {}
        for name, ageing_seconds in ((WITHOUT, 0.0), (WITH, options.ageing)):
            with _server.copy(server, source) as database, closing(connect(server.url(database))) as connection:
                found[name] = flood(connection, options, ageing_seconds)
            progress.step(name)
        progress.end()
    report(options, found)


# ----- the flood


def flood(connection: Connection, options: argparse.Namespace, ageing_seconds: float) -> Waits:
    waits = Waits()
    rates = {1: options.flood * options.capacity} | {p: part * options.capacity for p, part in TRICKLE.items()}
    stored = dict.fromkeys(rates, 0)
    ran = 0
    begin = time.time()
    for beat in range(1, int(options.seconds * BEATS_PER_SECOND) + 1):
        time.sleep(max(0.0, begin + beat / BEATS_PER_SECOND - time.time()))
        _arrive(connection, rates, stored, beat / BEATS_PER_SECOND)
        ran += _run(connection, int(beat / BEATS_PER_SECOND * options.capacity) - ran, ageing_seconds, begin, waits)
    still = connection.execute("SELECT priority, ready_at FROM dilamme.jobs WHERE status = 'pending'").fetchall()
    end = time.time()
    for priority, ready_at in still:
        waits.waiting[priority].append((end - begin, end - ready_at.timestamp()))
    return waits


def _arrive(connection: Connection, rates: Mapping[int, float], stored: dict[int, int], seconds: float) -> None:
    jobs = []
    for priority, rate in rates.items():
        due = int(rate * seconds) - stored[priority]
        jobs += [{"type": _dilamme.NOOP, "payload": {}, "priority": priority}] * due
        stored[priority] += due
    if jobs:
        submit(connection, [parse(BatchSubmission, job) for job in jobs])


def _run(connection: Connection, most: int, ageing_seconds: float, begin: float, waits: Waits) -> int:
    """Claims and completes the most urgent; how many."""
    if most <= 0:
        return 0
    terms = lanes.Terms(
        worker=uuid4(),
        limit=most,
        reach=most + 32,
        idle=True,
        lease_seconds=300.0,
        ageing_seconds=ageing_seconds,
        max_attempts=read({}).max_attempts,
    )
    claims = lanes.claim(connection, terms, uuid4())
    settle(connection, [(claim, Complete(None)) for claim in claims])
    for claim in claims:
        waited = (claim.started_at - claim.ready_at).total_seconds()
        waits.ran[claim.priority].append((claim.started_at.timestamp() - begin, waited))
    return len(claims)


# ----- what comes of it


def summary(waits: Waits) -> dict[str, dict[str, float]]:
    found = {}
    for priority, ran in waits.ran.items():
        seconds = [waited for _, waited in ran] or [0.0]
        still = [waited for _, waited in waits.waiting[priority]] or [0.0]
        found[f"P{priority}"] = {
            "ran": len(ran),
            "still_waiting": len(waits.waiting[priority]),
            "wait_p50_seconds": common.percentile(seconds, 50),
            "wait_max_seconds": max(seconds),
            "oldest_waiting_seconds": max(still),
        }
    return found


def report(options: argparse.Namespace, found: Mapping[str, Waits]) -> None:
    rows = [
        (
            f"{priority}, {name}",
            f"{values['ran']:,.0f}",
            f"{values['still_waiting']:,.0f}",
            *(f"{values[key]:.2f}" for key in ("wait_p50_seconds", "wait_max_seconds", "oldest_waiting_seconds")),
        )
        for name, waits in found.items()
        for priority, values in summary(waits).items()
    ]
    title = f"{options.flood:g} × the capacity of {options.capacity} jobs a second for {options.seconds:g} s, ageing {options.ageing:g} s"
    common.table(title, ("", "ran", "wait still", "wait p50 s", "longest s", "oldest waiting s"), rows)
    common.write_results(
        "fairness",
        {
            "machine": common.machine(),
            "seconds": options.seconds,
            "ageing_seconds": options.ageing,
            "capacity_per_second": options.capacity,
            "arrivals_per_second": {"P1": options.flood * options.capacity}
            | {f"P{p}": part * options.capacity for p, part in TRICKLE.items()},
            "results": {name: summary(waits) for name, waits in found.items()},
        },
    )
    common.plot("fairness", partial(draw, options, found))


def draw(options: argparse.Namespace, found: Mapping[str, Waits], pyplot: Any) -> Any:
    colors = {1: "#c1121f", 2: "#c9a227", 3: "#3a86ff"}
    figure, panels = pyplot.subplots(1, len(found), figsize=(12, 4.6), sharey=True)
    for panel, (name, waits) in zip(panels, found.items(), strict=True):
        for priority, color in colors.items():
            if waits.ran[priority]:
                panel.scatter(
                    *zip(*waits.ran[priority], strict=True), s=6, color=color, label=f"P{priority}, when it ran"
                )
            if waits.waiting[priority]:
                panel.scatter(
                    *zip(*waits.waiting[priority], strict=True),
                    s=14,
                    facecolors="none",
                    edgecolors=color,
                    linewidths=0.6,
                    label=f"P{priority}, still waiting",
                )
        panel.set(title=name[0].upper() + name[1:], xlabel="seconds since the flood began")
        panel.legend(fontsize=8, loc="upper left", framealpha=0.8, frameon=True)
    _mark_steps(panels[-1], options.ageing)
    panels[0].set_ylabel("seconds that a job has waited")
    figure.suptitle(
        f"P1 arrives at {options.flood:g} × the capacity: a P3 job starves, or is a P1 after two steps of {options.ageing:g} s"
    )
    return figure


def _mark_steps(panel: Any, ageing_seconds: float) -> None:
    for step, text in ((1, "from here P3 counts as P2, and P2 as P1"), (2, "from here P3 counts as P1")):
        panel.axhline(step * ageing_seconds, color="black", linestyle=":", linewidth=1)
        where = (0.99, step * ageing_seconds)
        offset = {"textcoords": "offset points", "xytext": (0, 5), "xycoords": ("axes fraction", "data")}
        panel.annotate(text, where, fontsize=8, ha="right", va="bottom", **offset)


if __name__ == "__main__":
    main()
