"""Connections, transactions, and the repetition of a use case after a conflict of two transactions.

Nothing here outlives a transaction (ARCHITECTURE, invariant 12): no session SET, no named prepared statement, no LISTEN.
Otherwise a transaction pooler could not stand in between.
"""

import functools
import select
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import Any, ParamSpec, TypeVar

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap
from psycopg.pq import TransactionStatus
from psycopg.rows import RowFactory, class_row, dict_row, tuple_row
from psycopg.types.datetime import TimestamptzBinaryLoader, TimestamptzLoader

from dilamme.domain.errors import ConfigurationError, DatabaseUnavailable
from dilamme.store.address import NOT_POSTGRESQLS, misspelling
from dilamme.store.arrays import TextArray, TextArrayDumper, UuidArray, UuidArrayDumper
from dilamme.store.session_settings import AT_START, ISOLATION, LIMITS, ROLE_PREFIX
from dilamme.store.sql_blocks import sql

Row = dict[str, Any]
Connection = psycopg.Connection[Any]
AsyncConnection = psycopg.AsyncConnection[Any]
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

# A silent server is noticed in about 20 s instead of the kernel's two hours. No start-up `options`: RDS Proxy and
# PgBouncer refuse them.
_CONNECT = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 20_000,
    "application_name": "dilamme",
    **AT_START,
}
_UTC_NAMES = (b"UTC", b"Etc/UTC")  # the usual ones: psycopg's own loaders, in C, suffice for these
_CONFLICTS = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)
_REPEATS_MAX = 5


def connect(conninfo: str, *, autocommit: bool = True) -> Connection:
    """A connection for the functions and for handlers: by default autocommit, and no server-side prepared statements.

    Prepared statements would get generic plans, and PgBouncer refuses them.

    Raises:
        ConfigurationError: ``conninfo`` is no connection string.
        DatabaseUnavailable: PostgreSQL did not answer, or refused us.
    """
    try:
        connection = psycopg.connect(conninfo, autocommit=autocommit, prepare_threshold=None, **_CONNECT)  # type: ignore[arg-type]
    except psycopg.OperationalError as error:
        if sentence := misspelling(conninfo):
            raise DatabaseUnavailable(f"the database does not answer: {sentence}") from None
        first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DatabaseUnavailable(f"the database does not answer: {first_line}") from error
    except psycopg.ProgrammingError:  # its text quotes the conninfo, and so the password
        raise ConfigurationError(NOT_POSTGRESQLS) from None
    connection.isolation_level = ISOLATION
    return connection


@contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """A transaction of our own, with the limits that keep a stuck one from holding the others up."""
    with connection.transaction():
        if not _role_carries_limits(connection):
            connection.execute(LIMITS)
        yield


@contextmanager
def one_statement(connection: Connection) -> Iterator[None]:
    """`transaction` for a single statement on a connection of `connect`'s, which is in autocommit mode.

    If the role carries the limits, no transaction is opened: two round trips fewer.
    """
    if _role_carries_limits(connection):
        yield
    else:
        with transaction(connection):
            yield


def _role_carries_limits(connection: Connection) -> bool:
    return connection.info.user.startswith(ROLE_PREFIX)


def is_idle_and_quiet(connection: Connection) -> bool:
    """Is it in no transaction, with no unread input? Unread input comes when the server hangs up."""
    if connection.info.transaction_status != TransactionStatus.IDLE:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return not poll.poll(0)


def limit_lock_wait(connection: Connection, seconds: float) -> None:
    """Limits each wait for a lock in this transaction; a longer one raises `psycopg.errors.LockNotAvailable`."""
    cursor(connection, tuple_row).execute(
        "SELECT set_config('lock_timeout', %s, true)", (f"{round(seconds * 1000)}ms",)
    )


@contextmanager
def atomic(connection: Connection, *, one_statement: bool = False) -> Iterator[None]:
    """All or nothing, inside the caller's transaction where one is open or about to be.

    psycopg's own block would *commit* at its end on a connection that is not in autocommit mode and has not begun. The
    caller's data, which is stored later, would then be in another transaction than the job. ``one_statement`` says that the
    block sends no more than one: in autocommit mode that is a transaction by itself, which spares two round trips.

    Raises:
        ConfigurationError: the connection's ``client_encoding`` is not UTF8: text would be stored as other text, or not at all.
    """
    if _is_about_to_begin(connection):
        cursor(connection, tuple_row).execute("SELECT")
    if one_statement and connection.info.transaction_status == TransactionStatus.IDLE:
        yield
    else:
        with connection.transaction():
            yield


