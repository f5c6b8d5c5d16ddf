"""The library: enqueue from Python, in the caller's own transaction. The same code that the API runs."""

import builtins
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg

from dilamme import settings
from dilamme.domain.errors import ConfigurationError, Fault, InvalidInput
from dilamme.domain.patterns import IDEMPOTENCY_KEY_PATTERN, IN_WORDS, follows
from dilamme.session import open_connection
from dilamme.store.faults import migrated
from dilamme.usecases.submit import submit_here, submit_here_async
from dilamme.wire.requests import BATCH_JOBS_MAX, BatchSubmission, Submission, parse


def submit(
    connection: psycopg.Connection[Any],
    type: str,  # noqa: A002  the field's name everywhere else
    payload: Any = None,
    *,
    priority: int = 2,
    scheduled_at: datetime | None = None,
    interval_seconds: int | None = None,
    dependency_ids: Sequence[UUID] = (),
    max_attempts: int | None = None,
    on_dependency_failure: str = "wait",
    idempotency_key: str | None = None,
    payload_version: int | None = None,
) -> UUID:
    """Stores a job in the transaction that ``connection`` is in, so that it exists exactly if the caller's data does.

    ``payload`` is any JSON up to 256 KiB; an empty object when left out. If workers have published a schema of its type, it
    must fit that; ``payload_version`` says that it is of another version than theirs. On a connection in autocommit mode, outside a
    transaction, it is stored at once. Keep the transaction short: while it is open, the jobs in ``dependency_ids``
    cannot be completed.

    Returns:
        The job's id; with an ``idempotency_key`` that was used before for the same job, the first one's.

    Raises:
        dilamme.InvalidInput: a value is wrong; ``.faults`` name the fields. Nothing was stored.
        dilamme.Conflict: the idempotency key stands for another job.
        dilamme.SchemaError: the database has not been migrated.
        dilamme.ConfigurationError: the connection's ``client_encoding`` is not UTF8.
        TypeError: ``connection`` is none of psycopg 3's, or an async one.
        psycopg.Error: whatever else PostgreSQL says.
    """
    fields = {
        "type": type,
        "payload": payload,
        "priority": priority,
        "scheduled_at": scheduled_at,
        "interval_seconds": interval_seconds,
        "dependency_ids": dependency_ids,
        "max_attempts": max_attempts,
        "on_dependency_failure": on_dependency_failure,
        "payload_version": payload_version,
    }
    return submit_one(connection, fields, idempotency_key)


def submit_one(
    connection: psycopg.Connection[Any], fields: Mapping[str, Any], idempotency_key: str | None = None
) -> UUID:
    """`submit`, with the job's fields as a mapping."""
    job = parse(Submission, _as_sent(fields))
    _check_connection(connection)
    _check_key(idempotency_key)
    vouched = [0] if isinstance(fields, Vouched) else []
    with _named_as_here(), migrated():
        stored = submit_here(
            connection, [job], idempotency_key, single=True, vouched=vouched, is_checked=_checks_payloads
        )
    return stored.ids[0]


async def submit_async(
    connection: psycopg.AsyncConnection[Any],
    type: str,  # noqa: A002  as in `submit`
    payload: Any = None,
    *,
    priority: int = 2,
    scheduled_at: datetime | None = None,
    interval_seconds: int | None = None,
    dependency_ids: Sequence[UUID] = (),
    max_attempts: int | None = None,
    on_dependency_failure: str = "wait",
    idempotency_key: str | None = None,
    payload_version: int | None = None,
) -> UUID:
    """`submit` for psycopg's AsyncConnection: the same arguments, result and errors, by the SQL function `dilamme.submit`.

    The connection's role needs EXECUTE on that function, and no right on the tables. An integer beyond 1.8e308 in the payload,
    which `submit` takes, is refused here. A schema that workers have published of the type is not held against the payload: it is
    checked when the job runs.

    Raises:
        dilamme.InvalidInput, dilamme.Conflict, dilamme.SchemaError, dilamme.ConfigurationError, psycopg.Error: as `submit`.
        TypeError: ``connection`` is no AsyncConnection of psycopg 3's.
    """
    fields = {
        "type": type,
        "payload": payload,
        "priority": priority,
        "scheduled_at": scheduled_at,
        "interval_seconds": interval_seconds,
        "dependency_ids": dependency_ids,
        "max_attempts": max_attempts,
        "on_dependency_failure": on_dependency_failure,
        "payload_version": payload_version,
    }
    job = parse(Submission, _as_sent(fields))
    if not isinstance(connection, psycopg.AsyncConnection):
        raise TypeError(
            f"submit_async needs a psycopg.AsyncConnection (psycopg 3), not {builtins.type(connection).__qualname__}. With a"
            " psycopg.Connection: dilamme.submit. With asyncpg: SELECT dilamme.submit(…). In SQLAlchemy, on postgresql+psycopg:"
            " (await (await session.connection()).get_raw_connection()).driver_connection"
        )
    _check_key(idempotency_key)
    with migrated():
        return await submit_here_async(connection, job, idempotency_key)


