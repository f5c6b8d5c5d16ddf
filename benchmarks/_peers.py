"""The peers that Dilamme is measured beside: how each is filled, run and asked for what it has done, and its settings.

A setting differs from the peer's default only where the peer's own documentation recommends it for speed, or where a
sweep on one machine found a faster one; `SETTINGS` says which, and goes into the results.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

from benchmarks import _server
from benchmarks._tally import VARIABLE
from dilamme_local.product import PRODUCT as CHECKOUT


@dataclass
class Noop:
    """awa names its jobs by the class of their arguments."""

    number: int


NODE = Path(__file__).with_name("node")
FILL_BATCH = 5_000

PGQUEUER = {"batch_size": 200}
PROCRASTINATE = {"concurrency": 10}
AWA = {"max_connections": 20, "max_workers": 256, "claimers": 2, "claim_batch_size": 512, "poll_interval_ms": 50}
GRAPHILE = {
    "concurrentJobs": 24,
    "maxPoolSize": 25,
    "localQueue": {"size": 500},
    "completeJobBatchDelay": 0,
    "failJobBatchDelay": 0,
}
PG_BOSS = {"batchSize": 1000}

BARE_CLAIM = """
    UPDATE jobs SET status = 'running', started_at = clock_timestamp()
    WHERE id = ANY(ARRAY(SELECT id FROM jobs WHERE status = 'pending' AND ready_at <= now()
                         ORDER BY ready_at, id LIMIT %s FOR UPDATE SKIP LOCKED))
    RETURNING id, payload"""
BARE_COMPLETE = "UPDATE jobs SET status = 'completed', finished_at = clock_timestamp() WHERE id = ANY(%s)"


@dataclass(frozen=True)
class Peer:
    """``gate``: the table that a claim cannot do without, locked until all workers stand before it.

    ``done``: SQL for how many jobs have been completed, given how many there were (``%(stored)s``). ``fraction``: a slow
    peer gets this part of the jobs, for the rate is from its own count. ``missing``: why it cannot run here, or nothing.
    """

    name: str
    fill: Callable[[str, int], None]
    command: list[str]
    gate: str
    done: str
    settings: dict[str, object]
    fraction: float = 1
    missing: str = ""

    def filling(self, count: int) -> Callable[[str], None]:
        """Fills a database, given its URL, with so many jobs."""
        return lambda url: self.fill(url, count)

    def start(self, url: str, tally: Path) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [*self.command, url],
            cwd=CHECKOUT,
            env={**environment(), VARIABLE: str(tally), "BENCHMARK_SETTINGS": json.dumps(self.settings)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # ended as a group
        )


def environment() -> dict[str, str]:
    """What a process of Python needs to import the benchmarks; no settings of another Dilamme, AWS or PostgreSQL."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("DILAMME_", "AWS_", "PG"))}
    path = [str(CHECKOUT), str(CHECKOUT / "shared"), os.environ.get("PYTHONPATH", "")]
    return {**inherited, "PYTHONPATH": os.pathsep.join(filter(None, path))}


def _python(name: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks._peer_worker", name]


def _node(name: str) -> list[str]:
    return [shutil.which("node") or "node", str(NODE / "drain.mjs"), name]


def _batches(count: int) -> Iterable[int]:
    """``count`` in parts of at most `FILL_BATCH`."""
    for start in range(0, count, FILL_BATCH):
        yield min(FILL_BATCH, count - start)


# How each is filled


async def pgqueuer_driver(url: str) -> Any:
    """asyncpg's, which PgQueuer's documentation recommends for throughput; psycopg's where asyncpg is not installed."""
    drivers = import_module("pgqueuer.db")
    if _installed("asyncpg"):
        return drivers.AsyncpgDriver(await import_module("asyncpg").connect(url))
    return drivers.PsycopgDriver(await psycopg.AsyncConnection.connect(url, autocommit=True))


def fill_pgqueuer(url: str, count: int) -> None:
    async def fill() -> None:
        queries = import_module("pgqueuer.queries").Queries(await pgqueuer_driver(url))
        await queries.install()
        await queries.optimize_autovacuum()
        for size in _batches(count):
            await queries.enqueue(["noop"] * size, [b"{}"] * size, [0] * size)

    asyncio.run(fill())


def fill_procrastinate(url: str, count: int) -> None:
    procrastinate = import_module("procrastinate")
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))

    async def fill() -> None:
        async with app.open_async():
            await app.schema_manager.apply_schema_async()
            for size in _batches(count):
                await app.configure_task("noop").batch_defer_async(*({} for _ in range(size)))

    asyncio.run(fill())


