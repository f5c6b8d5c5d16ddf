"""`MinHeap` against `TimingWheel`, beside a textbook heap, `heapq`, `SortedList`, and Node's textbook heap and wheel.

    PYTHONPATH=shared python -m benchmarks.heap_vs_wheel [--jobs 1000,10000,100000,1000000]

* One by one: every job in, then every job out; the wheel's slot by slot.
* Interleaved: ten in and ten out, over and over, with 10,000 standing.
* A tick: a rebuild with ageing, then all in order. Node's textbook heap inserts and retrieves the same.
* Memory: what `tracemalloc` sees of a filled structure, the jobs and their attributes not counted; in Node, `heapUsed`.

Keys, tuples and ageing are reckoned inside the measured time. Node is warm when its process has done the same thing
before, many times, and cold when it has not. sortedcontainers and matplotlib are used where they are installed, Node
where it is on the path.
"""

import argparse
import gc
import shutil
import subprocess
import time
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from benchmarks import _common as common
from benchmarks import _heap_rivals as rivals
from benchmarks._common import Measures, Rival, Spread
from benchmarks._heap_rivals import HEAPQ, OURS, TEXTBOOK, WHEEL, Job, Node, Structure
from dilamme.domain.job import Head
from dilamme.domain.min_heap import MinHeap
from dilamme.scheduler.tick import most_urgent

Results = dict[str, dict[str, Spread]]

COUNT = 10_000  # of the published figures, and of the targets
TICK_ROUNDS = 31
NODE_HEAP, NODE_WHEEL = "Node heap, warm", "Node wheel, warm"
REBUILT = "MinHeap, rebuilt"
PUBLISHED = {
    "heap": {"insert_ms": 11.7, "retrieve_ms": 21.6, "memory_kb": 649},
    "wheel": {"insert_ms": 6.8, "retrieve_ms": 0.05, "memory_kb": 956},
}
# (jobs that share an instant, order). A tick reads the lanes' index, so in ready order; as created is for comparison.
FEEDS = {"in ready order": (1, "ready"), "in batches of 100": (100, "ready"), "as created": (1, "created")}


def main() -> None:
    parser = argparse.ArgumentParser(description="MinHeap against TimingWheel and their rivals.")
    parser.add_argument("--jobs", default="1000,10000,100000,1000000", help="numbers of jobs, with commas between")
    sizes = [int(size) for size in parser.parse_args().jobs.split(",")]
    verify_orders()
    # The millions come last: they leave a process's memory in pieces.
    ticks = {feed: tick(feed) for feed in FEEDS}
    interleaved = interleave_all()
    by_size = {size: one_by_one(size) for size in sorted(sizes)}
    for size, results in by_size.items():
        print_one_by_one(size, results)
    print_interleaved(interleaved)
    print_ticks(ticks)
    targets = print_targets(by_size.get(COUNT, {}), interleaved, ticks)
    print(CONCLUSION)
    common.write_results(
        "heap_vs_wheel",
        {
            "machine": common.machine() | common.versions("sortedcontainers") | node_version(),
            "published_10000": PUBLISHED,
            "one_by_one": by_size,
            "interleaved_10000": interleaved,
            "tick_10000": ticks,
            "targets": targets,
        },
    )
    common.plot("heap_vs_wheel", partial(draw, by_size, ticks))


def node_version() -> dict[str, str]:
    if not has_node():
        return {}
    return {"node": subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()}


def has_node() -> bool:
    return shutil.which("node") is not None


def verify_orders() -> None:
    """Every heap lets the same jobs go in the same order, Node's too, before any of them is timed."""
    for batch, feed in FEEDS.values():
        jobs = feed_of(COUNT, batch, feed)
        expected = sorted(jobs, key=rivals.levels)
        for name, structure in rivals.structures().items():
            filled = structure.make()
            structure.put(filled, jobs)
            if name != WHEEL and structure.take(filled, COUNT) != expected:
                raise SystemExit(f"{name} is out of order")
        if has_node():
            with Node() as node:
                answer = node.ask(structure="heap", count=COUNT, batch=batch, feed=feed)
            if answer["checksum"] != rivals.checksum(expected):
                raise SystemExit("Node's heap is out of order, or its jobs are not ours")


def feed_of(count: int, batch: int, feed: str) -> list[Job]:
    jobs = rivals.make_jobs(count, batch)
    return rivals.by_ready(jobs) if feed == "ready" else jobs


def rounds_for(count: int) -> int:
    return 5 if count > COUNT else 15


# One by one


