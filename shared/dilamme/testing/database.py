"""A database of a test's own."""

from contextlib import closing
from typing import Any

import psycopg

from dilamme.store.connection import connect
from dilamme.testing.clock import Clock


class Database:
    """A fresh database on a real PostgreSQL, with Dilamme's schema, and the application's where `dilamme_prepare` makes it.

    Attributes:
        url: how to connect; DATABASE_URL has it too.
        connection: as an application's: in autocommit mode, so that each statement is committed.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.connection: psycopg.Connection[Any] = psycopg.connect(url, autocommit=True)
        self._owner = connect(url)
        self.clock = Clock(self._owner)

    def connect(self, *, autocommit: bool = False) -> psycopg.Connection[Any]:
        """One more connection, which the test closes."""
        return psycopg.connect(self.url, autocommit=autocommit)

    def close(self) -> None:
        """Closes its own connections."""
        with closing(self.connection), closing(self._owner):
            pass