def submit_many(
    connection: psycopg.Connection[Any], jobs: Iterable[Mapping[str, Any]], *, idempotency_key: str | None = None
) -> list[UUID]:
    """Stores up to 1,000 jobs, all or nothing, as `submit` does one; their ids, in order.

    Args:
        connection: as in `submit`.
        jobs: the arguments of `submit` as mappings; a job may also have a ``ref``, and ``dependency_refs`` to others.
        idempotency_key: covers the batch.

    Raises:
        dilamme.InvalidInput: as in `submit`, with the job's place in the pointer; or jobs wait for each
            other, or have more than 50,000 dependencies together.
        dilamme.Conflict: the idempotency key stands for another batch.
        dilamme.SchemaError, dilamme.ConfigurationError, psycopg.Error: as in `submit`.
    """
    given = list(jobs)
    batch = [parse(BatchSubmission, _as_sent(fields, place), place) for place, fields in enumerate(given)]
    if not 1 <= len(batch) <= BATCH_JOBS_MAX:
        raise InvalidInput(Fault("/jobs", f"must hold 1 to {BATCH_JOBS_MAX} jobs, not {len(batch)}"))
    _check_connection(connection)
    _check_key(idempotency_key)
    with _named_as_here(), migrated():
        vouched = {place for place, fields in enumerate(given) if isinstance(fields, Vouched)}
        return submit_here(connection, batch, idempotency_key, vouched=vouched, is_checked=_checks_payloads).ids


def connect(*, autocommit: bool = False) -> psycopg.Connection[Any]:
    """A psycopg connection to the database that holds the jobs, for the application's own tables beside them.

    In a handler it is the worker's login: on AWS a fresh token or the secret, in `dilamme dev` and in tests the URL. So the
    role ``dilamme_worker`` needs rights on those tables. Elsewhere it is DATABASE_URL. Its statements are never prepared on the
    server, so that it may lead through a pooler. Close it, best by ``with dilamme.connect() as connection``, which commits.

    Raises:
        dilamme.ConfigurationError: no variable says where the database is, or it is no connection string.
        dilamme.DatabaseUnavailable: PostgreSQL does not answer.
    """
    return open_connection(autocommit=autocommit)


def wake(connection: psycopg.Connection[Any] | None = None) -> None:
    """Starts what has just been committed, at once; without it, the next tick of the scheduler does.

    Call it after the commit: a worker that comes before sees nothing. It needs the names of the functions in
    DILAMME_WORKER_FUNCTION and DILAMME_SCHEDULER_FUNCTION, the right to invoke them, and a database connection: the one
    given, which must not be in a transaction, or a new one to DATABASE_URL.

    Raises:
        dilamme.ConfigurationError: it is not known what to invoke, the connection is in a transaction, or boto3 is not
            installed (``pip install 'dilamme[aws]'``).
        dilamme.SchemaError, psycopg.Error: as in `submit`.
    """
    try:
        from dilamme.usecases import wake as usecase  # noqa: PLC0415  whoever never wakes does not import boto3
    except ModuleNotFoundError as error:
        if error.name not in ("boto3", "botocore"):
            raise
        raise ConfigurationError(
            "wake() invokes a Lambda function, for which boto3 is not installed: pip install 'dilamme[aws]'"
        ) from error
    loaded = settings.load()
    for name, function in (("worker", loaded.worker_function), ("scheduler", loaded.scheduler_function)):
        if not function:
            settings.load.cache_clear()  # the application may set it, and call again
            raise ConfigurationError(
                f"DILAMME_{name.upper()}_FUNCTION is not set: give the name of the {name} function"
            )
    if connection is None:
        with closing(open_connection()) as own, migrated():
            usecase.wake(own, loaded, due=True, later=True)
        return
    _check_connection(connection)
    if connection.closed:
        raise psycopg.OperationalError("the connection is closed")
    if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        raise ConfigurationError(
            "wake() was called inside a transaction: commit first (or roll back one that has failed), or the worker sees"
            " nothing"
        )
    kept, connection.autocommit = connection.autocommit, True  # an invitation must be there before its worker is
    try:
        with migrated():
            usecase.wake(connection, loaded, due=True, later=True)
    finally:
        connection.autocommit = kept


class Vouched(dict[str, Any]):
    """The arguments of `submit` for a job whose handler's own annotation has checked the payload, which may be None."""


def _checks_payloads() -> bool:
    return settings.load().check_payloads


def _as_sent(fields: Mapping[str, Any], place: int | None = None) -> dict[str, Any]:
    """As it would come over HTTP: any iterable of dependencies as a list, and no payload for None."""
    if not isinstance(fields, Mapping):
        raise InvalidInput(Fault(f"/jobs/{place}", "must be a mapping of the arguments of submit"))
    sent = dict(fields)
    for name in ("dependency_ids", "dependency_refs"):
        if isinstance(sent.get(name), Iterable) and not isinstance(sent[name], str):
            sent[name] = list(sent[name])
    if sent.get("payload") is None and not isinstance(fields, Vouched):
        sent.pop("payload", None)
    return sent


@contextmanager
def _named_as_here() -> Iterator[None]:
    """Faults found beyond `parse` name fields as JSON does; a caller in Python knows them by our arguments' names."""
    try:
        yield
    except InvalidInput as error:
        faults = []
        for fault in error.faults:
            named, payload, within = fault.pointer.partition("/payload/")  # what is within is the payload's own
            snake = re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", named)
            faults.append(Fault(snake + payload + within, fault.detail))
        raise type(error)(*faults) from None


def _check_connection(connection: object) -> None:
    if not isinstance(connection, psycopg.Connection):
        raise TypeError(
            "For a psycopg.AsyncConnection: await dilamme.submit_async(connection, …), a job at a time"
            if isinstance(connection, psycopg.AsyncConnection)
            else f"Dilamme needs a psycopg.Connection (psycopg 3, not async), not {type(connection).__qualname__}. In Django:"
            " connection.ensure_connection(), then connection.connection; in SQLAlchemy, on postgresql+psycopg:"
            " session.connection().connection.driver_connection"
        )


def _check_key(key: object) -> None:
    if key is not None and not (isinstance(key, str) and follows(IDEMPOTENCY_KEY_PATTERN, key)):
        raise InvalidInput(Fault("/idempotency_key", f"must be {IN_WORDS[IDEMPOTENCY_KEY_PATTERN]}"))
