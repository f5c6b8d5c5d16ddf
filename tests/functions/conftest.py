"""The API's handler in this process, connected to a fresh database as the role that it has when deployed."""

import io
from collections.abc import Iterator

import pytest

from dilamme import session
from dilamme.aws import telemetry
from dilamme.settings import Settings, read
from dilamme.store.connection import Connection
from dilamme.usecases import wake
from functions.api import handler as api
from tests.integration.clock import Clock
from tests.integration.invocations import Invocations


@pytest.fixture
def settings() -> Settings:
    """The defaults, and the names that a deployment gives."""
    return read({"DILAMME_WORKER_FUNCTION": "worker", "DILAMME_SCHEDULER_FUNCTION": "scheduler"})


@pytest.fixture
def door(database_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The handler answers from the test's database."""
    monkeypatch.setenv("DATABASE_URL", _as_api(database_url))
    monkeypatch.setattr(session, "_connection", None)
    monkeypatch.setattr(session, "_schema_is_known", False)
    monkeypatch.setattr(api, "configuration", settings)
    yield
    if session._connection is not None:
        session._connection.close()


def _as_api(database_url: str) -> str:
    scheme, rest = database_url.split("://")
    return f"{scheme}://dilamme_api@{rest.rpartition('@')[2]}"


@pytest.fixture(autouse=True)
def invocations(monkeypatch: pytest.MonkeyPatch) -> Invocations:
    """Takes the place of AWS: what would have been invoked, in order."""
    recorded = Invocations()
    monkeypatch.setattr(wake, "invoke", recorded)
    return recorded


@pytest.fixture
def metrics_written(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Takes the place of standard output, for metrics alone."""
    written = io.StringIO()
    monkeypatch.setattr(telemetry, "STANDARD_OUTPUT", written)
    return written


@pytest.fixture
def clock(connection: Connection) -> Clock:
    """The database's clock, stopped; the test moves it."""
    return Clock(connection)