def one_by_one(count: int) -> Results:
    jobs = rivals.make_jobs(count)
    structures = rivals.structures()
    with Node() if has_node() else nullcontext() as node:
        contestants: dict[str, Rival] = {name: partial(in_and_out, each, jobs) for name, each in structures.items()}
        if node:
            contestants |= node_rivals(node, {"count": count, "batch": 1, "feed": "created"})
        results = common.in_turns(contestants, rounds_for(count), f"{count:,} jobs, one by one")
        for name, memory_kb in weights(structures, jobs, node).items():
            results.setdefault(name, {})["memory_kb"] = common.spread([memory_kb])
    return results


def in_and_out(structure: Structure, jobs: Sequence[Job]) -> Measures:
    gc.collect()
    filled = structure.make()
    start = time.perf_counter()
    structure.put(filled, jobs)
    inserted = time.perf_counter()
    structure.take(filled, len(jobs))
    retrieved = time.perf_counter()
    return {"insert_ms": 1000 * (inserted - start), "retrieve_ms": 1000 * (retrieved - inserted)}


def node_rivals(node: Node, request: Mapping[str, Any], wheel: bool = True) -> dict[str, Rival]:
    found: dict[str, Rival] = {}
    for structure in ("heap", "wheel") if wheel else ("heap",):
        for _ in range(3 if request["count"] > COUNT else 30):
            node.ask(structure=structure, **request)
        found[f"Node {structure}, warm"] = partial(ask, node, structure=structure, **request)
        found[f"Node {structure}, cold"] = partial(ask_cold, structure=structure, **request)
    return found


def ask(node: Node, **request: object) -> Measures:
    answer = node.ask(**request)
    return {measure: answer[measure] for measure in ("insert_ms", "retrieve_ms")}


def ask_cold(**request: object) -> Measures:
    with Node() as node:
        return ask(node, **request)


def weights(structures: Mapping[str, Structure], jobs: Sequence[Job], node: Node | None) -> dict[str, float]:
    def filled(structure: Structure) -> object:
        made = structure.make()
        structure.put(made, jobs)
        return made

    def rebuilt() -> object:
        heap = MinHeap(rivals.urgency)
        heap.rebuild(jobs)
        return heap

    found = {name: weigh(partial(filled, structure)) for name, structure in structures.items()}
    found[REBUILT] = weigh(rebuilt)
    if node:
        for name, structure in ((NODE_HEAP, "heap"), (NODE_WHEEL, "wheel")):
            answer = node.ask(structure=structure, count=len(jobs), batch=1, feed="created", memory=True)
            found[name] = answer["memory_kb"]
    return found


def weigh(make: Callable[[], object]) -> float:
    """In kB. The collection before also empties the free lists, from which tuples would come uncounted."""
    gc.collect()
    tracemalloc.start()
    filled = make()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del filled
    return size / 1000


# Interleaved


def interleave_all() -> Results:
    jobs = rivals.make_jobs(2 * COUNT)
    contestants = {
        name: partial(interleave, structure, jobs)
        for name, structure in rivals.structures().items()
        if name != WHEEL  # a wheel gives what is due, not the next ten
    }
    return common.in_turns(contestants, rounds_for(COUNT), f"{COUNT:,} jobs in and out, interleaved")


def interleave(structure: Structure, jobs: Sequence[Job]) -> Measures:
    gc.collect()
    filled = structure.make()
    structure.put(filled, jobs[:COUNT])
    structure.put(filled, structure.take(filled, 1))
    inserting = retrieving = 0.0
    for begin in range(COUNT, 2 * COUNT, 10):
        start = time.perf_counter()
        structure.put(filled, jobs[begin : begin + 10])
        inserted = time.perf_counter()
        structure.take(filled, 10)
        inserting += inserted - start
        retrieving += time.perf_counter() - inserted
    return {"insert_ms": 1000 * inserting, "retrieve_ms": 1000 * retrieving}


# A tick


def tick(feed: str) -> Results:
    batch, order = FEEDS[feed]
    jobs = feed_of(COUNT, batch, order)
    heads = [head_of(job) for job in jobs]
    contestants: dict[str, Rival] = {
        OURS: partial(timed, partial(rebuild, jobs, rivals.urgency)),
        "MinHeap, all levels in one int": partial(timed, partial(rebuild, jobs, rivals.packed)),
        "the scheduler's most_urgent()": partial(timed, partial(most_urgent, heads, COUNT, NOW, AGEING_SECONDS)),
        TEXTBOOK: partial(timed, partial(one_by_one_through, rivals.structures()[TEXTBOOK], jobs)),
        HEAPQ: partial(timed, partial(one_by_one_through, rivals.structures()[HEAPQ], jobs)),
        "sorted() on tuples (C)": partial(timed, partial(sorted, jobs, key=rivals.levels)),
    }
    with Node() if has_node() else nullcontext() as node:
        if node:
            request = {"count": COUNT, "batch": batch, "feed": order}
            for name, rival in node_rivals(node, request, wheel=False).items():
                contestants[name] = partial(whole, rival)
        return common.in_turns(contestants, TICK_ROUNDS, f"a tick of {COUNT:,} jobs, {feed}")


