"""A picture of the CloudWatch dashboard, drawn from the JSON of template.yaml with the numbers of a local run.

    python -m tools.dashboard_picture       → docs/dashboard.png

Starts the local stack, posts jobs for a minute and a half, and reads what the functions wrote: metrics in EMF, and logs.
Lambda's and API Gateway's own metrics are measured by AWS only: the picture shows what the run's client saw of them, or
marks them as missing.
Needs matplotlib.
"""

import importlib
import json
import math
import random
import re
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import requests

from dilamme_local.aws import CREDENTIALS
from dilamme_local.invocation import REGION
from dilamme_local.options import Options
from dilamme_local.stack import Stack
from tools import template
from tools.template import CHECKOUT

PICTURE = CHECKOUT / "docs" / "dashboard.png"
STACK = "dilamme"
KEYS = CREDENTIALS["AWS_ACCESS_KEY_ID"], CREDENTIALS["AWS_SECRET_ACCESS_KEY"]
SECONDS = 100
RUSH_JOBS = 50
BIN_SECONDS = 5  # CloudWatch has minutes; a short run shows more in shorter ones
COLUMNS = 24
CELL_INCHES = 0.62
LEGEND_ROOM = 1.3

Point = tuple[float, float]  # seconds since the start, value


def dashboard() -> list[dict[str, Any]]:
    """The widgets, as a stack called `STACK` has them."""
    tree = template.read()
    body, variables = tree["Resources"]["Dashboard"]["Properties"]["DashboardBody"]
    _, (database, _), _ = variables["DatabaseWidgets"]
    text = body.replace("${DatabaseWidgets}", database)
    numbers = {name: str(spec["Default"]) for name, spec in tree["Parameters"].items()}
    text = re.sub(r"\$\{([\w:.]+)\}", lambda match: numbers.get(match[1], _named(match[1])), text)
    widgets: list[dict[str, Any]] = json.loads(text)["widgets"]
    return widgets


def _named(reference: str) -> str:
    return STACK if reference == "AWS::StackName" else reference.partition(".")[0]


@dataclass
class Run:
    """What a run left behind: points by metric name, and lines of the logs."""

    began: float
    points: dict[str, list[Point]] = field(default_factory=lambda: defaultdict(list))
    lines: list[dict[str, Any]] = field(default_factory=list)

    def add(self, name: str, value: float, at: float | None = None) -> None:
        self.points[name].append(((at or time.time()) - self.began, value))


def observed() -> Run:
    """Runs the stack under a load that shows something in every widget."""
    with tempfile.TemporaryDirectory(prefix="dilamme-picture-") as folder:
        options = Options(port=0, data_dir=Path(folder), clock_seconds=30, variables={"DILAMME_IDLE_EXIT": "0"})
        with Stack(options) as stack:
            run = Run(time.time())
            _load(stack, run)
        _read_logs(Path(folder) / "logs", run)
    return run


