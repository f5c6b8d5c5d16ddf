"""The one database connection of a function's process, checked at the start of each invocation."""

import os

import psycopg

from dilamme.domain.errors import ConfigurationError
from dilamme.store.connection import Connection, connect
from dilamme.usecases import migrate

_connection: Connection | None = None
_schema_is_known = False


def connection() -> Connection:
    """A connection that answers, to a schema that this code knows.

    Between two invocations the process is frozen and the server may have hung up: one look and one reconnect here,
    before anything is written, is what keeps a write from being doubled later.

    Raises:
        ConfigurationError: DATABASE_URL is not set.
        DatabaseUnavailable: PostgreSQL does not answer.
        SchemaError: the schema is not one that this code knows.
    """
    global _connection, _schema_is_known
    if _connection is None or not _answers(_connection):
        _connection = reconnect()
    if not _schema_is_known:
        migrate.check(_connection)
        _schema_is_known = True
    return _connection


def reconnect() -> Connection:
    """A new connection in the place of the old one, without a look at the schema."""
    global _connection
    if _connection is not None:
        _connection.close()
    _connection = connect(database_url())
    return _connection


def database_url() -> str:
    """Where the database is.

    Raises:
        ConfigurationError: DATABASE_URL is not set.
    """
    try:
        return os.environ["DATABASE_URL"]
    except KeyError:
        raise ConfigurationError("DATABASE_URL is not set: give the PostgreSQL to use") from None


def _answers(connection: Connection) -> bool:
    if connection.closed:
        return False
    try:
        connection.rollback()  # a handler that raised in mid-transaction must not bequeath it
        connection.execute("SELECT 1")
    except psycopg.Error:
        return False
    return True