NOW = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=rivals.NOW_US)
AGEING_SECONDS = rivals.AGEING_US / 1_000_000


def head_of(job: Job) -> Head:
    def moment(microseconds: int) -> datetime:
        return NOW + timedelta(microseconds=microseconds - rivals.NOW_US)

    return Head(job.id, job.priority, moment(job.ready_us), moment(job.created_us))


def rebuild(jobs: Sequence[Job], key: Callable[[Job], float]) -> list[Job]:
    heap = MinHeap(key)
    heap.rebuild(jobs)
    return heap.pop_many(len(jobs))


def one_by_one_through(structure: Structure, jobs: Sequence[Job]) -> list[Job]:
    filled = structure.make()
    structure.put(filled, jobs)
    return structure.take(filled, len(jobs))


def timed(work: Callable[[], object]) -> Measures:
    gc.collect()
    start = time.perf_counter()
    work()
    return {"tick_ms": 1000 * (time.perf_counter() - start)}


def whole(rival: Rival) -> Measures:
    return {"tick_ms": sum(rival().values())}


# What is printed

CONCLUSION = """
Which wins at what, and why the heap is primary

  The wheel wins where order does not matter: a slot that has passed is handed out as a whole, so retrieval costs a
  few operations per slot, whatever is in it. It weighs more than the heap, since each due time stays beside its item.
  The heap wins where order is the point. What is due is usually more than the workers can take, and who comes first
  changes while jobs wait: a wheel knows when a job is due, and nothing of who is more urgent. To take the next few of
  10,000 in order from a wheel, one would have to sort them, which is what a rebuild of the heap is.
  So the heap decides what runs, and the wheel only when the loop must wake to ask it.

  The published pair has the wheel ahead at insertion too. Here a push only appends, and the first look sorts what was
  pushed; so the heap is ahead at insertion, and the wheel at both together."""


def print_one_by_one(count: int, results: Results) -> None:
    rows = [(name, *figures(found)) for name, found in results.items()]
    if count == COUNT:
        published = {
            name: {key: common.spread([value]) for key, value in found.items()} for name, found in PUBLISHED.items()
        }
        rows += [(f"published: {name}", *figures(found)) for name, found in published.items()]
    title = f"{count:,} jobs, one by one: medians of {rounds_for(count)} rounds"
    common.table(title, ("", "insert ms", "retrieve ms", "both ms", "memory kB"), rows)


def figures(found: Mapping[str, Spread]) -> tuple[str, ...]:
    """Of the three measures, and of both times together, those that there are."""
    weight = common.figure(found["memory_kb"].median) if "memory_kb" in found else ""
    if "insert_ms" not in found:
        return ("", "", "", weight)
    return (str(found["insert_ms"]), str(found["retrieve_ms"]), str(both(found)), weight)


def both(found: Mapping[str, Spread]) -> Spread:
    return common.spread([found["insert_ms"].median + found["retrieve_ms"].median])


def print_interleaved(results: Results) -> None:
    rows = [(name, *found.values()) for name, found in results.items()]
    title = f"{COUNT:,} jobs in and out in tens, {COUNT:,} standing: medians of {rounds_for(COUNT)} rounds"
    common.table(title, ("", "insert ms", "retrieve ms"), rows)


def print_ticks(ticks: Mapping[str, Results]) -> None:
    names = next(iter(ticks.values()))
    rows = [(name, *(results[name]["tick_ms"] for results in ticks.values())) for name in names]
    title = f"A tick of {COUNT:,} jobs, in ms: rebuild with ageing, then all in order: medians of {TICK_ROUNDS} rounds"
    common.table(title, ("", *ticks), rows)


Target = tuple[str, float, str, str]


def print_targets(single: Results, interleaved: Results, ticks: Mapping[str, Results]) -> list[Target]:
    """Each target with what was measured in this run."""
    found = [*_one_by_one_targets(single), *_interleaved_targets(interleaved), *_tick_targets(ticks)]
    rows = [(what, f"{value:,.2f}", wanted, verdict) for what, value, wanted, verdict in found]
    common.table(f"Targets, at {COUNT:,} jobs", ("", "measured", "wanted", ""), rows)
    return found


