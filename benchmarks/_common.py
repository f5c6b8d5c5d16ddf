"""What the benchmarks share: rivals in turns, medians, the machine, tables, results and plots.

Rivals run in turns, round by round, so that whatever else the machine does falls on all of them; only ratios within
one run count. A rival is a function that does its work once and returns what it measured, each name with its unit.
"""

import importlib
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"

Measures = Mapping[str, float]
Rival = Callable[[], Measures]


@dataclass(frozen=True, slots=True)
class Spread:
    """A measure over all rounds."""

    median: float
    low: float
    high: float
    rounds: int

    def __str__(self) -> str:
        return figure(self.median)


def figure(value: float) -> str:
    """With so many decimals that three digits show."""
    decimals = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:,.{decimals}f}"


def extent(found: Spread | None) -> str:
    """Median, and in brackets the lowest and the highest."""
    return f"{figure(found.median)} ({figure(found.low)} to {figure(found.high)})" if found else "-"


def spread(samples: Sequence[float]) -> Spread:
    return Spread(statistics.median(samples), min(samples), max(samples), len(samples))


def in_turns(rivals: Mapping[str, Rival], rounds: int, what: str) -> dict[str, dict[str, Spread]]:
    """Runs every rival once per round; what each measured, by the rival's name and the measure's."""
    samples: dict[str, dict[str, list[float]]] = {name: {} for name in rivals}
    progress = Progress(what, rounds * len(rivals))
    for _ in range(rounds):
        for name, rival in rivals.items():
            for measure, value in rival().items():
                samples[name].setdefault(measure, []).append(value)
            progress.step(name)
    progress.end()
    return {
        name: {measure: spread(values) for measure, values in measures.items()} for name, measures in samples.items()
    }


class Progress:
    """A bar on a terminal; elsewhere one line when the work begins and one when it is done."""

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = total
        self._done = 0
        self._bar = sys.stderr.isatty()
        if not self._bar:
            print(f"{what} …", file=sys.stderr, flush=True)

    def step(self, label: str) -> None:
        self._done += 1
        if self._bar:
            filled = 30 * self._done // self._total
            bar = "█" * filled + "·" * (30 - filled)
            print(
                f"\r{self._what} {bar} {self._done}/{self._total} {label:<40.40}", end="", file=sys.stderr, flush=True
            )

    def end(self) -> None:
        print(
            "\r\033[K" if self._bar else f"{self._what}: done",
            end="" if self._bar else "\n",
            file=sys.stderr,
            flush=True,
        )


def note(text: str) -> None:
    """A line of progress."""
    print(text, file=sys.stderr, flush=True)


def percentile(samples: Sequence[float], percent: float) -> float:
    """The nearest rank: a value that was measured, not one between two."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


Target = tuple[str, float, str, str]
"""What, the measured value, the wanted one, and met or MISSED."""


def at_least(what: str, value: float, wanted: float, unit: str = " ×") -> Target:
    return (what, value, f"≥ {wanted:g}{unit}", "met" if value >= wanted else "MISSED")


def at_most(what: str, value: float, wanted: float, unit: str = " ×") -> Target:
    return (what, value, f"≤ {wanted:g}{unit}", "met" if value <= wanted else "MISSED")


def print_targets(found: Sequence[Target]) -> None:
    rows = [(what, figure(value), wanted, verdict) for what, value, wanted, verdict in found]
    table("Targets, in this run", ("", "measured", "wanted", ""), rows)


def table(title: str, headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints a table: the first column to the left, numbers to the right."""
    cells = [[str(cell) for cell in row] for row in (headers, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    print(f"\n{title}\n")
    for number, (first, *others) in enumerate(cells):
        print(
            "  " + first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        )
        if number == 0:
            print("  " + "-" * (sum(widths) + len(others)))


def machine() -> dict[str, object]:
    """What the figures hold for. Neither the machine's name nor any path."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()


def versions(*packages: str) -> dict[str, str]:
    """Of the packages that are installed."""
    return {package: found for package in packages if (found := _version(package))}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def node_versions() -> dict[str, str]:
    """Of Node and of the peers in benchmarks/node, where they are installed."""
    if not shutil.which("node"):
        return {}
    modules = Path(__file__).with_name("node") / "node_modules"
    found = {"node": subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()}
    for package in ("graphile-worker", "pg-boss", "pg"):
        if (about := modules / package / "package.json").exists():
            found[package] = json.loads(about.read_text(encoding="utf-8"))["version"]
    return found


def write_results(name: str, results: Mapping[str, object]) -> None:
    """Writes ``results/name.json``."""
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps({"benchmark": name, **results}, indent=1, default=_as_json, ensure_ascii=False)
    (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    print(f"\nbenchmarks/results/{name}.json is written.")


def _as_json(value: object) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {field: round(part, 6) if isinstance(part, float) else part for field, part in asdict(value).items()}
    raise TypeError(f"{type(value).__name__} is not for JSON")


def plot(name: str, draw: Callable[[Any], Any]) -> None:
    """Writes ``results/name.png``: ``draw`` gets pyplot, in the benchmarks' style, and returns the figure."""
    try:
        matplotlib = importlib.import_module("matplotlib")
    except ImportError:
        print(f"No plot of {name}: matplotlib is not installed.")
        return
    matplotlib.use("Agg")
    pyplot = importlib.import_module("matplotlib.pyplot")
    with pyplot.rc_context(STYLE):
        figure = draw(pyplot)
        RESULTS.mkdir(exist_ok=True)
        figure.savefig(RESULTS / f"{name}.png", dpi=150, metadata={"Software": None})
    print(f"benchmarks/results/{name}.png is written.")


def color(name: str, ours: str, shade: float = 1) -> tuple[float, float, float]:
    """Green for ours, sand for the bare SQL, grey for peers; paler with a lower ``shade``."""
    base = (
        (0.04, 0.43, 0.31) if name.startswith(ours) else (0.79, 0.64, 0.15) if name.startswith("bare") else (0.5,) * 3
    )
    red, green, blue = (1 - shade * (1 - part) for part in base)
    return red, green, blue


STYLE = {
    "figure.constrained_layout.use": True,
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "legend.frameon": False,
}
