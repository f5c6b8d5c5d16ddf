"""Migrated databases for tests, copied from a template in a few dozen milliseconds, on one embedded server."""

from collections.abc import Callable
from contextlib import closing
from itertools import count
from urllib.parse import urlsplit

import psycopg
from psycopg.sql import SQL, Composed, Identifier, Literal

from dilamme.settings import read
from dilamme.store.connection import connect
from dilamme.usecases.migrate import migrate
from dilamme_local.postgres import SUPERUSER, Postgres

TEMPLATE = "migrated"
# Copies files, where PostgreSQL's own choice writes every page of the copy to the WAL: ten times as long. It takes two
# checkpoints, which are cheap on a server that never waits for a disk.
COPY = SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY")


class Databases:
    """``server`` is running and belongs to the tests. ``prepare`` gets the template's URL, to make an application's own tables."""

    def __init__(self, server: Postgres, prepare: Callable[[str], object] = lambda url: None) -> None:
        self.server = server
        self._numbers = count(1)
        server.create_database(TEMPLATE)
        with closing(connect(self.direct(TEMPLATE))) as connection:
            migrate(connection, read({}))
        prepare(self.direct(TEMPLATE))
        # Kept, because connecting takes as long as copying does.
        self._administrator = psycopg.connect(self.direct("postgres"), autocommit=True)
        self._hash_password_briefly()

    def close(self) -> None:
        self._administrator.close()

    def create(self) -> str:
        """A new migrated database's name."""
        return self.copy(TEMPLATE)

    def copy(self, template: str) -> str:
        """The name of a copy of ``template``, in which nobody may be."""
        name = f"test_{next(self._numbers)}"
        self._execute(COPY.format(Identifier(name), Identifier(template)))
        return name

    def create_empty(self, encoding: str = "UTF8") -> str:
        """A new database's name, with nothing in it."""
        name = f"empty_{next(self._numbers)}"
        statement = SQL("CREATE DATABASE {} TEMPLATE template0 LOCALE 'C' ENCODING {} STRATEGY FILE_COPY")
        self._execute(statement.format(Identifier(name), Literal(encoding)))
        return name

    def drop(self, name: str) -> None:
        """Drops it, whoever is still connected."""
        self._execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))

    def _execute(self, statement: SQL | Composed) -> None:
        self._administrator.execute(statement)

    def _hash_password_briefly(self) -> None:
        """Each of thousands of logins would hash 4,096 times; PostgreSQL 15 knows no other number."""
        if self._administrator.info.server_version >= 160000:
            password = Literal(urlsplit(self.direct("postgres")).password)
            self._execute(SQL("SET scram_iterations = 1"))
            self._execute(SQL("ALTER ROLE {} PASSWORD {}").format(Identifier(SUPERUSER), password))

    def direct(self, name: str) -> str:
        """Its URL past a pooler, if there is one, which stays connected: a database that is copied must have nobody in it."""
        return self.server.url(name)
