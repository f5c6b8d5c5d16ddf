"""The one database connection of a function's process, checked at the start of each invocation."""

import time

import psycopg

from dilamme.aws import database
from dilamme.domain.errors import DatabaseUnavailable
from dilamme.store.connection import Connection, connect, is_idle_and_quiet
from dilamme.usecases.migrate import check

# Under load the check would be one of three statements of a POST. HikariCP omits it for as long.
FRESH_SECONDS = 0.5
# A schema that no longer serves this code is refused within a minute; a look is a statement.
SCHEMA_SECONDS = 30

_connection: Connection | None = None
# By the wall clock: a monotonic clock may stand still while the process is frozen.
_used_at = 0.0
_schema_seen_at = 0.0


def connection() -> Connection:
    """A connection that answers, to a schema that this code knows; it takes writes, if any new one does.

    Between two invocations the process is frozen, and the server may have hung up. So the connection is checked here, and
    replaced if need be, before anything is written: a repetition after a lost write could write twice. Within
    `FRESH_SECONDS` of the last invocation it suffices that the server has not hung up.

    Raises:
        ConfigurationError: no variable says where the database is.
        DatabaseUnavailable: PostgreSQL does not answer.
        SchemaError: the schema is not one that this code knows.
    """
    global _connection, _schema_seen_at, _used_at
    if _connection is None or not _takes_writes(_connection):
        _connection = reconnect()
    _used_at = time.time()
    if not 0 <= _used_at - _schema_seen_at < SCHEMA_SECONDS:
        check(_connection)
        _schema_seen_at = _used_at
    return _connection


def disconnect() -> None:
    """Gives up the connection, since it takes no writes: the next invocation opens another."""
    if _connection is not None:
        _connection.close()


def reconnect() -> Connection:
    """Replaces the connection by a new one; the schema is not checked again."""
    global _connection
    disconnect()
    _connection = open_connection()
    return _connection


def open_connection(*, autocommit: bool = True) -> Connection:
    """A new connection. A refused password may have been rotated, so it is fetched again.

    Raises:
        ConfigurationError, DatabaseUnavailable: as `connection`.
    """
    try:
        return connect(database_url(), autocommit=autocommit)
    except DatabaseUnavailable:
        # For any reason: libpq gives no SQLSTATE for a failed login, and its text is in the server's language.
        if not database.secret_has_changed():
            raise
        return connect(database_url(), autocommit=autocommit)


def database_url() -> str:
    """The connection string, with the login (`dilamme.aws.database.conninfo`).

    Raises:
        ConfigurationError: no variable says where the database is.
    """
    return database.conninfo()


def _takes_writes(connection: Connection) -> bool:
    """Does it answer, and take writes? A session that was opened during a failover never does."""
    if connection.closed:
        return False
    if 0 <= time.time() - _used_at < FRESH_SECONDS and is_idle_and_quiet(connection):
        return True
    try:
        connection.rollback()  # an invocation that failed in a transaction must not leave it to the next one
        return connection.execute("SHOW transaction_read_only").fetchone() == ("off",)
    except psycopg.Error:
        return False
