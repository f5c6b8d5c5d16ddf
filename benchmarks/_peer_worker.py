"""One worker process of a Python peer: ``python -m benchmarks._peer_worker NAME URL``.

Settings are those of `benchmarks._peers`. What a peer needs is imported in its own function: it may not be installed.
"""

import asyncio
import logging
import sys
import time
from importlib import import_module
from typing import Any

import psycopg

from benchmarks._peers import AWA, BARE_CLAIM, BARE_COMPLETE, PGQUEUER, PROCRASTINATE, Noop, pgqueuer_driver
from benchmarks._tally import Counter


def pgqueuer(url: str) -> None:
    counter = Counter()

    async def work() -> None:
        queries = import_module("pgqueuer.queries").Queries(await pgqueuer_driver(url))
        manager = import_module("pgqueuer").QueueManager(queries=queries)

        async def noop(job: Any) -> None:  # noqa: ARG001
            counter.add()

        manager.entrypoint("noop")(noop)
        await manager.run(batch_size=PGQUEUER["batch_size"])

    import_module("uvloop").run(work())


def procrastinate(url: str) -> None:
    counter = Counter()
    logging.getLogger("procrastinate").setLevel(logging.ERROR)  # it warns of an app in the main module
    procrastinate = import_module("procrastinate")
    concurrency = PROCRASTINATE["concurrency"]
    connector = procrastinate.PsycopgConnector(conninfo=url, min_size=concurrency, max_size=concurrency + 1)
    app = procrastinate.App(connector=connector)

    async def noop() -> None:
        counter.add()

    app.task(name="noop")(noop)

    async def work() -> None:
        async with app.open_async():
            await app.run_worker_async(concurrency=concurrency)

    asyncio.run(work())


def awa(url: str) -> None:
    counter = Counter()

    async def work() -> None:
        client = import_module("awa").AsyncClient(url, max_connections=AWA["max_connections"])

        async def noop(job: Any) -> None:  # noqa: ARG001
            counter.add()

        client.task(Noop, queue="bench")(noop)
        queue = {"name": "bench", **{name: AWA[name] for name in ("max_workers", "claimers", "claim_batch_size")}}
        await client.start([queue], poll_interval_ms=AWA["poll_interval_ms"])
        await asyncio.Event().wait()

    asyncio.run(work())


def bare(url: str, batch: int) -> None:
    counter = Counter()
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        while ids := [id_ for id_, _ in connection.execute(BARE_CLAIM, (batch,)).fetchall()]:
            connection.execute(BARE_COMPLETE, (ids,))
            for _ in ids:
                counter.add()
        time.sleep(60)  # the parent ends it; the tally's thread has yet to tell the last number


def main(name: str, url: str) -> None:
    if name.startswith("bare-"):
        bare(url, int(name.removeprefix("bare-")))
    else:
        {"pgqueuer": pgqueuer, "procrastinate": procrastinate, "awa": awa}[name](url)


if __name__ == "__main__":
    main(*sys.argv[1:])
