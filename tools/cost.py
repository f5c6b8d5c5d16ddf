"""What a deployment costs a month, from the template's own values.

    python -m tools.cost            prints the tables of docs/aws.md
    python -m tools.cost --write    puts them into docs/aws.md

Prices are list prices of us-east-1 without the free tier. The time of our own code was measured on a whole processor. A
function has a share of one, by its memory, so its time is longer by that.
"""

import re
import sys
from dataclasses import dataclass

from dilamme.aws.telemetry import METRICS
from dilamme.settings import read
from tools.template import CHECKOUT
from tools.template import read as read_template

DOCUMENT = CHECKOUT / "docs" / "aws.md"
BEGIN, END = "<!-- tools/cost.py -->", "<!-- end -->"

# ----- prices, in US dollars
PRICES_OF = "November 2026"
LAMBDA_REQUEST = 0.20 / 1e6
LAMBDA_GB_SECOND = {"arm64": 0.0000133334, "x86_64": 0.0000166667}
HTTP_API_REQUEST = 1.00 / 1e6
SQS_REQUEST = 0.40 / 1e6
LOGS_GB = 0.50
METRIC_MONTH = 0.30
ALARM_MONTH = 0.10
DASHBOARD_MONTH = 3.00
SECRET_MONTH = 0.40
ENDPOINT_HOUR = 0.01  # in one zone
NAT_HOUR = 0.045 + 0.005  # with its public address
DATABASE_HOUR = {"db.t4g.micro": 0.016, "db.t4g.small": 0.032, "db.t4g.medium": 0.065}  # one zone; two cost twice
STORAGE_GB_MONTH = 0.115

HOURS = 730  # a month
MINUTES = HOURS * 60
PROCESSOR_MB = 1769  # at which a function has one whole processor, https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html

# ----- measured on one processor, 2026-11-29: handler of demo.echo, PostgreSQL on the same machine
SINGLE_JOB_SECONDS = 0.023  # a worker's whole invocation for one job
BATCH_JOB_SECONDS = 0.0004  # a job among 1,000 in one invocation
BATCH_JOBS = 1000
POST_SECONDS = 0.004
COLD_SECONDS = 0.5  # a scheduler that has exited idle is thawed, not started; now and then it is started
SINGLE_LOG_BYTES = 700  # our own line, and Lambda's start and report
BATCH_LOG_BYTES = 17
SCHEDULER_LOG_BYTES = 1_600 + 600  # an idle minute: two lines of metrics, one of the loop, Lambda's own
GAUGE_LOG_BYTES = 1_150  # every ten ticks of a loop that does not exit


@dataclass(frozen=True)
class Template:
    """What the bill depends on, as it stands in template.yaml."""

    architecture: str
    worker_mb: int
    scheduler_mb: int
    api_mb: int
    database: str
    storage_gb: int
    endpoints: int
    alarms: int


def template() -> Template:
    """The template's values."""
    tree = read_template()
    default = {name: spec["Default"] for name, spec in tree["Parameters"].items()}
    kinds = [(spec["Type"], spec.get("Properties", {})) for spec in tree["Resources"].values()]
    return Template(
        architecture=default["Architecture"],
        worker_mb=default["WorkerMemory"],
        scheduler_mb=default["SchedulerMemory"],
        api_mb=tree["Resources"]["ApiFunction"]["Properties"]["MemorySize"],
        database=default["DatabaseClass"],
        storage_gb=default["DatabaseStorageGb"],
        endpoints=sum(
            kind == "AWS::EC2::VPCEndpoint" and spec["VpcEndpointType"] == "Interface" for kind, spec in kinds
        ),
        alarms=sum(kind == "AWS::CloudWatch::Alarm" for kind, _ in kinds),
    )


def lambda_cost(seconds: float, memory_mb: int, architecture: str, requests: float) -> float:
    """Dollars for ``seconds`` of running time in so many requests."""
    return seconds * memory_mb / 1024 * LAMBDA_GB_SECOND[architecture] + requests * LAMBDA_REQUEST


def busy(seconds: float, memory_mb: int) -> float:
    """What takes ``seconds`` on a whole processor, on the share of a function of this memory."""
    return seconds / min(1.0, memory_mb / PROCESSOR_MB)


def idle_scheduler(memory_mb: int, architecture: str, *, idle_exit: bool) -> float:
    """Dollars a month for a scheduler with nothing to do."""
    settings = read({})
    if idle_exit:
        seconds = settings.idle_exit_seconds + busy(COLD_SECONDS, memory_mb) * 0.02
        return lambda_cost(seconds * MINUTES, memory_mb, architecture, MINUTES) + logs(SCHEDULER_LOG_BYTES * MINUTES)
    # The next one takes over at its first tick, so there is about one at any time.
    ticks = HOURS * 3600 / settings.tick_seconds
    return lambda_cost(HOURS * 3600, memory_mb, architecture, MINUTES) + logs(
        ticks / 10 * GAUGE_LOG_BYTES + MINUTES * 900
    )


