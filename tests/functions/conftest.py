"""The API's handler in this process, connected to a fresh database as the role that it has when deployed."""

import io
from collections.abc import Iterator

import pytest

from dilamme import session
from dilamme.aws import log
from dilamme.settings import Settings
from functions.api import handler as api
from tests.support.entrance import role_url
from tests.support.invocations import Invocations


@pytest.fixture
def door(database_url: str, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The handler answers from the test's database."""
    monkeypatch.setenv("DATABASE_URL", role_url(database_url, "api"))
    monkeypatch.setattr(session, "_connection", None)
    monkeypatch.setattr(session, "_schema_seen_at", 0.0)
    monkeypatch.setattr(api, "configuration", settings)
    yield
    if session._connection is not None:
        session._connection.close()


@pytest.fixture(autouse=True)
def _invocations_go_nowhere(invocations: Invocations) -> None:
    """In every test of this folder."""


@pytest.fixture
def metrics_written(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Takes the place of standard output, for metrics alone."""
    written = io.StringIO()
    monkeypatch.setattr(log, "STANDARD_OUTPUT", written)
    return written