@asynccontextmanager
async def atomic_async(connection: AsyncConnection) -> AsyncIterator[None]:
    """`atomic` for one statement, on an async connection."""
    if _is_about_to_begin(connection):
        await _AsyncCursor(connection, row_factory=tuple_row).execute("SELECT")
    if connection.info.transaction_status == TransactionStatus.IDLE:
        yield
    else:
        async with connection.transaction():
            yield


def _is_about_to_begin(connection: Connection | AsyncConnection) -> bool:
    encoding = connection.info.parameter_status("client_encoding")
    if encoding not in (None, "UTF8"):  # None: the connection is closed, which psycopg says better
        raise ConfigurationError(
            f"the connection speaks {encoding}, in which not every payload can be sent: connect with client_encoding='UTF8'"
        )
    return not connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE


@contextmanager
def apart(connection: Connection) -> Iterator[None]:
    """For a look whose failure must leave the caller's transaction as it was; where none is open, it is a statement alone."""
    if connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE:
        yield
    else:
        with atomic(connection):
            yield


def repeat_on_conflict(use_case: Callable[P, R]) -> Callable[P, R]:
    """Repeats a use case that PostgreSQL ended to break a deadlock or a serialization conflict (40P01, 40001)."""

    @functools.wraps(use_case)
    def repeated(*args: P.args, **kwargs: P.kwargs) -> R:
        for turn in range(_REPEATS_MAX):
            try:
                return use_case(*args, **kwargs)
            except _CONFLICTS:
                time.sleep(0.01 * 2**turn)
        return use_case(*args, **kwargs)

    return repeated


def cursor(connection: Connection, row_factory: RowFactory[T]) -> psycopg.Cursor[T]:
    """A cursor of our own class, whatever cursors and adapters a caller's connection has.

    A cursor of Django's binds on the client and knows no binary rows. Another application's connection may give a
    ``uuid`` as text.
    """
    return _Cursor(connection, row_factory=row_factory)


class _Cursor(psycopg.Cursor[T]):
    @property
    def adapters(self) -> AdaptersMap:
        return _adapters(self._conn)


class _AsyncCursor(psycopg.AsyncCursor[T]):
    @property
    def adapters(self) -> AdaptersMap:
        return _adapters(self._conn)


def _adapters(connection: Connection | AsyncConnection) -> AdaptersMap:
    return _ADAPTERS if connection.pgconn.parameter_status(b"TimeZone") in _UTC_NAMES else _ADAPTERS_TO_UTC


class _UtcLoader(TimestamptzLoader):
    """Converts to UTC: the difference of two times in a local zone is an hour wrong across a change of its clocks."""

    def load(self, data: Buffer) -> datetime:
        return super().load(data).astimezone(UTC)


class _UtcBinaryLoader(TimestamptzBinaryLoader):
    def load(self, data: Buffer) -> datetime:
        return super().load(data).astimezone(UTC)


_ADAPTERS = AdaptersMap(psycopg.adapters)
_ADAPTERS.register_dumper(UuidArray, UuidArrayDumper)
_ADAPTERS.register_dumper(TextArray, TextArrayDumper)
_ADAPTERS_TO_UTC = AdaptersMap(_ADAPTERS)
_ADAPTERS_TO_UTC.register_loader("timestamptz", _UtcLoader)
_ADAPTERS_TO_UTC.register_loader("timestamptz", _UtcBinaryLoader)


def fetch(connection: Connection, name: str, parameters: Mapping[str, Any] | None = None) -> list[Row]:
    """Runs the block called ``name`` and returns its rows.

    They come in PostgreSQL's binary format: it is faster, and the text of a time depends on the server's DateStyle.
    """
    return cursor(connection, dict_row).execute(sql(name), parameters, binary=True).fetchall()


async def fetch_async(connection: AsyncConnection, name: str, parameters: Mapping[str, Any]) -> list[Row]:
    """`fetch` on an async connection."""
    cursor = await _AsyncCursor(connection, row_factory=dict_row).execute(sql(name), parameters, binary=True)
    return await cursor.fetchall()


def fetch_as(connection: Connection, made: type[T], name: str, parameters: Mapping[str, Any] | None = None) -> list[T]:
    """`fetch`, each row as an instance of ``made``, whose fields are the block's columns."""
    return cursor(connection, class_row(made)).execute(sql(name), parameters, binary=True).fetchall()


def run(connection: Connection, name: str, parameters: Mapping[str, Any] | None = None) -> int:
    """Runs the block called ``name`` and returns how many rows it touched."""
    return cursor(connection, tuple_row).execute(sql(name), parameters).rowcount


def fetch_tuples(connection: Connection, name: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """`fetch` for the hot path: rows as tuples, in the order of the block's columns."""
    return cursor(connection, tuple_row).execute(sql(name), parameters, binary=True).fetchall()
