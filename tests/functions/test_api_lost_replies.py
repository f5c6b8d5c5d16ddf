"""PostgreSQL has committed, and its answer is lost on the way to the API (C16)."""

from collections.abc import Iterator

import pytest

from dilamme.store.connection import Connection
from dilamme_local.postgres import Postgres
from tests.functions.door import get, post
from tests.support.entrance import role_url
from tests.support.jobs import tally
from tests.support.wire import Wire, wire

JOB = {"type": "demo.echo", "payload": 1}


@pytest.fixture
def cable(door: None, postgres: Postgres, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    """The API's connection runs over it, and stands."""
    with wire("127.0.0.1", postgres.port) as laid:
        monkeypatch.setenv("DATABASE_URL", laid.over(role_url(database_url, "api")))
        assert get("/health").status == 200
        yield laid


@pytest.mark.case("C16")
@pytest.mark.parametrize("path", ["/jobs", "/jobs/batch"])
def test_a_caller_without_a_key_is_told_that_nobody_knows(path: str, cable: Wire, connection: Connection) -> None:
    """Not to repeat it: the job is there, stored by a statement that is its own transaction."""
    cable.lose_reply(to=b"INSERT INTO dilamme.jobs")
    answer = post(path, JOB if path == "/jobs" else {"jobs": [JOB]})
    assert cable.lost == 1
    assert answer.status == 503
    assert answer.pointers == []
    assert answer.json["title"] == "Outcome unknown"
    assert answer.json["type"] == "urn:dilamme:problem:outcome-unknown"
    assert "may have been done" in answer.json["detail"]
    assert "Idempotency-Key" in answer.json["detail"]
    assert "retry-after" not in answer.headers
    assert tally(connection) == {"pending": 1}


def test_a_caller_who_lost_the_commit_of_a_job_with_a_parent_is_told_the_same(
    cable: Wire, connection: Connection
) -> None:
    parent = post("/jobs", JOB).json["id"]
    cable.lose_reply(to=b"COMMIT")
    answer = post("/jobs", {**JOB, "dependencyIds": [parent]})
    assert cable.lost == 1
    assert (answer.status, answer.json["title"]) == (503, "Outcome unknown")
    assert tally(connection) == {"pending": 2}


@pytest.mark.case("C16")
@pytest.mark.parametrize("path", ["/jobs", "/jobs/batch"])
def test_a_caller_with_a_key_sends_the_same_again_and_gets_the_first_job(
    path: str, cable: Wire, connection: Connection
) -> None:
    body = JOB if path == "/jobs" else {"jobs": [JOB]}
    cable.lose_reply(to=b"COMMIT")
    assert post(path, body, key="k").status == 503
    assert cable.lost == 1
    again = post(path, body, key="k")
    assert again.status == 200
    assert tally(connection) == {"pending": 1}


@pytest.mark.parametrize("verb", ["cancel", "replay"])
def test_a_cancellation_or_a_replay_that_nobody_heard_of_can_be_repeated(
    verb: str, cable: Wire, connection: Connection
) -> None:
    job = post("/jobs", JOB).json
    if verb == "replay":
        connection.execute("UPDATE dilamme.jobs SET status = 'dead', finished_at = now()")
    cable.lose_reply(to=b"COMMIT")
    assert post(f"/jobs/{job['id']}/{verb}").status == 503
    assert cable.lost == 1
    again = post(f"/jobs/{job['id']}/{verb}")
    assert (again.status, again.json["status"]) == (200, "cancelled" if verb == "cancel" else "pending")
