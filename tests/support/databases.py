"""Migrated databases for tests, copied from a template in a few dozen milliseconds, on one embedded server."""

from contextlib import closing
from itertools import count

import psycopg
from psycopg.sql import SQL, Identifier, Literal

from dilamme.settings import read
from dilamme.store.connection import connect
from dilamme.usecases.migrate import migrate
from local.postgres import Postgres
from tests.support.pooler import Pooled

TEMPLATE = "migrated"


class Databases:
    """``server`` is running and belongs to the tests."""

    def __init__(self, server: Postgres) -> None:
        self.server = server
        self._numbers = count(1)
        server.create_database(TEMPLATE)
        with closing(connect(self._direct(TEMPLATE))) as connection:
            migrate(connection, read({}))

    def create(self) -> str:
        """A new migrated database's name."""
        name = f"test_{next(self._numbers)}"
        self._execute(SQL("CREATE DATABASE {} TEMPLATE {}").format(Identifier(name), Identifier(TEMPLATE)))
        return name

    def create_empty(self, encoding: str = "UTF8") -> str:
        """A new database's name, with nothing in it."""
        name = f"empty_{next(self._numbers)}"
        statement = SQL("CREATE DATABASE {} TEMPLATE template0 LOCALE 'C' ENCODING {}")
        self._execute(statement.format(Identifier(name), Literal(encoding)))
        return name

    def drop(self, name: str) -> None:
        """Drops it, whoever is still connected."""
        self._execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))

    def _execute(self, statement: psycopg.sql.Composed) -> None:
        with psycopg.connect(self._direct("postgres"), autocommit=True) as connection:
            connection.execute(statement)

    def _direct(self, name: str) -> str:
        # A database that is copied or dropped must have nobody in it, and a pooler stays.
        return self.server.direct(name) if isinstance(self.server, Pooled) else self.server.url(name)
