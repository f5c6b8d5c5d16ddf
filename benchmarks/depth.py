"""What a claim and a tick cost as the backlog grows, and a drain under a snapshot that someone forgot.

    PYTHONPATH=shared python -m benchmarks.depth [--depths 1000,10000,100000,1000000] [--future 1000000]
        [--blocked 100000] [--claims 30] [--ticks 300] [--rounds 5] [--held 100000]

* Claim: one full claim (1,000 jobs) on a worker's terms, rolled back, so that the next one meets the same queue.
* Tick: `usecases.tick.tick`, the scheduler's beat with its chores, over the default ten slots, all free; that the
  workers are invoked is taken for granted, and their slots are freed again outside the measured time.
* With ``--future`` and ``--blocked`` the same beside so many jobs that are due tomorrow, or wait for another.
* Held snapshot: so many jobs drained by one worker while a transaction keeps its snapshot, so that no dead index entry
  can be removed: the rate of each fifth of the drain, Dilamme's beside PgQueuer's.
"""

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4

from benchmarks import _common as common
from benchmarks import _dilamme, _peers, _server, drain
from benchmarks._common import Spread, Target
from dilamme.scheduler.tick import Leader, tick
from dilamme.settings import read
from dilamme.store import lanes, lease, slots
from dilamme.store.connection import Connection, connect
from dilamme_local.functions import ROLES
from dilamme_local.postgres import Postgres

T = TypeVar("T")
Fifths = list[float]
"""Jobs a second of each fifth."""

OURS, PGQUEUER = "Dilamme", "PgQueuer"
FIFTHS = 5
HIGH = 99


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="The cost of a claim and of a tick by depth; a held snapshot.")
    parser.add_argument("--depths", default="1000,10000,100000,1000000", help="jobs pending, with commas between")
    parser.add_argument("--future", type=int, default=1_000_000, help="jobs due tomorrow, beside the least depth")
    parser.add_argument("--blocked", type=int, default=100_000, help="jobs that wait for another, beside them")
    parser.add_argument("--claims", type=int, default=30, help="in each round")
    parser.add_argument("--ticks", type=int, default=300, help="in each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--held", type=int, default=100_000, help="jobs drained under a held snapshot; 0: none")
    parser.add_argument("--only", default="", help="how rivals' names begin, with commas between (held snapshot)")
    options = parser.parse_args(arguments)
    with _server.serve() as server:
        depths = [int(depth) for depth in options.depths.split(",")]
        claims, ticks, high = by_depth(server, depths, options)
        held = held_snapshot(server, options.held, options.rounds, options.only) if options.held else {}
        settings = _server.describe(server)
    report(options, claims, ticks, high, held, settings)


# ----- by depth

Queues = dict[str, tuple[int, int, int]]
"""By name: due, future and blocked jobs."""


def queues(depths: list[int], future: int, blocked: int) -> Queues:
    found = {f"{depth:,}": (depth, 0, 0) for depth in depths}
    if future or blocked:
        found[f"{depths[0]:,} beside {future:,} future and {blocked:,} blocked"] = (depths[0], future, blocked)
    return found


def by_depth(
    server: Postgres, depths: list[int], options: argparse.Namespace
) -> tuple[dict[str, Spread], dict[str, Spread], dict[str, float]]:
    """Milliseconds: of a claim and of a tick, the median over all rounds' medians; of a tick the 99th percentile of all."""
    claims: dict[str, list[float]] = {}
    ticks: dict[str, list[float]] = {}
    every: dict[str, list[float]] = {}
    wanted = queues(depths, options.future, options.blocked)
    progress = common.Progress("depth", len(wanted) * (options.rounds + 1))
    with ExitStack() as stack:
        databases = {}
        for name, (due, future, blocked) in wanted.items():
            databases[name] = _server.template(
                server, partial(_dilamme.fill, pending=due, future=future, blocked=blocked)
            )
            progress.step(f"{name}: filled")
        with closing(_server.connect(server.url())) as connection:
            connection.execute("CHECKPOINT")
        workers = {n: _open(stack, server.url(database, ROLES["worker"])) for n, database in databases.items()}
        leaders = {n: _open(stack, server.url(database, ROLES["scheduler"])) for n, database in databases.items()}
        for _ in range(options.rounds):
            for name in wanted:
                claims.setdefault(name, []).append(statistics.median(time_claims(workers[name], options.claims)))
                found = time_ticks(leaders[name], options.ticks)
                ticks.setdefault(name, []).append(statistics.median(found))
                every.setdefault(name, []).extend(found)
                progress.step(name)
    progress.end()
    return (
        {name: common.spread(found) for name, found in claims.items()},
        {name: common.spread(found) for name, found in ticks.items()},
        {name: common.percentile(found, HIGH) for name, found in every.items()},
    )


