"""Handlers that the tests of `dilamme.testing` run."""

import os
from typing import Any

import psycopg

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
    with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
        for name in payload["names"]:
            dilamme.submit(connection, "greet", {"name": name})
