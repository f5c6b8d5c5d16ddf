"""How users' own code looks to a type checker: `make check` reads this file, and nothing runs it.

What is right must pass mypy --strict. What is wrong carries the error that mypy must find: strict mode warns of an ignore
that nothing needs, so a type that grows too loose fails here too.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, assert_type
from uuid import UUID

import psycopg

import dilamme
from dilamme import (
    ConfigurationError,
    Conflict,
    Context,
    DilammeError,
    Fail,
    Fault,
    InvalidInput,
    Retry,
    SchemaError,
    Snooze,
    TooLarge,
    job,
    submit,
    submit_async,
    submit_many,
    wake,
)


@job("email.send", max_attempts=5, timeout_seconds=30, backoff_base_seconds=1.5, backoff_cap_seconds=600)
def send(payload: dict[str, str], context: Context) -> str:
    assert_type(context.job_id, UUID)
    assert_type(context.type, str)
    assert_type(context.attempt, int)
    assert_type(context.max_attempts, int)
    assert_type(context.deadline, datetime)
    assert_type(context.remaining_seconds(), float)
    assert_type(context.dependency_results, Mapping[UUID, Any])
    context.logger.info("to %s", payload["to"])
    context.attempt = 2  # type: ignore[misc]
    return "sent"


@job("email.send_later")
async def send_later(payload: dict[str, str], context: Context) -> None:
    if context.attempt == 1:
        raise Retry("busy", after=60)
    raise Snooze(3600) if payload else Fail("nothing to send")


@job("email")  # type: ignore[arg-type]
def without_a_context(payload: dict[str, str]) -> None:
    """Refused: a handler gets its payload and a context."""


@job(max_attempts=3)  # type: ignore[call-arg]
def without_a_type(payload: Any, context: Context) -> None: ...


# The decorator keeps a handler's type, so a test may call the handler as it stands.
_sync: Callable[[dict[str, str], Context], str] = send
_async: Callable[[dict[str, str], Context], Awaitable[None]] = send_later
_wrong: Callable[[dict[str, str], Context], int] = send  # type: ignore[assignment]


def enqueue(connection: psycopg.Connection[dict[str, Any]], other: psycopg.AsyncConnection[Any]) -> None:
    first = submit(
        connection,
        "email.send",
        {"to": "ann@example.org"},
        priority=1,
        scheduled_at=datetime.now(UTC),
        interval_seconds=60,
        dependency_ids=[UUID(int=1)],
        max_attempts=3,
        on_dependency_failure="cancel",
        idempotency_key="order 17",
    )
    assert_type(first, UUID)
    assert_type(submit_many(connection, ({"type": name} for name in ("a", "b")), idempotency_key="k"), list[UUID])
    wake()
    wake(connection)
    submit(other, "email.send")  # type: ignore[arg-type]
    submit(connection, "email.send", {}, 1)  # type: ignore[call-arg]
    submit(connection, "email.send", priority="high")  # type: ignore[arg-type]
    submit(connection, "email.send", dependency_ids=[str(first)])  # type: ignore[list-item]
    submit(connection, "email.send", delay=5)  # type: ignore[call-arg]
    submit_many(connection, [{"type": "email.send"}], "key")  # type: ignore[call-arg]
    submit_many(connection, {"type": "email.send"})  # type: ignore[dict-item]
    Retry(60)  # type: ignore[arg-type]
    Snooze("soon")  # type: ignore[arg-type]


async def enqueue_async(connection: psycopg.AsyncConnection[dict[str, Any]], other: psycopg.Connection[Any]) -> None:
    first = await submit_async(
        connection,
        "email.send",
        {"to": "ann@example.org"},
        priority=1,
        scheduled_at=datetime.now(UTC),
        interval_seconds=60,
        dependency_ids=[UUID(int=1)],
        max_attempts=3,
        on_dependency_failure="cancel",
        idempotency_key="order 17",
    )
    assert_type(first, UUID)
    await submit_async(other, "email.send")  # type: ignore[arg-type]
    await submit_async(connection, "email.send", {}, 1)  # type: ignore[call-arg]
    await submit_async(connection, "email.send", priority="high")  # type: ignore[arg-type]


def errors(connection: psycopg.Connection[Any]) -> str:
    try:
        submit(connection, "email.send")
    except TooLarge as error:
        refused: InvalidInput = error
        return refused.faults[0].pointer
    except InvalidInput as error:
        assert_type(error.faults, tuple[Fault, ...])
        return error.faults[0].detail
    except (Conflict, SchemaError, ConfigurationError) as error:
        known: DilammeError = error
        return str(known)
    return dilamme.__version__


assert_type(dilamme.__version__, str)
