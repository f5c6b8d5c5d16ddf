"""The worker's handler, with the event that a scheduler sends."""

import io
from collections.abc import Iterator
from uuid import UUID

import pytest

from dilamme.handlers.registry import JobType, Registry
from dilamme.settings import read
from dilamme.store.connection import Connection
from functions.worker import handler as worker
from tests.functions.events import context, emf, load
from tests.functions.session_fixture import entered
from tests.support.invocations import Invocations
from tests.support.jobs import put, row


def _fail(payload: object, context: object) -> None:
    raise RuntimeError("as asked for")


@pytest.fixture(autouse=True)
def deployed(database_url: str, monkeypatch: pytest.MonkeyPatch, invocations: Invocations) -> Iterator[None]:
    configuration = read({"DILAMME_WORKER_FUNCTION": "worker", "DILAMME_SCHEDULER_FUNCTION": "scheduler"})
    registry = Registry()
    registry.add(JobType("test.echo", lambda payload, context: payload))
    registry.add(JobType("test.fail", _fail))
    monkeypatch.setattr(worker, "configuration", configuration)
    monkeypatch.setattr(worker, "registry", registry)
    monkeypatch.setattr(worker, "_published", False)
    with entered(monkeypatch, database_url, "worker"):
        yield


@pytest.fixture
def invited(connection: Connection) -> None:
    """The slot of the event, taken for it."""
    event = load("worker-batch")
    connection.execute(
        "UPDATE dilamme.worker_slots SET state = 'invited', token = %(token)s, held_until = now() + interval '1 minute' WHERE slot = %(slot)s",
        event,
    )


def test_an_event_whose_slot_is_not_its_own_runs_nothing(connection: Connection) -> None:
    job_id = put(connection, type="test.echo")
    assert worker.handler(load("worker-batch"), context("worker", 300)) == {"admitted": False, "settled": 0}
    assert row(connection, job_id)["status"] == "pending"


@pytest.mark.usefixtures("invited")
def test_it_runs_what_there_is_and_lets_go_of_its_slot(connection: Connection) -> None:
    job_id = put(connection, type="test.echo", payload={"n": 1})
    assert worker.handler(load("worker-batch"), context("worker", 300)) == {"admitted": True, "settled": 1}
    assert row(connection, job_id)["result"] == {"n": 1}
    token = UUID(load("worker-batch")["token"])
    assert connection.execute("SELECT count(*) FROM dilamme.worker_slots WHERE token = %s", (token,)).fetchone() == (0,)


@pytest.mark.usefixtures("invited")
def test_it_publishes_its_types_for_those_who_know_no_handler(connection: Connection) -> None:
    worker.handler(load("worker-batch"), context("worker", 300))
    types = connection.execute("SELECT array_agg(type ORDER BY type) FROM dilamme.job_types").fetchone()
    assert types == (["test.echo", "test.fail"],)


@pytest.mark.usefixtures("invited")
def test_it_counts_how_jobs_ended_and_how_long_they_had_waited(
    connection: Connection, metrics_written: io.StringIO
) -> None:
    put(connection, type="test.echo", priority=1)
    put(connection, type="test.fail", priority=2)
    put(connection, type="test.fail", priority=3, max_attempts=1)
    put(connection, type="test.unheard_of")
    worker.handler(load("worker-batch"), context("worker", 300))
    values = {
        name: sum(found) for name, found in emf(metrics_written.getvalue()).items() if not name.startswith("Wait")
    }
    assert values == {
        "JobsStarted": 3,
        "JobsCompleted": 1,
        "JobsRetried": 1,
        "JobsDied": 1,
        "JobsHandedBack": 1,
        "JobsOfUnknownType": 1,
    }


@pytest.mark.usefixtures("invited")
def test_a_wait_is_counted_under_the_original_priority(connection: Connection, metrics_written: io.StringIO) -> None:
    put(connection, type="test.echo", priority=3)
    connection.execute(
        "UPDATE dilamme.jobs SET ready_at = now() - interval '10 minutes', created_at = now() - interval '10 minutes'"
    )
    worker.handler(load("worker-batch"), context("worker", 300))
    values = emf(metrics_written.getvalue())
    assert values.keys() >= {"WaitP3"}
    assert not values.keys() & {"WaitP1", "WaitP2"}
    assert 600_000 <= values["WaitP3"][0] < 660_000
