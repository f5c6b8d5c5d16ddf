"""What a caller is told when something is wrong on our side, and what the log says instead."""

import json
import sys
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from dilamme import session
from dilamme.domain.errors import ConfigurationError
from dilamme.store.connection import Connection
from dilamme.testing.databases import Databases
from dilamme.usecases import read
from functions.api import handler as api
from tests.functions.door import CONTEXT, get, post
from tests.support.answers import Answer

JOB = {"type": "demo.echo", "payload": "a secret"}


def assert_unavailable(answer: Answer, code: str = "database-unavailable") -> None:
    assert (answer.status, answer.json["type"]) == (503, f"urn:dilamme:problem:{code}")
    assert answer.pointers == []
    assert answer.headers["retry-after"]


@pytest.fixture
def empty_database(databases: Databases) -> Iterator[str]:
    name = databases.create_empty()
    yield databases.server.url(name)
    databases.drop(name)


@pytest.fixture
def no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_connection", None)
    monkeypatch.setattr(session, "_schema_seen_at", 0.0)


@pytest.mark.usefixtures("no_connection")
def test_a_database_that_does_not_answer_is_a_503_that_names_no_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://somebody@127.0.0.1:1/nothing")
    for answer in (post("/jobs", JOB), get("/jobs"), get("/health"), get("/stats")):
        assert_unavailable(answer)
        assert "127.0.0.1" not in answer.text
        assert "somebody" not in answer.text


@pytest.mark.usefixtures("no_connection")
def test_a_database_that_is_not_migrated_is_a_503_that_says_what_to_do(
    empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", empty_database)
    for answer in (post("/jobs", JOB), get("/jobs"), get("/health")):
        assert_unavailable(answer, "database-not-ready")
        assert "migrate" in answer.json["detail"]
    session._connection.close()  # type: ignore[union-attr]


@pytest.mark.usefixtures("door")
def test_a_well_database_is_healthy() -> None:
    answer = get("/health")
    assert (answer.status, answer.json) == (200, {"status": "ok"})


@pytest.mark.usefixtures("door")
@pytest.mark.parametrize("statement", ["DROP TABLE dilamme.worker_slots", "DROP SCHEMA dilamme CASCADE"])
def test_a_schema_that_goes_away_is_a_503(statement: str, connection: Connection) -> None:
    assert get("/stats").status == 200
    connection.execute(statement)
    answer = get("/stats")
    assert_unavailable(answer, "database-not-ready")
    assert "migrate" in answer.json["detail"]


@pytest.mark.usefixtures("door")
def test_a_newer_schema_that_is_not_compatible_is_unhealthy(connection: Connection) -> None:
    connection.execute("INSERT INTO dilamme.schema_migrations VALUES (99, 'future', '', 99)")
    answer = get("/health")
    assert_unavailable(answer, "database-not-ready")
    assert "deploy a newer version" in answer.json["detail"]


@pytest.mark.case("C10")
@pytest.mark.usefixtures("door")
def test_a_connection_that_the_server_closed_between_two_requests_is_not_noticed(connection: Connection) -> None:
    post("/jobs", JOB)
    connection.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = 'dilamme_api'")
    assert post("/jobs", JOB).status == 201
    assert len(get("/jobs").json["jobs"]) == 2


@pytest.mark.usefixtures("door")
def test_a_request_that_waits_for_too_long_is_a_503(connection: Connection) -> None:
    job = post("/jobs", JOB).json
    with connection.transaction():
        connection.execute("SELECT FROM dilamme.jobs WHERE id = %s FOR UPDATE", (job["id"],))
        session.connection().execute("SET lock_timeout = '50ms'")
        assert_unavailable(post(f"/jobs/{job['id']}/cancel"))
    assert post(f"/jobs/{job['id']}/cancel").status == 200


@pytest.mark.case("C11")
@pytest.mark.usefixtures("door")
def test_no_transaction_is_left_open_by_any_answer(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise RuntimeError("in mid-transaction")

    post("/jobs", JOB)
    post("/jobs", {**JOB, "dependencyIds": ["01890a5d-ac96-774b-bcce-b302099a8057"]})
    post("/jobs", JOB, key="k")
    post("/jobs", {**JOB, "priority": 1}, key="k")
    monkeypatch.setattr("dilamme.store.stats.count_jobs", fail)
    assert get("/stats").status == 500
    states = connection.execute("SELECT state FROM pg_stat_activity WHERE usename = 'dilamme_api'").fetchall()
    assert states == [("idle",)]


def broken(error: Exception) -> Any:
    def fail(*arguments: object) -> None:
        raise error

    return fail


@pytest.mark.usefixtures("door")
@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("a secret"),
        KeyError("a secret"),
        ConfigurationError("a secret"),
        psycopg.errors.InsufficientPrivilege("a secret"),
    ],
)
def test_a_mistake_of_ours_is_a_500_that_says_nothing_of_itself(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "submit", broken(error))
    answer = post("/jobs", JOB)
    assert answer.status == 500
    assert answer.pointers == []
    for word in ("secret", "Traceback", type(error).__name__, "handler.py"):
        assert word not in answer.text


@pytest.mark.usefixtures("door")
def test_an_answer_that_does_not_fit_its_model_is_our_mistake_not_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "read_stats", lambda *arguments: {"at": "yesterday"})
    answer = get("/stats")
    assert answer.status == 500
    assert answer.pointers == []


@pytest.mark.usefixtures("door")
def test_the_log_says_where_it_went_wrong_but_no_payload(
    connection: Connection, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A constraint's message quotes the whole row in its detail.
    connection.execute("ALTER TABLE dilamme.jobs ADD CONSTRAINT none CHECK (priority <> 1)")
    monkeypatch.setattr(api.logger.registered_handler, "stream", sys.stdout)
    assert post("/jobs", {**JOB, "priority": 1}).status == 500
    (line,) = [line for line in capsys.readouterr().out.splitlines() if '"level":"ERROR"' in line]
    logged = json.loads(line)
    assert logged["error"] == "CheckViolation"
    assert "violates check constraint" in logged["error_message"]
    assert any("submit.py" in frame for frame in logged["frames"])
    assert logged["correlation_id"] == "a-request"
    assert "secret" not in line


def test_an_event_that_is_not_the_gateways_is_answered_all_the_same() -> None:
    answer = api.handler({}, CONTEXT)
    assert answer["statusCode"] == 500
    assert json.loads(answer["body"])["title"] == "Internal error"
    assert json.loads(answer["body"])["type"] == "urn:dilamme:problem:internal-error"