def _load(stack: Stack, run: Run) -> None:
    rand = random.Random(7)
    sqs = boto3.Session(*KEYS, None, REGION).client("sqs", endpoint_url=stack.aws_url)
    while (elapsed := time.time() - run.began) < SECONDS:
        rush = RUSH_JOBS * 2 if 25 < elapsed < 45 else 8
        _post(stack, run, [_job(rand) for _ in range(rand.randint(rush // 2, rush))])
        found = sqs.get_queue_attributes(QueueUrl=stack.queue_url, AttributeNames=["ApproximateNumberOfMessages"])
        run.add("ApproximateNumberOfMessagesVisible", float(found["Attributes"]["ApproximateNumberOfMessages"]))
        time.sleep(1)


def _job(rand: random.Random) -> dict[str, Any]:
    priority = rand.choices((1, 2, 3), (1, 2, 4))[0]
    if rand.random() < 0.04:
        return {"type": "demo.fail", "payload": {"times": 9}, "maxAttempts": rand.choice((1, 3)), "priority": priority}
    if rand.random() < 0.01:
        return {"type": "mail.unknown", "priority": priority}
    return {"type": "demo.sleep", "payload": {"seconds": round(rand.uniform(0.1, 1.2), 2)}, "priority": priority}


def _post(stack: Stack, run: Run, jobs: Sequence[Mapping[str, Any]]) -> None:
    """One by one, or a rush of them in a batch."""
    requested = [("/jobs/batch", {"jobs": jobs})] if len(jobs) > RUSH_JOBS // 2 else [("/jobs", job) for job in jobs]
    for path, body in requested:
        began = time.monotonic()
        status = requests.post(f"{stack.url}{path}", json=body, timeout=30).status_code
        run.add("Latency", (time.monotonic() - began) * 1000)
        run.add("Count", 1)
        run.add("4xx", float(400 <= status < 500))
        run.add("5xx", float(status >= 500))


def _read_logs(folder: Path, run: Run) -> None:
    for path in folder.glob("*.log*"):
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                read = json.loads(line)
            except ValueError:
                continue
            if "_aws" in read:
                _read_metrics(read, run)
            elif isinstance(read, dict):
                run.lines.append(read)


def _read_metrics(blob: Mapping[str, Any], run: Run) -> None:
    at = blob["_aws"]["Timestamp"] / 1000
    for directive in blob["_aws"]["CloudWatchMetrics"]:
        for metric in directive["Metrics"]:
            for value in blob[metric["Name"]]:
                run.add(metric["Name"], value, at)


# ----- drawing


def draw(widgets: list[dict[str, Any]], run: Run) -> None:
    """Draws every widget where the JSON puts it."""
    pyplot = importlib.import_module("matplotlib.pyplot")
    rows = max(widget["y"] + widget["height"] for widget in widgets)
    figure = pyplot.figure(figsize=(COLUMNS * CELL_INCHES, rows * CELL_INCHES), facecolor="#f2f3f3")
    for widget in widgets:
        margin = (0.9 / COLUMNS * 0.45, 0.9 / rows * 0.6)
        left, bottom = widget["x"] / COLUMNS, 1 - (widget["y"] + widget["height"]) / rows
        width, height = widget["width"] / COLUMNS, widget["height"] / rows
        _panel(figure, left, bottom, width, height)
        box = (left + margin[0] * 1.6, bottom + margin[1] * 1.7, width - margin[0] * 3.0, height - margin[1] * 3.4)
        _DRAW[widget["type"]](figure, box, widget["properties"], run)
    figure.savefig(PICTURE, dpi=80)


def _panel(figure: Any, left: float, bottom: float, width: float, height: float) -> None:
    patches = importlib.import_module("matplotlib.patches")
    gap = 0.0015
    frame = (left + gap, bottom + gap), width - 2 * gap, height - 2 * gap
    figure.add_artist(
        patches.Rectangle(*frame, transform=figure.transFigure, facecolor="white", edgecolor="#d5dbdb", zorder=-1)
    )


def _text(figure: Any, box: tuple[float, float, float, float], properties: Mapping[str, Any], _run: Run) -> None:
    figure.text(
        box[0], box[1] + box[3] / 2, properties["markdown"].lstrip("# "), fontsize=15, fontweight="bold", va="center"
    )


def _title(figure: Any, box: tuple[float, float, float, float], title: str) -> None:
    figure.text(box[0] - 0.008, box[1] + box[3] + 0.006, title, fontsize=9.5, fontweight="bold", va="bottom")


def _alarms(figure: Any, box: tuple[float, float, float, float], properties: Mapping[str, Any], run: Run) -> None:
    _title(figure, box, properties["title"])
    dead = any(value for _, value in run.points["DeadJobs"][-3:])
    for place, name in enumerate(properties["alarms"]):
        wrong = dead and name == "DeadJobsAlarm"
        y = box[1] + box[3] * (1 - (place + 0.5) / len(properties["alarms"]))
        figure.text(box[0], y, "■", color="#d13212" if wrong else "#1d8102", fontsize=10, va="center")
        figure.text(
            box[0] + 0.014,
            y,
            re.sub(r"(?<!^)(?=[A-Z])", " ", name.removesuffix("Alarm")).lower(),
            fontsize=8.5,
            va="center",
        )


def _log(figure: Any, box: tuple[float, float, float, float], properties: Mapping[str, Any], run: Run) -> None:
    _title(figure, box, properties["title"])
    died = "job dead" in properties["query"]
    rows = _died(run) if died else _errors(run)
    for place, row in enumerate(rows[:8]):
        y = box[1] + box[3] * (1 - (place + 0.5) / 8)
        for x, cell in zip((0, 0.45, 0.8) if died else (0, 0.13, 0.23, 0.42, 0.56), row, strict=False):
            figure.text(
                box[0] + x * box[2],
                y,
                cell,
                fontsize=8,
                va="center",
                family="monospace",
                fontweight="bold" if place == 0 else None,
            )


def _died(run: Run) -> list[tuple[str, ...]]:
    counts = Counter((line["job_type"], line["reason"]) for line in run.lines if line.get("message") == "job dead")
    return [("job_type", "reason", "jobs"), *((kind, why, str(jobs)) for (kind, why), jobs in counts.most_common())]


def _errors(run: Run) -> list[tuple[str, ...]]:
    found = sorted(
        (line for line in run.lines if line.get("level") in ("ERROR", "CRITICAL")),
        key=lambda line: str(line["timestamp"]),
    )
    rows = [
        (
            line["timestamp"][11:23],
            line.get("service", ""),
            line["message"][:34],
            line.get("job_type", ""),
            line.get("reason", line.get("error", ""))[:60],
        )
        for line in reversed(found)
    ]
    return [("@timestamp", "service", "message", "job_type", "why"), *rows]


def _metric(figure: Any, box: tuple[float, float, float, float], properties: Mapping[str, Any], run: Run) -> None:
    _title(figure, box, properties["title"])
    if properties.get("view") == "singleValue":
        _single(figure, box, properties, run)
        return
    axes = figure.add_axes(box)
    right = None
    shown = False
    stacks = []
    for metric in properties["metrics"]:
        options = metric[-1]
        points = (
            binned(run.points.get(metric[1], []), options.get("stat", properties["stat"])) if _known(metric) else []
        )
        if not points:
            continue
        shown = True
        if properties.get("stacked"):
            stacks.append((points, options))
            continue
        target = axes
        if options.get("yAxis") == "right":
            right = target = right or axes.twinx()
        x, y = zip(*points, strict=True)
        target.plot(x, y, label=options["label"], linewidth=1.3, color=options.get("color"))
    if stacks:
        grid = [at for at, _ in stacks[0][0]]
        layers = [[dict(points).get(at, 0.0) for at in grid] for points, _ in stacks]
        axes.stackplot(
            grid, layers, labels=[o["label"] for _, o in stacks], colors=[o.get("color") for _, o in stacks], alpha=0.75
        )
    _finish(axes, right, properties, shown=shown)


def _known(metric: list[Any]) -> bool:
    """Of AWS's own, only what the run's client saw."""
    return metric[0] in ("Dilamme", "AWS/ApiGateway") or (
        metric[0] == "AWS/SQS" and "DeadLetterQueue" in metric and "Visible" in metric[1]
    )


def _finish(axes: Any, right: Any, properties: Mapping[str, Any], *, shown: bool) -> None:
    axes.tick_params(labelsize=7, length=2)
    axes.set_xlim(0, SECONDS)
    axes.grid(axis="y", color="#eaeded")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    if not shown:
        axes.text(
            0.5,
            0.5,
            "measured by AWS only: no data in a local run",
            transform=axes.transAxes,
            ha="center",
            va="center",
            fontsize=8,
            color="#879596",
        )
        axes.set_yticks([])
        return
    axes.set_ylim(0, axes.get_ylim()[1] * LEGEND_ROOM)
    for line in properties.get("annotations", {}).get("horizontal", []):
        if line["value"] <= axes.get_ylim()[1] * 3:
            axes.axhline(line["value"], color="#d13212", linewidth=0.8, linestyle="--")
    handles, labels = axes.get_legend_handles_labels()
    if right is not None:
        right.set_ylim(0, right.get_ylim()[1] * LEGEND_ROOM)
        right.tick_params(labelsize=7, length=2)
        more = right.get_legend_handles_labels()
        handles, labels = handles + more[0], [*labels, *(f"{label} →" for label in more[1])]
    axes.legend(handles, labels, fontsize=6.5, loc="upper left", frameon=False, ncols=2 if len(labels) > 3 else 1)


def _single(figure: Any, box: tuple[float, float, float, float], properties: Mapping[str, Any], run: Run) -> None:
    points = run.points[properties["metrics"][0][1]]
    value = int(points[-1][1]) if points else 0
    figure.text(
        box[0] + box[2] / 2,
        box[1] + box[3] * 0.6,
        str(value),
        fontsize=34,
        ha="center",
        va="center",
        color="#d13212" if value else "#1d8102",
    )
    axes = figure.add_axes((box[0], box[1], box[2], box[3] * 0.3))
    axes.plot(*zip(*binned(points, "Maximum"), strict=True), color="#879596", linewidth=1)
    axes.axis("off")


def binned(points: Iterable[Point], stat: str) -> list[Point]:
    """A statistic as CloudWatch names it, over `BIN_SECONDS`."""
    bins: dict[int, list[float]] = defaultdict(list)
    for at, value in points:
        bins[int(at // BIN_SECONDS)].append(value)
    return [(place * BIN_SECONDS, statistic(values, stat)) for place, values in sorted(bins.items()) if place >= 0]


def statistic(values: list[float], stat: str) -> float:
    """Sum, Average, Minimum, Maximum or pNN."""
    if stat.startswith("p"):
        return sorted(values)[max(0, math.ceil(len(values) * int(stat[1:]) / 100) - 1)]
    of: dict[str, Callable[[list[float]], float]] = {
        "Sum": sum,
        "Average": statistics.fmean,
        "Minimum": min,
        "Maximum": max,
    }
    return of[stat](values)


_DRAW = {"text": _text, "alarm": _alarms, "log": _log, "metric": _metric}


def main() -> int:
    """Writes the picture."""
    try:
        importlib.import_module("matplotlib").use("Agg")
    except ImportError:
        print("No picture: matplotlib is not installed.")
        return 1
    draw(dashboard(), observed())
    print(PICTURE.relative_to(CHECKOUT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
