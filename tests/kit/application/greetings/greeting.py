"""Handlers that the tests of `dilamme.testing` run."""

import os
from typing import Any

import dilamme
from dilamme import Context, Retry, Snooze, job

seen: list[int] = []


@job("greet")
def greet(payload: Any, context: Context) -> Any:
    return f"{os.environ['GREETING']}, {payload['name']}"


@job("greet.flaky")
def flaky(payload: Any, context: Context) -> int:
    if context.attempt <= payload["failures"]:
        raise Retry("not yet")
    return context.attempt


@job("greet.later")
def later(payload: Any, context: Context) -> str:
    if not seen:
        seen.append(1)
        raise Snooze(3600)
    return "at last"


@job("greet.sum")
def add(payload: Any, context: Context) -> int:
    return sum(context.dependency_results.values())


@job("greet.number")
def number(payload: int, context: Context) -> int:
    return payload


@job("greet.many")
def many(payload: Any, context: Context) -> None:
    """Submits further jobs, on a connection of its own."""
    with dilamme.connect() as connection:
        for name in payload["names"]:
            dilamme.submit(connection, "greet", {"name": name})


@job("greet.order")
def order(payload: Any, context: Context) -> int:
    """Writes into the application's own table, and leaves one change uncommitted."""
    with context.connect() as connection:
        connection.execute("INSERT INTO orders VALUES (%s)", [payload["id"]])
    forgotten = context.connect()
    forgotten.execute("INSERT INTO orders VALUES (%s)", [-1])
    connections.append(forgotten)
    return len(context.connections or ())


connections: list[Any] = []
