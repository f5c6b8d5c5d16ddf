"""Claims fetched ahead, on a second connection, while the first one settles: a backlog of short jobs keeps both busy."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress

import psycopg

from dilamme.domain.errors import DatabaseUnavailable
from dilamme.domain.job import Claim
from dilamme.store.connection import Connection

Fetch = Callable[[Connection], list[Claim]]


class Ahead:
    """One fetch at a time, in a thread of its own; the connection is opened for the first one, and kept to the end.

    ``arrived`` is called in that thread when a fetch has ended, well or badly.
    """

    def __init__(self, connect: Callable[[], Connection], arrived: Callable[[], None]) -> None:
        self._connect = connect
        self._arrived = arrived
        self._connection: Connection | None = None
        self._fetch: Future[list[Claim]] | None = None

    @property
    def under_way(self) -> bool:
        """Has a fetch begun whose claims have not been taken? They are ours already, whether or not we know them."""
        return self._fetch is not None

    def begin(self, fetch: Fetch) -> None:
        """Begins a fetch; there must be none under way."""
        future: Future[list[Claim]] = Future()
        self._fetch = future
        threading.Thread(target=self._run, args=(fetch, future), daemon=True).start()

    def take(self, *, wait: bool = False) -> list[Claim] | None:
        """The claims of the fetch that has ended; None while none has.

        Raises:
            DatabaseUnavailable, psycopg.Error: the fetch failed; it may have claimed all the same.
        """
        future = self._fetch
        if future is None or not (wait or future.done()):
            return None
        try:
            return future.result()
        finally:
            self._fetch = None

    def close(self) -> list[Claim]:
        """Lets go of the connection, after the fetch under way; what that has claimed, as far as anybody knows."""
        claims: list[Claim] = []
        with suppress(DatabaseUnavailable, psycopg.Error):
            claims = self.take(wait=True) or []
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        return claims

    def _run(self, fetch: Fetch, future: "Future[list[Claim]]") -> None:
        try:
            if self._connection is None:
                self._connection = self._connect()
            future.set_result(fetch(self._connection))
        except BaseException as error:
            future.set_exception(error)
        self._arrived()
