"""The meaning of PostgreSQL's errors: what is done about each SQLSTATE, and what a caller is told.

``BY_SQLSTATE`` is the one table. The worker, the scheduler and the API read it, so that no error is taken for another: a
settle that PostgreSQL refuses is not a lost connection, and sending the same again would be refused again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

import psycopg

from dilamme.domain.errors import DatabaseReadOnly, DatabaseUnavailable, DilammeError, OutcomeUnknown, SchemaError


class Remedy(Enum):
    """What helps."""

    RECONNECT = "the connection is lost, or useless: open another, then the same again"
    REPEAT = "somebody or something stood in the way: the same again, a little later"
    SPLIT = "this statement was refused for what is in it: in parts, until what is at fault stands alone, and fails"
    GIVE_UP = "the schema, a right or our own code is at fault: no job is, and nothing will help until somebody acts"


# The longest prefix counts: https://www.postgresql.org/docs/current/errcodes-appendix.html
BY_SQLSTATE = {
    "": Remedy.GIVE_UP,
    "08": Remedy.RECONNECT,  # connection exception
    "25006": Remedy.RECONNECT,  # read-only: after a failover the session stays so, a new one may write
    "25P03": Remedy.RECONNECT,  # the session was ended, since its transaction was idle,
    "25P04": Remedy.RECONNECT,  # or took too long
    "57P": Remedy.RECONNECT,  # shutdown, crash, starting up, database dropped, session idle for too long
    "53300": Remedy.RECONNECT,  # too many connections, said at the login
    "40": Remedy.REPEAT,  # deadlock, serialization
    "53": Remedy.REPEAT,  # disk full, out of memory
    "55": Remedy.REPEAT,  # locked, in use
    "57": Remedy.REPEAT,  # statement timeout
    "58": Remedy.REPEAT,  # the system below PostgreSQL
    "53200": Remedy.SPLIT,  # out of memory: most likely for this statement,
    "54": Remedy.SPLIT,  # as a limit of the program
    "21": Remedy.SPLIT,  # cardinality
    "22": Remedy.SPLIT,  # data
    "23": Remedy.SPLIT,  # constraints
    "44": Remedy.SPLIT,  # a view's CHECK OPTION
    "09": Remedy.SPLIT,  # a trigger of the user's,
    "27": Remedy.SPLIT,
    "38": Remedy.SPLIT,
    "39": Remedy.SPLIT,
    "P0": Remedy.SPLIT,  # and what it raises
    "XX": Remedy.SPLIT,  # internal error, corrupted data
}


def remedy(error: psycopg.Error) -> Remedy:
    """What helps against an error. One without a SQLSTATE is libpq's: the connection is lost."""
    state = error.sqlstate
    if state is None:
        return Remedy.RECONNECT if isinstance(error, psycopg.OperationalError) else Remedy.GIVE_UP
    return next(BY_SQLSTATE[state[:length]] for length in range(len(state), -1, -1) if state[:length] in BY_SQLSTATE)


_NOT_MIGRATED = (
    psycopg.errors.InvalidSchemaName,
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedFunction,
)


def meaning(error: Exception) -> Exception:
    """An error of PostgreSQL's as one of ours, without its DETAIL and CONTEXT: these may quote a row's contents.

    Any other error is returned as it is.
    """
    if not isinstance(error, psycopg.Error):
        return error
    if isinstance(error, _NOT_MIGRATED):
        return SchemaError("the database has not been migrated: run the migrate function")
    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
        return OutcomeUnknown(_primary_message(error))  # no answer from PostgreSQL, only a lost connection
    if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
        return DatabaseReadOnly(_primary_message(error))
    if remedy(error) in (Remedy.RECONNECT, Remedy.REPEAT):
        return DatabaseUnavailable(_primary_message(error))
    return DilammeError(_primary_message(error))


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
