"""A statement held in its middle: after its snapshot was taken, before it has locked a row."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dilamme.store.connection import Connection

_LOCK = 4711


@contextmanager
def pause(holder: Connection, paused: Connection) -> Iterator[Callable[[], None]]:
    """The next statement of ``paused`` stops where it first asks for the time, until the yielded function is called.

    That is at the first row of a scan, after the snapshot: what others commit meanwhile is what the statement must find
    out about when it locks. VOLATILE, since a STABLE clock is asked by the planner too, before the snapshot that counts.
    """
    holder.execute(
        "CREATE OR REPLACE FUNCTION dilamme.clock() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$ BEGIN"
        f" IF pg_backend_pid() = {paused.info.backend_pid} THEN PERFORM pg_advisory_xact_lock_shared({_LOCK}); END IF;"
        " RETURN statement_timestamp(); END $$"
    )
    holder.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))

    def resume() -> None:
        holder.execute("SELECT pg_advisory_unlock(%s)", (_LOCK,))

    try:
        yield resume
    finally:
        holder.execute("SELECT pg_advisory_unlock_all()")