def _times(what: str, rival: Spread, ours: Spread, wanted: float) -> Target:
    ratio = rival.median / ours.median
    return (what, ratio, f"≥ {wanted} ×", "met" if ratio >= wanted else "MISSED")


def _at_most(what: str, value: float, limit: float) -> Target:
    return (what, value, f"≤ {limit:,.0f} kB", "met" if value <= limit else "MISSED")


def _one_by_one_targets(results: Results) -> list[Target]:
    if not results:
        return []
    heap, textbook, wheel = results[OURS], results[TEXTBOOK], results[WHEEL]
    weight = heap["memory_kb"].median
    return [
        _times("insertion, against the textbook", textbook["insert_ms"], heap["insert_ms"], 2),
        _times("retrieval, against the textbook", textbook["retrieve_ms"], heap["retrieve_ms"], 1.6),
        _at_most("memory, against the published", weight, PUBLISHED["heap"]["memory_kb"]),
        _at_most("memory, against the wheel's", weight, wheel["memory_kb"].median),
        _times("the wheel's retrieval, against the heap's", heap["retrieve_ms"], wheel["retrieve_ms"], 1),
        _times("both by the wheel, against the heap", both(heap), both(wheel), 1),
    ]


def _interleaved_targets(results: Results) -> list[Target]:
    heap, textbook = results[OURS], results[TEXTBOOK]
    return [
        _times("insertion interleaved, against the textbook", textbook["insert_ms"], heap["insert_ms"], 2),
        _times("retrieval interleaved, against the textbook", textbook["retrieve_ms"], heap["retrieve_ms"], 1.6),
    ]


def _tick_targets(ticks: Mapping[str, Results]) -> list[Target]:
    return [
        _times(f"a tick {feed}, against Node's heap, warm", results[NODE_HEAP]["tick_ms"], results[OURS]["tick_ms"], 1)
        for feed, results in ticks.items()
        if NODE_HEAP in results and FEEDS[feed][1] == "ready"
    ]


# The plot

LINES = {
    OURS: ("#0b6e4f", "o", "-"),
    "MinHeap, never sorting": ("#0b6e4f", "o", ":"),
    TEXTBOOK: ("#888888", "s", "-"),
    HEAPQ: ("#bbbbbb", "s", "--"),
    "SortedList": ("#c9a227", "d", "--"),
    WHEEL: ("#c1121f", "^", "-"),
    NODE_HEAP: ("#3a86ff", "o", "--"),
    NODE_WHEEL: ("#8338ec", "^", "--"),
}
PANELS = (
    ("insert_ms", 1000, "Insertion", "µs per job"),
    ("retrieve_ms", 1000, "Retrieval of all", "µs per job"),
    ("memory_kb", 1000, "Memory beyond the jobs", "bytes per job"),
)


def draw(by_size: Mapping[int, Results], ticks: Mapping[str, Results], pyplot: Any) -> Any:
    figure, axes = pyplot.subplots(2, 2, figsize=(12, 9))
    for panel, (measure, scale, title, unit) in zip(axes.flat, PANELS, strict=False):
        for name in LINES:
            draw_line(panel, name, by_size, measure, scale)
        for kind, marker in (("heap", "x"), ("wheel", "+")):
            value = PUBLISHED[kind][measure] * scale / COUNT
            panel.scatter([COUNT], [value], marker=marker, color="black", zorder=5, label=f"published: {kind}")
        panel.set(title=title, xlabel="jobs", ylabel=unit, xscale="log", yscale="log")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    draw_tick(axes[1, 1], ticks["in ready order"])
    figure.suptitle("MinHeap and TimingWheel beside their rivals: medians, logarithmic scales, lower is better")
    return figure


def draw_line(panel: Any, name: str, by_size: Mapping[int, Results], measure: str, scale: float) -> None:
    points = [
        (count, results[name][measure].median * scale / count)
        for count, results in by_size.items()
        if measure in results.get(name, {})
    ]
    if points:
        color, marker, style = LINES[name]
        panel.plot(*zip(*points, strict=True), color=color, marker=marker, linestyle=style, label=name)


def draw_tick(panel: Any, results: Results) -> None:
    names = [*reversed(results)]
    medians = [results[name]["tick_ms"].median for name in names]
    bars = panel.barh(names, medians, color=["#0b6e4f" if name == OURS else "#bbbbbb" for name in names])
    panel.bar_label(bars, labels=[f" {median:.1f} ms" for median in medians])
    panel.set(title=f"A tick: rebuild with ageing, {COUNT:,} jobs in order", xlabel="ms")
    panel.margins(x=0.15)
    panel.grid(visible=False, axis="y")


if __name__ == "__main__":
    main()
