"""The meaning of PostgreSQL's errors to a caller: a database to wait for, or one to migrate."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from dilamme.domain.errors import DatabaseReadOnly, DatabaseUnavailable, DilammeError, OutcomeUnknown, SchemaError

_NOT_MIGRATED = (
    psycopg.errors.InvalidSchemaName,
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedFunction,
)
# OperationalError: no connection, too many connections, a timeout of ours, a shutdown. The other: a transaction that was
# idle for too long.
_UNAVAILABLE = (psycopg.OperationalError, psycopg.errors.IdleInTransactionSessionTimeout)


def meaning(error: Exception) -> Exception:
    """An error of PostgreSQL's as one of ours, without its DETAIL and CONTEXT: these may quote a row's contents.

    Any other error is returned as it is.
    """
    if isinstance(error, _NOT_MIGRATED):
        return SchemaError("the database has not been migrated: run the migrate function")
    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
        return OutcomeUnknown(_primary_message(error))  # no answer from PostgreSQL, only a lost connection
    if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
        return DatabaseReadOnly(_primary_message(error))
    if isinstance(error, _UNAVAILABLE):
        return DatabaseUnavailable(_primary_message(error))
    return DilammeError(_primary_message(error)) if isinstance(error, psycopg.Error) else error


@contextmanager
def migrated() -> Iterator[None]:
    """For a caller's own connection: a missing schema raises `SchemaError`, with PostgreSQL's error as its cause.

    Every other error stays PostgreSQL's: the caller decides whether to repeat the transaction.
    """
    try:
        yield
    except _NOT_MIGRATED as error:
        raise meaning(error) from error


def _primary_message(error: Exception) -> str:
    if isinstance(error, psycopg.Error) and error.diag.message_primary:
        return error.diag.message_primary
    return (str(error).strip() or type(error).__name__).splitlines()[0]
