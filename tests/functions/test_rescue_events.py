"""The rescue's handler, with Lambda's records of what was lost."""

from collections.abc import Iterator
from uuid import UUID, uuid4

import pytest

from dilamme.settings import Settings
from dilamme.store import lease
from dilamme.store.connection import Connection
from functions.rescue import handler as rescue
from tests.functions.events import context, load
from tests.functions.session_fixture import entered
from tests.support.invocations import Invocations
from tests.support.jobs import put, row


@pytest.fixture(autouse=True)
def deployed(database_url: str, monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Iterator[None]:
    monkeypatch.setattr(rescue, "configuration", settings)
    with entered(monkeypatch, database_url, "rescue"):
        yield


def _running_under(connection: Connection, worker: str) -> UUID:
    job_id = put(connection)
    connection.execute(
        "UPDATE dilamme.jobs SET status = 'running', attempt = 1, started_at = now(), worker = %s, token = %s, "
        "lease_expires_at = now() + interval '5 minutes' WHERE id = %s",
        (worker, uuid4(), job_id),
    )
    return job_id


def test_a_lost_workers_job_is_free_at_once_and_another_worker_is_called(
    connection: Connection, invocations: Invocations
) -> None:
    event = load("rescue-worker")
    job_id = _running_under(connection, event["requestPayload"]["token"])
    assert rescue.handler(event, context("rescue")) == {"jobs": 1}
    freed = row(connection, job_id)
    assert (freed["status"], freed["errors"][0]["reason"]) == ("pending", "worker_lost")
    assert "worker" in {function for function, _ in invocations}


def test_the_record_of_one_worker_frees_nothing_of_anothers(connection: Connection) -> None:
    job_id = _running_under(connection, str(uuid4()))
    assert rescue.handler(load("rescue-worker"), context("rescue")) == {"jobs": 0}
    assert row(connection, job_id)["status"] == "running"


def test_a_record_that_comes_twice_does_the_same_as_one(connection: Connection) -> None:
    event = load("rescue-worker")
    job_id = _running_under(connection, event["requestPayload"]["token"])
    rescue.handler(event, context("rescue"))
    assert rescue.handler(event, context("rescue")) == {"jobs": 0}
    assert len(row(connection, job_id)["errors"]) == 1


def test_the_record_of_an_event_that_never_ran_leaves_alone_what_its_twin_runs(connection: Connection) -> None:
    event = load("rescue-worker")
    event["requestContext"]["condition"] = "EventAgeExceeded"
    job_id = _running_under(connection, event["requestPayload"]["token"])
    assert rescue.handler(event, context("rescue")) == {"jobs": 0}
    assert row(connection, job_id)["status"] == "running"


def test_a_lost_leader_is_replaced(connection: Connection, invocations: Invocations) -> None:
    event = load("rescue-scheduler")
    lease.take_lead(connection, UUID(event["requestContext"]["requestId"]), 5)
    assert rescue.handler(event, context("rescue")) == {"invoked": True}
    assert invocations == [("scheduler", {"source": "dilamme.wake"})]


def test_a_scheduler_that_led_no_more_is_not_replaced(connection: Connection, invocations: Invocations) -> None:
    lease.take_lead(connection, uuid4(), 60)
    assert rescue.handler(load("rescue-scheduler"), context("rescue")) == {"invoked": False}
    assert invocations == []
