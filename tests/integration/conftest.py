"""What the integration tests share: connections in every role, a clock to move, and invocations that go nowhere."""

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from dilamme.scheduler import outbox
from dilamme.settings import Settings
from dilamme.store.connection import connect
from dilamme.testing.databases import Databases
from tests.integration.scheduler import Scheduler
from tests.integration.workshop import Workshop
from tests.support.entrance import Enter, Entrance
from tests.support.invocations import Invocations, Letters


@pytest.fixture(autouse=True)
def _invocations_go_nowhere(invocations: Invocations) -> None:
    """In every test of this folder."""


@pytest.fixture(autouse=True)
def letters(monkeypatch: pytest.MonkeyPatch) -> Letters:
    """Takes the place of SQS: the dead letters that were sent."""
    recorded = Letters()
    monkeypatch.setattr(outbox, "send", recorded)
    return recorded


@pytest.fixture
def entrance(databases: Databases, database_url: str) -> Entrance:
    """Where the test's database is, for each role."""
    return Entrance(databases.server, database_url.rsplit("/", 1)[1])


@pytest.fixture
def enter(entrance: Entrance) -> Iterator[Enter]:
    """Opens connections to the test's database as one of the functions' roles; closed with the test."""
    with ExitStack() as stack:
        yield lambda function: stack.enter_context(closing(connect(entrance.url(function))))


@pytest.fixture
def workshop(entrance: Entrance, settings: Settings) -> Iterator[Workshop]:
    """Workers in this process, with handlers of the test's own."""
    with closing(Workshop(entrance, settings)) as workshop:
        yield workshop


@pytest.fixture
def scheduler(enter: Enter, settings: Settings) -> Iterator[Scheduler]:
    """A leader whose ticks the test calls."""
    with closing(Scheduler(enter("scheduler"), settings)) as scheduler:
        yield scheduler
