"""The one database connection of a function's process, checked at the start of each invocation."""

import time

import psycopg

from dilamme.aws import database
from dilamme.domain.errors import DatabaseUnavailable
from dilamme.store.connection import Connection, connect, is_idle_and_quiet
from dilamme.usecases.migrate import check

# Under load the look would be one of the three statements of a POST. HikariCP spares it for as long.
FRESH_SECONDS = 0.5

_connection: Connection | None = None
_used_at = 0.0  # by the wall clock: a monotonic one may stand still while the process is frozen
_schema_is_known = False


def connection() -> Connection:
    """A connection that answers, to a schema that this code knows.

    Between two invocations the process is frozen and the server may have hung up: one look and one reconnect here,
    before anything is written, is what keeps a write from being doubled later. Within `FRESH_SECONDS` of the last
    invocation it is enough that the server has not hung up.

    Raises:
        ConfigurationError: nothing says where the database is.
        DatabaseUnavailable: PostgreSQL does not answer.
        SchemaError: the schema is not one that this code knows.
    """
    global _connection, _schema_is_known, _used_at
    if _connection is None or not _answers(_connection):
        _connection = reconnect()
    _used_at = time.time()
    if not _schema_is_known:
        check(_connection)
        _schema_is_known = True
    return _connection


def reconnect() -> Connection:
    """A new connection in the place of the old one, without a look at the schema."""
    global _connection
    if _connection is not None:
        _connection.close()
    _connection = open_connection()
    return _connection


def open_connection() -> Connection:
    """A new connection. A password that is refused may have been rotated: it is fetched once more.

    Raises:
        ConfigurationError, DatabaseUnavailable: as `connection`.
    """
    try:
        return connect(database_url())
    except DatabaseUnavailable:
        # Whatever the reason: libpq gives no SQLSTATE for a login that failed, and its text is in the server's language.
        if not database.secret_has_changed():
            raise
        return connect(database_url())


def database_url() -> str:
    """Where the database is, and how to log in to it (`dilamme.aws.database.conninfo`).

    Raises:
        ConfigurationError: nothing says where the database is.
    """
    return database.conninfo()


def _answers(connection: Connection) -> bool:
    if connection.closed:
        return False
    if 0 <= time.time() - _used_at < FRESH_SECONDS and is_idle_and_quiet(connection):
        return True
    try:
        connection.rollback()  # a handler that raised in mid-transaction must not bequeath it
        connection.execute("SELECT 1")
    except psycopg.Error:
        return False
    return True
