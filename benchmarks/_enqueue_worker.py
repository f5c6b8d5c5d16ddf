"""One process that stores jobs: ``python -m benchmarks._enqueue_worker NAME URL SINGLE BATCHES BATCH``.

Prints JSON: {"single_per_second", "batch_per_second"}. `ours` goes through the API's deployed handler, from the event of
API Gateway to the answer; the others are calls of a library, the async ones in an event loop of uvloop.
"""

import json
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import psycopg

import dilamme
from benchmarks._peers import pgqueuer_driver

API = Path(__file__).parent.parent / "functions" / "api"
WARM_UP = 20


def ours(url: str, single: int, batches: int, batch: int) -> Mapping[str, float]:
    os.environ["DATABASE_URL"] = url
    handler = load_handler()
    one = {"type": "bench.noop", "payload": {"n": 1}}
    job, many = event("/jobs", one), event("/jobs/batch", {"jobs": [one] * batch})
    context = SimpleNamespace(
        function_name="api",
        memory_limit_in_mb=512,
        invoked_function_arn="arn:aws:lambda:us-east-1:123456789012:function:api",
        aws_request_id=str(uuid4()),
        get_remaining_time_in_millis=lambda: 29_000,
    )

    def post(what: dict[str, Any]) -> None:
        answer = handler(what, context)
        if answer["statusCode"] != 201:
            raise RuntimeError(f"the API answered {answer['statusCode']}: {answer['body']}")

    return {
        "single_per_second": per_second(lambda: post(job), single),
        "batch_per_second": per_second(lambda: post(many), batches) * batch,
    }


def load_handler() -> Callable[[Any, Any], Any]:
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
    spec = spec_from_file_location("benchmarked_api", API / "handler.py")
    if spec is None or spec.loader is None:
        raise ImportError(f"no handler in {API}")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    handler: Callable[[Any, Any], Any] = module.handler
    return handler


def event(path: str, body: Any) -> dict[str, Any]:
    """A POST as API Gateway's HTTP API sends it, payload 2.0."""
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {"content-type": "application/json", "host": "localhost"},
        "requestContext": {
            "accountId": "anonymous",
            "apiId": "local",
            "domainName": "localhost",
            "http": {"method": "POST", "path": path, "protocol": "HTTP/1.1", "sourceIp": "127.0.0.1", "userAgent": ""},
            "requestId": "benchmark",
            "routeKey": "$default",
            "stage": "$default",
            "timeEpoch": 0,
        },
        "body": json.dumps(body),
        "isBase64Encoded": False,
    }


def per_second(act: Callable[[], object], times: int) -> float:
    for _ in range(min(WARM_UP, times)):
        act()
    began = time.perf_counter()
    for _ in range(times):
        act()
    return times / (time.perf_counter() - began)


def library(url: str, single: int, batches: int, batch: int) -> Mapping[str, float]:
    jobs = [{"type": "bench.noop", "payload": {"n": 1}}] * batch
    with psycopg.connect(url, autocommit=True) as connection:
        return {
            "single_per_second": per_second(lambda: dilamme.submit(connection, "bench.noop", {"n": 1}), single),
            "batch_per_second": per_second(lambda: dilamme.submit_many(connection, jobs), batches) * batch,
        }


def submit_async(url: str, single: int, *_: int) -> Mapping[str, float]:
    async def store() -> Mapping[str, float]:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            submit = partial(dilamme.submit_async, connection, "bench.noop", {"n": 1})
            return {"single_per_second": await per_second_async(submit, single)}

    return run(store())


def function(url: str, single: int, batches: int, batch: int) -> Mapping[str, float]:
    payload = json.dumps({"n": 1})

    async def store() -> Mapping[str, float]:
        connection = await import_module("asyncpg").connect(url)
        one = partial(connection.fetchval, "SELECT dilamme.submit('bench.noop', $1)", payload)
        many = partial(
            connection.fetch, "SELECT dilamme.submit('bench.noop', p) FROM unnest($1::jsonb[]) AS p", [payload] * batch
        )
        return {
            "single_per_second": await per_second_async(one, single),
            "batch_per_second": await per_second_async(many, batches) * batch,
        }

    return run(store())


def run(main: Coroutine[Any, Any, Mapping[str, float]]) -> Mapping[str, float]:
    """In a loop of uvloop, if it is there."""
    loop = import_module("uvloop" if find_spec("uvloop") else "asyncio")
    found: Mapping[str, float] = loop.run(main)
    return found


async def per_second_async(act: Callable[[], Awaitable[object]], times: int) -> float:
    for _ in range(min(WARM_UP, times)):
        await act()
    began = time.perf_counter()
    for _ in range(times):
        await act()
    return times / (time.perf_counter() - began)


def pgqueuer(url: str, single: int, batches: int, batch: int) -> Mapping[str, float]:
    payload = json.dumps({"n": 1}).encode()
    names, payloads, priorities = ["noop"] * batch, [payload] * batch, [0] * batch

    async def store() -> Mapping[str, float]:
        queries = import_module("pgqueuer.queries").Queries(await pgqueuer_driver(url))
        return {
            "single_per_second": await per_second_async(partial(queries.enqueue, "noop", payload, 0), single),
            "batch_per_second": batch
            * await per_second_async(partial(queries.enqueue, names, payloads, priorities), batches),
        }

    return run(store())


def bare(url: str, single: int, batches: int, batch: int) -> Mapping[str, float]:
    payload = json.dumps({"n": 1})
    with psycopg.connect(url, autocommit=True) as connection:
        return {
            "single_per_second": per_second(
                lambda: connection.execute("INSERT INTO jobs (payload) VALUES (%s)", (payload,)), single
            ),
            "batch_per_second": batch
            * per_second(
                lambda: connection.execute(
                    "INSERT INTO jobs (payload) SELECT unnest(%s::text[])::jsonb", ([payload] * batch,)
                ),
                batches,
            ),
        }


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    name, url, *counts = sys.argv[1:]
    known = {
        "ours": ours,
        "library": library,
        "submit_async": submit_async,
        "function": function,
        "pgqueuer": pgqueuer,
        "bare": bare,
    }
    print(json.dumps(known[name](url, *map(int, counts))))
