"""What it takes: at 10², 10⁴ and 10⁶ jobs a minute, where the limit lies, how many slots, what instance, what it costs.

    PYTHONPATH=shared python -m benchmarks.capacity

Arithmetic over ``results/{drain,depth,enqueue,latency}.json``, as the other benchmarks measured them, and over the prices
of `tools.cost`. Prints a page and writes it to ``capacity.md``.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import _common as common
from dilamme.settings import read
from tools import cost

PAGE = Path(__file__).with_name("capacity.md")
LOADS = (100, 10_000, 1_000_000)
"""Jobs a minute."""
OURS, API, BARE, INSERT = "Dilamme", "Dilamme's API", "bare SQL in 1,000s", "bare INSERT"
SHARE = 0.5  # of what was measured at full speed: room for peaks, vacuum and backups
HANDLER_SECONDS = (0.01, 1.0)  # the handlers' own time, short and long
INSTANCES = {"db.t4g.micro": 80, "db.t4g.small": 170, "db.t4g.medium": 340}
"""Default max_connections on RDS, rounded down: LEAST(memory in bytes / 9531392, 5000)."""
RESERVED_CONNECTIONS = 10  # scheduler and its successor, rescue, the superuser's, a person's
HTTP_POSTS_SECOND = 10_000  # an account's default quota for API Gateway
ASYNC_INVOKES_SECOND = 10_000  # ten times the default concurrency of 1,000
BURST_NOTE = 1_000  # Lambda's default concurrency


@dataclass(frozen=True)
class Measured:
    """What the arithmetic begins with."""

    drain_per_second: tuple[float, float]  # by one and by two workers
    database_per_second: float
    tick_seconds: float
    tick_seconds_deep: float
    store_one_per_second: float
    store_batch_per_second: float
    insert_per_second: float  # into the database, without the door
    processor: str


def main() -> None:
    page = write(measured(result))
    print(page)
    PAGE.write_text(page, encoding="utf-8")


def result(name: str) -> Any:
    """What a benchmark wrote."""
    path = common.RESULTS / f"{name}.json"
    if not path.exists():
        raise SystemExit(f"benchmarks/results/{name}.json is not there: run benchmarks.{name} first")
    return json.loads(path.read_text(encoding="utf-8"))


def measured(results: Callable[[str], Any]) -> Measured:
    drain, depth, enqueue = results("drain"), results("depth"), results("enqueue")
    ticks = [found["median"] / 1000 for found in depth["tick_ms"].values()]
    rates = {name: found for name, found in drain["results"].items() if name in {OURS, BARE}}
    one, two = (rates[OURS][f"jobs_per_second_{number}"]["median"] for number in (1, 2))
    database = max(found["median"] for found in rates.get(BARE, rates[OURS]).values())
    api = enqueue["results"][API]
    insert = enqueue["results"].get(INSERT, api)
    return Measured(
        drain_per_second=(one, two),
        database_per_second=database,
        tick_seconds=ticks[0],
        tick_seconds_deep=max(ticks),
        store_one_per_second=api["single_per_second"]["median"],
        store_batch_per_second=api["batch_per_second"]["median"],
        insert_per_second=insert["batch_per_second"]["median"],
        processor=f"{drain['machine']['processor']}, {drain['machine']['cores']} cores",
    )


# ----- the arithmetic


def workers(per_second: float, handler_seconds: float, found: Measured) -> int:
    """Slots that are busy on average, at half their speed: handlers' time shared by the threads, and our own beside it."""
    settings = read({})
    in_handlers = per_second * handler_seconds / settings.worker_concurrency
    in_ours = per_second / found.drain_per_second[0]
    return max(1, math.ceil((in_handlers + in_ours) / SHARE))


def database_share(per_second: float, found: Measured) -> float:
    """The part of a database like this machine's that storing, claiming and completing take."""
    return per_second * (1 / max(found.drain_per_second) + 1 / found.insert_per_second)


def databases(per_second: float, found: Measured) -> int:
    """How many primaries like this machine's, each in use to half."""
    return max(1, math.ceil(database_share(per_second, found) / SHARE))


def connections(slots: int, per_second: float, found: Measured, *, batched: bool) -> int:
    """A worker has one, and so has every API environment that is busy."""
    stored = found.store_batch_per_second if batched else found.store_one_per_second
    return slots + math.ceil(per_second / stored / SHARE) + RESERVED_CONNECTIONS


def instance(needed: int) -> str:
    """The smallest whose default limit holds so many connections."""
    fitting = [name for name, most in INSTANCES.items() if most >= needed]
    return fitting[0] if fitting else "larger, or RDS Proxy"


def dollars(per_minute: int, *, batched: bool) -> float:
    """A month of jobs, besides the handlers' own time and what is always there."""
    values = cost.template()
    million = sum(price for _, price in cost.million_jobs(values, batched=batched))
    return million * per_minute * cost.MINUTES / 1e6


# ----- the page


def load_row(per_minute: int, found: Measured) -> str:
    per_second = per_minute / 60
    short, long = (workers(per_second, seconds, found) for seconds in HANDLER_SECONDS)
    batched = per_second > HTTP_POSTS_SECOND * SHARE
    needed = connections(short, per_second, found, batched=batched)
    cells = [
        f"{per_minute:,}",
        f"{per_second:,.1f}",
        "in batches" if batched else "one by one",
        f"{short:,}",
        f"{long:,}",
        f"{needed:,}",
        instance(needed),
        f"{databases(per_second, found):,}",
        f"${dollars(per_minute, batched=False):,.2f}",
        f"${dollars(per_minute, batched=True):,.2f}",
    ]
    return f"| {' | '.join(cells)} |"


