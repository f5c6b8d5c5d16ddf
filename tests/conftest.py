"""One embedded PostgreSQL for a whole run of the tests, and a migrated database of its own for each test that asks."""

import os
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from dilamme.aws import environment
from dilamme.settings import Settings, read
from dilamme.store.connection import Connection, connect
from dilamme.testing.clock import START, Clock
from dilamme.testing.databases import Databases
from dilamme.usecases import wake
from dilamme_local.inherited import loopback_without_proxy
from dilamme_local.postgres import NOT_DURABLE, OPEN_HBA, Postgres
from tests.support import memory, pooler
from tests.support.invocations import Invocations
from tests.support.reports import sendable

pytest_plugins = ["dilamme.testing.plugin"]  # which pytest finds by itself where Dilamme is installed


def pytest_configure() -> None:
    """Temporary folders lie in memory: a database is three hundred files, which a disk makes at very uneven speed.

    A proxy of the user's is not asked for what is on this machine.
    """
    os.environ.update(loopback_without_proxy(os.environ))
    if memory.has_room():
        os.environ["TMPDIR"] = tempfile.tempdir = str(memory.FOLDER)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each test has an id of its own, or of two with one id xdist would run one; through a pooler, not all can be tested."""
    for item in items:
        if operation := getattr(item, "operation_label", None):  # schemathesis leaves it out of the id
            item._id = item.id.with_params(operation)
    twice = [name for name, number in Counter(item.nodeid for item in items).items() if number > 1]
    if twice:
        raise pytest.UsageError(f"tests that share an id, so that only one of them would run: {', '.join(twice)}")
    if pooler.wanted():
        pooler.skip_unfit(items)


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Whatever a test has printed can be sent."""
    return sendable((yield))


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A running server, gone with the session."""
    with tempfile.TemporaryDirectory(prefix="dilamme-tests-") as folder:
        server = Postgres(Path(folder), settings=NOT_DURABLE, hba=OPEN_HBA)
        if pooler.wanted():
            server = cast("Postgres", pooler.Pooled(Path(folder)))
        server.start()
        yield server
        server.stop()


@pytest.fixture(scope="session")
def databases(postgres: Postgres) -> Iterator[Databases]:
    """Makes migrated databases, for tests that need more than one or keep one for a module."""
    with closing((pooler.PooledDatabases if pooler.wanted() else Databases)(postgres)) as databases:
        yield databases


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    """A fresh migrated database, entered as the superuser."""
    name = databases.create()
    yield databases.server.url(name)
    databases.drop(name)


@pytest.fixture(scope="module")
def database_of_module(databases: Databases) -> Iterator[str]:
    """The same for a whole module, whose tests write nothing or tidy up."""
    name = databases.create()
    yield databases.server.url(name)
    databases.drop(name)


@pytest.fixture
def connection(database_url: str) -> Iterator[Connection]:
    """A connection as the functions open it, to a fresh migrated database."""
    with closing(connect(database_url)) as connection:
        yield connection


@pytest.fixture(autouse=True)
def _variables_are_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker keeps those of its start; here its handler was imported long before a test sets its own."""
    monkeypatch.setattr(environment, "_kept", None)


@pytest.fixture
def clock(connection: Connection) -> Clock:
    """The database's clock, stopped; the test moves it."""
    return Clock(connection, stopped_at=START)


@pytest.fixture
def settings() -> Settings:
    """The defaults, and the names that a deployment gives."""
    return read(
        {
            "DILAMME_WORKER_FUNCTION": "worker",
            "DILAMME_SCHEDULER_FUNCTION": "scheduler",
            "DILAMME_DEAD_LETTER_QUEUE_URL": "http://queue.invalid",
        }
    )


@pytest.fixture
def invocations(monkeypatch: pytest.MonkeyPatch) -> Invocations:
    """Takes the place of AWS: what would have been invoked, in order."""
    recorded = Invocations()
    monkeypatch.setattr(wake, "invoke", recorded)
    return recorded
