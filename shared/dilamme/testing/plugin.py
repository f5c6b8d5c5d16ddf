"""The pytest plugin: `dilamme_db`, `dilamme_worker`, `dilamme_stack`. It is loaded by itself where Dilamme is installed.

What it needs is imported by the fixtures: a run of tests that use none of them pays nothing.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from dilamme.testing.database import Database
    from dilamme.testing.databases import Databases
    from dilamme.testing.stack import Stack
    from dilamme.testing.worker import Worker
    from dilamme_local.application import Application


@pytest.fixture(scope="session")
def dilamme_application(request: pytest.FixtureRequest) -> "Application":
    """The application in whose folder the tests run."""
    from dilamme_local.application import find  # noqa: PLC0415

    return find(request.config.rootpath)


@pytest.fixture(scope="session")
def dilamme_prepare() -> Callable[[str], object]:
    """What makes the application's own tables, from a database's URL: override it. It runs once; each test gets a copy."""
    return lambda url: None


@pytest.fixture(scope="session")
def dilamme_databases(dilamme_prepare: Callable[[str], object]) -> "Iterator[Databases]":
    """An embedded PostgreSQL for the whole run, and the maker of databases on it."""
    from dilamme.testing.databases import Databases  # noqa: PLC0415
    from dilamme_local.postgres import NOT_DURABLE, OPEN_HBA, Postgres  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="dilamme-tests-") as folder:
        server = Postgres(Path(folder), settings=NOT_DURABLE, hba=OPEN_HBA)
        server.start()
        try:
            with closing(Databases(server, dilamme_prepare)) as databases:
                yield databases
        finally:
            server.stop()


@pytest.fixture
def dilamme_db(dilamme_databases: "Databases", monkeypatch: pytest.MonkeyPatch) -> "Iterator[Database]":
    """A database of the test's own, to which DATABASE_URL leads."""
    from dilamme.testing.database import Database  # noqa: PLC0415

    name = dilamme_databases.create()
    url = dilamme_databases.server.url(name)
    monkeypatch.setenv("DATABASE_URL", url)
    with closing(Database(url)) as database:
        yield database
    dilamme_databases.drop(name)


@pytest.fixture
def dilamme_worker(
    dilamme_db: "Database", dilamme_application: "Application", monkeypatch: pytest.MonkeyPatch
) -> "Iterator[Worker]":
    """A worker with the application's handlers, which runs jobs when the test says so."""
    from dilamme.handlers.context import Context  # noqa: PLC0415
    from dilamme.handlers.discovery import load_jobs  # noqa: PLC0415
    from dilamme.handlers.registry import registry  # noqa: PLC0415
    from dilamme.session import open_connection  # noqa: PLC0415
    from dilamme.settings import read  # noqa: PLC0415
    from dilamme.testing.worker import Worker  # noqa: PLC0415
    from dilamme.usecases import wake  # noqa: PLC0415

    for name, value in dilamme_application.local.items():
        if name not in os.environ:  # as in `dilamme dev`: the surroundings go before the file
            monkeypatch.setenv(name, value)
    load_jobs(dilamme_application.jobs, demo=False)
    registry.resolve_shapes()
    ours = {
        "DILAMME_WORKER_FUNCTION": "worker",
        "DILAMME_SCHEDULER_FUNCTION": "scheduler",
        "DILAMME_WORKER_CONCURRENCY": "1",
        "DILAMME_UNKNOWN_TYPE_GRACE_SECONDS": str(10 * 365 * 86_400),  # however far the test moves the clock
    }
    settings = read({**dilamme_application.settings, **ours})
    Context.opener = staticmethod(open_connection)
    with closing(Worker(dilamme_db, settings, registry)) as worker:
        monkeypatch.setattr(wake, "invoke", worker.process.invoke)
        yield worker


@pytest.fixture(scope="session")
def dilamme_stack(
    dilamme_application: "Application", dilamme_databases: "Databases", tmp_path_factory: pytest.TempPathFactory
) -> "Iterator[Stack]":
    """The whole stack, over HTTP, with the application's handlers in processes of their own; one for the whole run."""
    from dilamme.testing.stack import running  # noqa: PLC0415

    url = dilamme_databases.server.url(dilamme_databases.create())
    with running(dilamme_application, url, tmp_path_factory.mktemp("dilamme-stack")) as stack:
        yield stack