def fill_awa(url: str, count: int) -> None:
    async def fill() -> None:
        client = import_module("awa").AsyncClient(url, max_connections=2)
        await client.migrate()
        await client.install_queue_storage()
        for size in _batches(count):
            await client.enqueue_many_copy([Noop(number) for number in range(size)], queue="bench")
        await client.close()

    asyncio.run(fill())


def fill_bare(url: str, count: int) -> None:
    with closing(_server.connect(url)) as connection:
        connection.execute("""
            CREATE TABLE jobs (
                id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, status text NOT NULL DEFAULT 'pending',
                ready_at timestamptz NOT NULL DEFAULT now(), started_at timestamptz, finished_at timestamptz,
                payload jsonb NOT NULL) WITH (fillfactor = 70)""")
        connection.execute("CREATE INDEX ON jobs (ready_at, id) WHERE status = 'pending'")
        connection.execute("INSERT INTO jobs (payload) SELECT '{}' FROM generate_series(1, %s)", (count,))


def _fill_node(name: str) -> Callable[[str, int], None]:
    def fill(url: str, count: int) -> None:
        node_modules()
        subprocess.run([*_node(f"fill-{name}"), url, str(count)], check=True, stdout=subprocess.DEVNULL)

    return fill


def node_modules() -> None:
    """Installs what `benchmarks/node/package-lock.json` pins, unless that has been done."""
    if not (NODE / "node_modules").exists():
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=NODE, check=True, stdout=sys.stderr)


# What is here


def _installed(package: str) -> bool:
    return find_spec(package) is not None


def _python_missing(package: str) -> str:
    return "" if _installed(package) else f"{package} is not installed (the bench group of pyproject.toml)"


def _node_missing() -> str:
    if not shutil.which("node") or not shutil.which("npm"):
        return "Node is not installed"
    text = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    return "" if int(text.strip().lstrip("v").partition(".")[0]) >= 20 else f"Node 20 is needed, this is {text.strip()}"


def bare(batch: int) -> Peer:
    """What PostgreSQL itself allows: claim a batch, complete it with one array statement, nothing else."""
    return Peer(
        f"bare SQL in {batch:,}s",
        fill_bare,
        _python(f"bare-{batch}"),
        "jobs",
        "SELECT count(*) FROM jobs WHERE status = 'completed'",
        {"batch": batch, "prepare_threshold": None, "fillfactor": 70},
    )


def peers() -> list[Peer]:
    """All of them, whether they can run here or not."""
    node = _node_missing()
    return [
        Peer(
            "PgQueuer",
            fill_pgqueuer,
            _python("pgqueuer"),
            "pgqueuer",
            "SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'",
            {
                **PGQUEUER,
                "driver": "asyncpg" if _installed("asyncpg") else "psycopg",
                "event_loop": "uvloop",
                "autovacuum": "its `pgq autovac`",
                "durability": "durable (default; the faster levels lose jobs)",
            },
            missing=_python_missing("pgqueuer"),
        ),
        Peer(
            "Procrastinate",
            fill_procrastinate,
            _python("procrastinate"),
            "procrastinate_jobs",
            "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'",
            {**PROCRASTINATE, "pool": PROCRASTINATE["concurrency"] + 1},
            fraction=0.1,
            missing=_python_missing("procrastinate"),
        ),
        Peer(
            "awa",
            fill_awa,
            _python("awa"),
            "awa.ready_entries",
            "SELECT (SELECT coalesce(sum(completed_count), 0) FROM awa.receipt_completion_batches)"
            " + (SELECT count(*) FROM awa.done_entries)",
            {**AWA, "engine": "queue storage"},
            missing=_python_missing("awa"),
        ),
        Peer(
            "graphile-worker",
            _fill_node("graphile"),
            _node("graphile"),
            "graphile_worker._private_jobs",
            "SELECT %(stored)s - count(*) FROM graphile_worker._private_jobs",
            dict(GRAPHILE),
            missing=node,
        ),
        Peer(
            "pg-boss",
            _fill_node("pg-boss"),
            _node("pg-boss"),
            "pgboss.job",
            "SELECT count(*) FROM pgboss.job WHERE state = 'completed'",
            {**PG_BOSS, "loop": "fetch() and complete(); work() waits at least 0.5 s between two batches"},
            missing=node,
        ),
    ]
