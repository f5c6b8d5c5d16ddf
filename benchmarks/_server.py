"""The PostgreSQL of the benchmarks: the one of `make run`, at its default durability, in a folder that goes with the run.

A queue is filled once, in a database that serves as the template; each round gets a copy of it. So every round of
every rival begins with the same pages, vacuumed and analysed, and none pays for what another left behind.
"""

import secrets
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg.sql import SQL, Identifier

from dilamme_local.postgres import OPEN_HBA, Postgres
from dilamme_local.product import PRODUCT as CHECKOUT

SHOWN = (
    "server_version",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "shared_buffers",
    "wal_level",
    "max_wal_size",
    "autovacuum",
)


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for one run. On the checkout's disk: a file system in memory would make durability free."""
    (CHECKOUT / ".data").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=CHECKOUT / ".data", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def serve() -> Iterator[Postgres]:
    """A running server. A SIGTERM ends the run in order too, with all that it has started."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with scratch() as folder:
        server = Postgres(folder, hba=OPEN_HBA)  # the roles' passwords are the local stack's own
        try:
            server.start()
            yield server
        finally:
            server.stop()


def describe(server: Postgres) -> dict[str, str]:
    """The settings that figures depend on, as the server has them."""
    with closing(connect(server.url())) as connection:
        return {name: connection.execute("SELECT current_setting(%s)", (name,)).fetchall()[0][0] for name in SHOWN}


def connect(url: str) -> "psycopg.Connection[Any]":
    """As the superuser, in autocommit: for what surrounds a measurement."""
    return psycopg.connect(url, autocommit=True)


def template(server: Postgres, fill: Callable[[str], None]) -> str:
    """A new database that ``fill`` has been given the URL of; its name."""
    name = f"template_{secrets.token_hex(4)}"
    server.create_database(name)
    fill(server.url(name))
    with closing(connect(server.url(name))) as connection:
        connection.execute("VACUUM (ANALYZE, FREEZE)")
    return name


@contextmanager
def copy(server: Postgres, name: str) -> Iterator[str]:
    """A fresh copy of a template, flushed to disk; its name. Dropped afterwards, whoever is still connected."""
    fresh = f"round_{secrets.token_hex(4)}"
    how = SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
    with closing(connect(server.url())) as connection:
        connection.execute(how.format(Identifier(fresh), Identifier(name)))
        connection.execute("CHECKPOINT")
        try:
            yield fresh
        finally:
            connection.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(fresh)))