def limit_row(per_minute: int, found: Measured) -> str:
    """By how many times each part could do more, of what it was measured to do."""
    per_second = per_minute / 60
    shares = {
        "database": database_share(per_second, found),
        "storing, one API process, one by one": per_second / found.store_one_per_second,
        "storing, one API process, in batches": per_second / found.store_batch_per_second,
        "HTTP API's quota, one by one": per_second / HTTP_POSTS_SECOND,
        "ticks, of the beat": found.tick_seconds_deep / read({}).tick_seconds,
    }
    return f"| {per_minute:,} | {' | '.join(f'{share:.1%}' for share in shares.values())} |"


def write(found: Measured) -> str:
    settings = read({})
    values = cost.template()
    fixed = sum(price for _, price in cost.fixed(values))
    idle = cost.idle_scheduler(values.scheduler_mb, values.architecture, idle_exit=False)
    most = SHARE / database_share(1 / 60, found)
    return f"""\
# Capacity

Written by `python -m benchmarks.capacity` from `benchmarks/results/`; nothing here is measured anew. The costs are those of
one machine ({found.processor}), on which PostgreSQL, the workers and the load shared the processors. A database on an
instance of its own has more room, a network in between takes some: the table is an order of magnitude, not a promise.

## What was measured

| | |
|---|---|
| drained by 1 worker, by 2 | {found.drain_per_second[0]:,.0f}, {found.drain_per_second[1]:,.0f} jobs a second |
| the same by bare SQL, the database's own limit | {found.database_per_second:,.0f} jobs a second |
| a tick, shallow, and the slowest depth | {found.tick_seconds * 1000:.1f} ms, {found.tick_seconds_deep * 1000:.1f} ms, of {settings.tick_seconds:g} s |
| stored by one API process, one by one, in batches | {found.store_one_per_second:,.0f}, {found.store_batch_per_second:,.0f} jobs a second |
| inserted by bare SQL in batches | {found.insert_per_second:,.0f} jobs a second |

All of it is used to {SHARE:.0%} below, so that peaks, vacuum and backups find room.

## What it takes

Slots are workers that are busy at once, {settings.worker_concurrency} handlers each (`DILAMME_WORKER_SLOTS`, default {settings.worker_slots}); \
handlers of {HANDLER_SECONDS[0] * 1000:.0f} ms and of {HANDLER_SECONDS[1]:g} s. Connections and instance are for the short ones. \
Jobs are stored one by one, or in batches where the HTTP API's quota would be half used. \
Dollars a month are for storing and running singly and in batches of 1,000, without the handlers' own time, and come on top of ${fixed + idle:,.2f} that is \
always there ({values.database}, endpoints, metrics, a scheduler that never idles).

| jobs a minute | a second | stored | slots, {HANDLER_SECONDS[0] * 1000:.0f} ms | slots, {HANDLER_SECONDS[1]:g} s | connections | instance, by connections | databases | $ a month, singly | in batches |
|---|---|---|---|---|---|---|---|---|---|
{chr(10).join(load_row(load, found) for load in LOADS)}

## Where the limit lies

How much of each part is in use.

| jobs a minute | database | one API process, singly | one API process, batches | HTTP API's quota, singly | a tick, of its beat |
|---|---|---|---|---|---|
{chr(10).join(limit_row(load, found) for load in LOADS)}

* **Ticks do not limit.** A tick looks at no more heads than the free slots can take, whatever the backlog; and under load \
workers claim for themselves, so a tick calls only for slots that are free.
* **Invokes do not limit.** A worker drains on until nothing is left: the invocations a second are at most the slots that \
end and are called anew, far below Lambda's default concurrency of {BURST_NOTE:,} and its {ASYNC_INVOKES_SECOND:,} asynchronous invokes a second.
* **Connections** come next: one for each busy worker and API environment. Past the instance's limit, RDS Proxy or PgBouncer \
in transaction mode goes in between (nothing in Dilamme lives in a session).
* **The handlers' own time** decides over slots long before our own cost does: a second of work at 10⁶ jobs a minute is \
{HANDLER_SECONDS[1] * LOADS[-1] / 60:,.0f} handlers at any time, wherever they run.
* **The database limits in the end**: every job is inserted, claimed and completed there, durably. On this machine that was \
{most:,.0f} jobs a minute with {SHARE:.0%} in use.

## Past one database

A larger instance first: the work is short transactions over small indexes, and scales with processors and with the disk's \
commits. A `t4g` instance lives on credits: for a load that does not end, take an `m` or `r` class. Then shards: a stack for \
each (the template's names come from the stack's, so they live side by side), and the caller chooses by a hash of what \
belongs together, since a DAG, a series and an idempotency key must stay within one database. Three things are given up: the \
exact order holds within a shard, not across; a batch is all or nothing within a shard; each shard has lists and counts of its own. \
Nothing in the code changes, so there is nothing of it until it is needed.
"""


if __name__ == "__main__":
    main()
