"""Fetches claims before they are needed, on a second connection, while the first one settles.

A backlog of short jobs keeps both connections busy: with one, the runners would wait for claims while it settles.
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue

import psycopg

from dilamme.domain.errors import DatabaseUnavailable
from dilamme.domain.job import Claim
from dilamme.store.connection import Connection

DEPTH = 2  # with one, the next fetch would wait until the loop, which may be settling, has taken the one before
Fetch = Callable[[Connection], list[Claim]]


class Prefetch:
    """Up to `DEPTH` fetches, one after the other in a thread of its own, which opens its connection for the first one.

    ``arrived`` is called in that thread when a fetch has ended, well or badly.
    """

    def __init__(self, connect: Callable[[], Connection], arrived: Callable[[], None]) -> None:
        self._connect = connect
        self._arrived = arrived
        self._connection: Connection | None = None
        self._asked: SimpleQueue[tuple[Fetch, Future[list[Claim]]] | None] = SimpleQueue()
        self._fetches: deque[Future[list[Claim]]] = deque()
        self._thread: threading.Thread | None = None

    @property
    def under_way(self) -> int:
        """The fetches that have begun and whose claims have not been taken. These may be ours before we know them."""
        return len(self._fetches)

    def begin(self, fetch: Fetch) -> None:
        """Begins a fetch, after those under way."""
        future: Future[list[Claim]] = Future()
        if self._thread is None:
            thread = threading.Thread(target=self._run, daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # the system gives no more threads
                future.set_exception(DatabaseUnavailable(str(error)))
                self._fetches.append(future)
                return
            self._thread = thread
        self._fetches.append(future)
        self._asked.put((fetch, future))

    def take(self, *, wait: bool = False) -> list[Claim] | None:
        """The claims of the fetch that ended first; None while none has.

        Raises:
            DatabaseUnavailable, psycopg.Error: the fetch failed; it may have claimed all the same.
        """
        if not self._fetches or not (wait or self._fetches[0].done()):
            return None
        return self._fetches.popleft().result()

    def close(self) -> list[Claim]:
        """Closes the connection after the fetches under way; their claims, without those whose reply was lost."""
        claims: list[Claim] = []
        while self._fetches:
            with suppress(DatabaseUnavailable, psycopg.Error):
                claims += self.take(wait=True) or []
        if self._thread is not None:
            self._asked.put(None)
            self._thread.join()
            self._thread = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        return claims

    def _run(self) -> None:
        while (asked := self._asked.get()) is not None:
            fetch, future = asked
            try:
                if self._connection is None:
                    self._connection = self._connect()
                future.set_result(fetch(self._connection))
            except BaseException as error:
                future.set_exception(error)
            self._arrived()