def _open(stack: ExitStack, url: str) -> Connection:
    return stack.enter_context(closing(connect(url)))


def time_claims(connection: Connection, times: int) -> list[float]:
    """Milliseconds of each claim."""
    settings = read({})
    terms = lanes.Terms(
        worker=uuid4(),
        limit=settings.batch_jobs_max,
        reach=settings.batch_jobs_max + 32,
        idle=True,
        lease_seconds=300.0,
        ageing_seconds=settings.ageing_seconds,
        max_attempts=settings.max_attempts,
    )
    found = []
    for _ in range(times):
        with connection.transaction(force_rollback=True):
            began = time.perf_counter()
            claimed = lanes.claim(connection, terms, uuid4())
            found.append((time.perf_counter() - began) * 1000)
        if not claimed:
            raise RuntimeError("there was nothing to claim")
    return found


class Taken(ThreadPoolExecutor):
    """Answers for the invocations of workers: each was taken."""

    def map(self, fn: Callable[..., T], *iterables: Iterable[Any], **_: Any) -> Iterator[T]:  # noqa: ARG002
        return iter([True for _ in iterables[0]])  # type: ignore[misc]


def time_ticks(connection: Connection, times: int) -> list[float]:
    """Milliseconds of each tick."""
    settings = read({})
    slots.provide_slots(connection, settings.worker_slots)
    owner = uuid4()
    leader = Leader(owner, lease.take_lead(connection, owner, 3600))
    found = []
    with Taken(max_workers=1) as taken:
        for _ in range(times):
            began = time.perf_counter()
            dispatched = tick(connection, settings, leader, taken)
            found.append((time.perf_counter() - began) * 1000)
            if dispatched is None or not dispatched.invoked:
                raise RuntimeError("the tick called nobody")
            connection.execute("UPDATE dilamme.worker_slots SET state = 'free', token = NULL, held_until = NULL")
    return found


# ----- a held snapshot


def held_snapshot(server: Postgres, jobs: int, rounds: int, only: str) -> dict[str, list[Spread]]:
    """By rival: jobs a second in each fifth of the drain."""
    wanted = tuple(name.strip().lower() for name in only.split(","))
    peer = next(peer for peer in _peers.peers() if peer.name == PGQUEUER)
    samples: dict[str, list[Fifths]] = {}
    with drain.bench() as place:
        rivals: dict[str, Callable[[], Fifths]] = {}
        if OURS.lower().startswith(wanted):
            source = _server.template(server, partial(_dilamme.fill, pending=jobs))
            start = drain.our_workers(server, place, 1)
            rivals[OURS] = partial(fifths, server, source, drain.OURS_GATE, start, jobs)
        if PGQUEUER.lower().startswith(wanted) and not peer.missing:
            source = _server.template(server, peer.filling(jobs))
            rivals[PGQUEUER] = partial(fifths, server, source, peer.gate, drain.peer_workers(server, peer, 1), jobs)
        progress = common.Progress("held snapshot", rounds * len(rivals))
        for _, (name, rival) in itertools.product(range(rounds), rivals.items()):
            samples.setdefault(name, []).append(rival())
            progress.step(name)
        progress.end()
    return {name: [common.spread(fifth) for fifth in zip(*found, strict=True)] for name, found in samples.items()}


