"""Two at once: a step in a thread of its own, and the certainty that it waits for a lock."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from dilamme.store.connection import Connection
from tests.support import pooler
from tests.support.waiting import wait_until

T = TypeVar("T")


@contextmanager
def meanwhile(step: Callable[[], T]) -> Iterator[Future[T]]:
    """Runs ``step`` beside the block; its result or error is the future's."""
    with ThreadPoolExecutor(max_workers=1) as executor:
        yield executor.submit(step)


def wait_until_blocked(observer: Connection, waiting: Connection) -> None:
    """Returns once ``waiting`` stands in line for a lock that somebody else holds."""
    wait_until(lambda: is_blocked(observer, waiting), f"backend {waiting.info.backend_pid} waits for a lock")


def is_blocked(observer: Connection, waiting: Connection) -> bool:
    """Does ``waiting`` stand in line for a lock?"""
    # A pooler does not tell whose backend is whose: behind one, it is any of this database's.
    found = observer.execute(
        "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND (pid = %s OR %s)"
        " AND cardinality(pg_blocking_pids(pid)) > 0)",
        (waiting.info.backend_pid, pooler.wanted()),
    ).fetchone()
    return bool(found and found[0])


def cut_connections(observer: Connection) -> int:
    """Terminates every other client's connection to this database (vacuum's stays) and sees them gone; how many there were."""
    found = observer.execute(
        "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
    ).fetchone()
    assert found is not None
    count: int = found[0]
    return count