def logs(size_bytes: float) -> float:
    """Dollars for taking in so much."""
    return size_bytes / 1e9 * LOGS_GB


def million_jobs(values: Template, *, batched: bool) -> list[tuple[str, float]]:
    """Dollars for a million jobs, posted and run, besides what the handlers themselves take."""
    posts = 1e6 / BATCH_JOBS if batched else 1e6
    runs = 1e6 / BATCH_JOBS if batched else 1e6
    run_seconds = busy(BATCH_JOB_SECONDS * BATCH_JOBS if batched else SINGLE_JOB_SECONDS, values.worker_mb)
    post_seconds = busy(POST_SECONDS * (25 if batched else 1), values.api_mb)
    log_bytes = BATCH_LOG_BYTES if batched else SINGLE_LOG_BYTES
    return [
        ("HTTP API", posts * HTTP_API_REQUEST),
        ("api function", lambda_cost(posts * post_seconds, values.api_mb, values.architecture, posts)),
        ("worker function", lambda_cost(runs * run_seconds, values.worker_mb, values.architecture, runs)),
        ("logs and metrics", logs(1e6 * log_bytes + posts * 900)),
    ]


def fixed(values: Template) -> list[tuple[str, float]]:
    """Dollars a month for what is there whether a job runs or not."""
    metrics = sum(len(names) for names in METRICS.values())
    return [
        (
            f"PostgreSQL, {values.database}, {values.storage_gb} GB",
            DATABASE_HOUR[values.database] * HOURS + values.storage_gb * STORAGE_GB_MONTH,
        ),
        (f"{values.endpoints} interface endpoints, one zone", values.endpoints * ENDPOINT_HOUR * HOURS),
        (
            f"{metrics} metrics, {values.alarms} alarms, 1 dashboard",
            metrics * METRIC_MONTH + values.alarms * ALARM_MONTH + DASHBOARD_MONTH,
        ),
        ("the master's secret", SECRET_MONTH),
    ]


def tables() -> str:
    """The tables as they stand in the document."""
    values = template()
    parts = [f"List prices of us-east-1, {PRICES_OF}, without the free tier, {values.architecture}.", ""]
    parts += ["| always there | a month |", "|---|---|"]
    parts += [f"| {name} | ${dollars:.2f} |" for name, dollars in fixed(values)]
    parts += [f"| **together** | **${sum(dollars for _, dollars in fixed(values)):.2f}** |"]
    parts += [f"| `WorkerEgress=nat` instead of the endpoints | ${NAT_HOUR * HOURS:.2f} + $0.045 a GB |"]
    parts += [f"| a database of your own with a public address | ${fixed(values)[2][1]:.2f} and its own price |", ""]
    parts += ["| idle scheduler, by memory | `IdleExit=true` (default) | `IdleExit=false` |", "|---|---|---|"]
    for memory in (128, 256, 512):
        price = [idle_scheduler(memory, values.architecture, idle_exit=leaves) for leaves in (True, False)]
        mark = " (default)" if memory == values.scheduler_mb else ""
        parts.append(f"| {memory} MB{mark} | ${price[0]:.2f} | ${price[1]:.2f} |")
    parts += [
        "",
        "| a million jobs, besides your handlers' own time | posted and run singly | in batches of 1,000 |",
        "|---|---|---|",
    ]
    for (name, single), (_, batched) in zip(
        million_jobs(values, batched=False), million_jobs(values, batched=True), strict=True
    ):
        parts.append(f"| {name} | ${single:.2f} | ${batched:.2f} |")
    sums = [sum(dollars for _, dollars in million_jobs(values, batched=batched)) for batched in (False, True)]
    parts += [f"| **together** | **${sums[0]:.2f}** | **${sums[1]:.2f}** |"]
    second = lambda_cost(1.0, values.worker_mb, values.architecture, 0)
    parts += [
        "",
        f"A handler's own second costs ${second * 1e6:.2f} a million in a worker of {values.worker_mb} MB, divided by the handlers that it runs at once.",
    ]
    return "\n".join(parts)


def written() -> str:
    """The tables that the document has."""
    match = re.search(f"{BEGIN}\n(.*?)\n{END}", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    return match[1] if match else ""


def main() -> None:
    """Prints, or with ``--write`` renews the document."""
    if "--write" not in sys.argv:
        print(tables())
        return
    text = DOCUMENT.read_text(encoding="utf-8")
    replacement = f"{BEGIN}\n{tables()}\n{END}"
    DOCUMENT.write_text(re.sub(f"{BEGIN}.*?{END}", lambda _: replacement, text, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    main()