def fifths(server: Postgres, source: str, gate: str, start: drain.Start, jobs: int) -> Fifths:
    """By the handlers that have run; what is claimed ahead is a small part of a fifth."""
    reached: Fifths = []
    with drain.let_go(server, source, gate, 1, start, hold=True) as race:
        while len(reached) < FIFTHS:
            ran = race.tally.wait(drain.DRAIN_SECONDS_MAX)
            now = time.perf_counter() - race.began
            reached += [now] * (ran * FIFTHS // jobs - len(reached))
    return [jobs / FIFTHS / max(end - begin, 1e-3) for begin, end in itertools.pairwise([0.0, *reached])]


# ----- what comes of it


def targets(claims: Mapping[str, Spread], ticks: Mapping[str, Spread], high: Mapping[str, float]) -> list[Target]:
    shallow, *others = claims
    found = [
        common.at_least(
            f"claims a second, {name}, against {shallow}", claims[shallow].median / claims[name].median, 0.95
        )
        for name in others
    ]
    found += [
        common.at_most(f"a tick, {name}, against {shallow}", ticks[name].median / ticks[shallow].median, 1.2)
        for name in others
    ]
    return found + [common.at_most(f"a tick, {name}, p{HIGH}", value, 20, " ms") for name, value in high.items()]


def held_targets(held: Mapping[str, list[Spread]]) -> list[Target]:
    """Reported, not asked for: a claim that would not mind old snapshots could miss jobs."""
    return [
        (f"held snapshot, {name}: last fifth against first", rates[-1].median / rates[0].median, "reported", "")
        for name, rates in held.items()
    ]


def report(
    options: argparse.Namespace,
    claims: dict[str, Spread],
    ticks: dict[str, Spread],
    high: dict[str, float],
    held: dict[str, list[Spread]],
    server: Mapping[str, str],
) -> None:
    rows = [(name, common.extent(claims[name]), common.extent(ticks[name]), f"{high[name]:.2f}") for name in claims]
    title = f"Milliseconds by jobs pending: median (lowest to highest) of {options.rounds} rounds"
    common.table(title, ("pending", "claim of 1,000", "tick", f"tick p{HIGH}"), rows)
    if held:
        fifth_rows = [
            (name, *(f"{rate.median:,.0f}" for rate in rates), f"{rates[-1].median / rates[0].median:.2f}")
            for name, rates in held.items()
        ]
        headers = ("", "first fifth", "second", "third", "fourth", "last fifth", "last / first")
        common.table(f"Jobs a second while {options.held:,} drain under a held snapshot", headers, fifth_rows)
    found = targets(claims, ticks, high) + held_targets(held)
    common.print_targets(found)
    common.write_results(
        "depth",
        {
            "machine": common.machine(),
            "versions": common.versions("psycopg", "pgqueuer", "asyncpg"),
            "postgresql": server,
            "rounds": options.rounds,
            "claims": options.claims,
            "ticks": options.ticks,
            "held": options.held,
            "settings": {OURS: "default", PGQUEUER: drain.settings()[PGQUEUER]},
            "claim_ms": claims,
            "tick_ms": ticks,
            "tick_p99_ms": high,
            "held_jobs_per_second": held,
            "targets": found,
        },
    )
    common.plot("depth", partial(draw, claims, ticks, high, held))


def draw(
    claims: Mapping[str, Spread],
    ticks: Mapping[str, Spread],
    high: Mapping[str, float],
    held: Mapping[str, list[Spread]],
    pyplot: Any,
) -> Any:
    figure, (cost, snapshot) = pyplot.subplots(1, 2, figsize=(12, 4.6))
    depths = [name for name in claims if name.replace(",", "").isdigit()]
    places = [int(name.replace(",", "")) for name in depths]
    lines = {
        "a claim of 1,000 jobs": ([claims[name].median for name in depths], "o", "-", "#0b6e4f"),
        "a tick": ([ticks[name].median for name in depths], "s", "-", "#3a86ff"),
        f"a tick, p{HIGH}": ([high[name] for name in depths], "s", ":", "#3a86ff"),
    }
    for label, (values, marker, style, color) in lines.items():
        cost.plot(places, values, marker=marker, linestyle=style, color=color, label=label)
    for name in claims:
        if name not in depths:
            cost.scatter(
                [places[0]] * 2, [claims[name].median, ticks[name].median], marker="x", color="black", zorder=5
            )
            cost.scatter([], [], marker="x", color="black", label=f"the same,\n{name}")
    cost.set(title="What a claim and a tick cost", xlabel="jobs pending", ylabel="ms", xscale="log")
    cost.set_ylim(bottom=0)
    cost.legend(fontsize=8)
    for name, rates in held.items():
        shade = common.color(name, OURS)
        snapshot.plot(range(1, FIFTHS + 1), [rate.median for rate in rates], marker="o", color=shade, label=name)
    snapshot.set(title="Drained under a held snapshot", xlabel="fifth of the drain", ylabel="jobs a second")
    snapshot.set_xticks(range(1, FIFTHS + 1))
    snapshot.set_ylim(bottom=0)
    snapshot.yaxis.set_major_formatter("{x:,.0f}")
    if held:
        snapshot.legend()
    return figure


if __name__ == "__main__":
    main()
