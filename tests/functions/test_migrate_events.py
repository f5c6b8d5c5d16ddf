"""The migration, by hand and as a step of a deployment: CloudFormation always gets an answer, and a useful one."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import psycopg
import pytest

from dilamme import session
from dilamme import settings as dilamme_settings
from dilamme.aws import custom_resource
from dilamme.domain.errors import ConfigurationError, DatabaseUnavailable, SchemaError
from dilamme.store import schema as store
from dilamme.store.connection import Connection
from dilamme.testing.databases import Databases
from dilamme.usecases import deploy
from functions.migrate import handler as migrate
from tests.functions.events import context, load
from tests.functions.session_fixture import entered

Answers = list[dict[str, Any]]


@pytest.fixture
def empty(databases: Databases, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A database without our schema, found by the handler."""
    name = databases.create_empty()
    url = databases.server.url(name)
    with entered(monkeypatch, url):
        yield url
    databases.drop(name)


@pytest.fixture
def cloudformation() -> Iterator[tuple[str, Answers]]:
    """Where CloudFormation listens, and what it has heard."""
    answers: Answers = []

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            assert self.headers["Content-Type"] == "", "the address is signed for no content type"
            answers.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/answer?X-Amz-Signature=0", answers
    server.shutdown()
    server.server_close()


def request(kind: str, url: str, **changes: Any) -> dict[str, Any]:
    event = load(f"migrate-{kind}")
    properties = {**event["ResourceProperties"], **changes.pop("properties", {})}
    return {**event, "ResponseURL": url, "ResourceProperties": properties, **changes}


def test_by_hand_it_says_what_it_did(empty: str) -> None:
    version = store.known_version()
    assert migrate.handler(load("migrate"), context("migrate")) == {
        "applied": list(range(1, version + 1)),
        "version": version,
        "roles": True,
    }
    assert migrate.handler(load("migrate"), context("migrate"))["applied"] == []


def test_a_first_deployment_migrates_and_is_told_the_workers_concurrency(
    empty: str, cloudformation: tuple[str, Answers]
) -> None:
    url, answers = cloudformation
    event = request("create", url)
    migrate.handler(event, context("migrate"))
    (answer,) = answers
    assert (answer["Status"], answer["Data"]) == ("SUCCESS", {"WorkerConcurrency": 11})
    assert {key: answer[key] for key in ("StackId", "RequestId", "LogicalResourceId")} == {
        key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")
    }
    with psycopg.connect(empty) as connection:
        assert connection.execute("SELECT count(*) FROM dilamme.worker_slots").fetchone() == (10,)


def test_an_update_migrates(empty: str, cloudformation: tuple[str, Answers]) -> None:
    url, answers = cloudformation
    migrate.handler(request("update", url), context("migrate"))
    assert answers[0]["Status"] == "SUCCESS"
    with psycopg.connect(empty) as connection:
        assert store.applied(connection)


def test_more_connections_than_the_server_has_fail_the_deployment_with_a_sentence(
    empty: str, cloudformation: tuple[str, Answers]
) -> None:
    url, answers = cloudformation
    migrate.handler(request("create", url, properties={"ApiConcurrency": "500"}), context("migrate"))
    (answer,) = answers
    assert answer["Status"] == "FAILED"
    assert "WorkerSlots 10 and ApiConcurrency 500 may need 1047 database connections" in answer["Reason"]
    assert "lower WorkerSlots or ApiConcurrency" in answer["Reason"]
    assert len(json.dumps(answer)) < 4096


def test_behind_a_pooler_the_servers_connections_are_not_the_functions(
    empty: str, cloudformation: tuple[str, Answers]
) -> None:
    url, answers = cloudformation
    event = request("create", url)
    del event["ResourceProperties"]["ApiConcurrency"]
    migrate.handler(event, context("migrate"))
    assert answers[0]["Status"] == "SUCCESS"


def test_a_setting_that_cannot_work_fails_the_deployment_with_a_sentence(
    empty: str, cloudformation: tuple[str, Answers], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, answers = cloudformation
    monkeypatch.setenv("DILAMME_JOB_TIMEOUT_SECONDS", "299")
    monkeypatch.setattr(dilamme_settings, "load", dilamme_settings.load.__wrapped__)
    migrate.handler(request("create", url), context("migrate"))
    assert answers[0]["Status"] == "FAILED"
    assert "DILAMME_JOB_TIMEOUT_SECONDS is 299" in answers[0]["Reason"]


def test_a_database_that_is_away_fails_the_deployment_with_a_sentence(
    cloudformation: tuple[str, Answers], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, answers = cloudformation
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    with entered(monkeypatch, "postgresql://postgres:hunter2@127.0.0.1:1/none"):
        migrate.handler(request("create", url), context("migrate"))
    assert pauses == [custom_resource.WORK_PAUSE_SECONDS] * (custom_resource.WORK_TRIES - 1)
    assert "the database does not answer" in answers[0]["Reason"]
    assert "hunter2" not in json.dumps(answers)


def test_a_database_that_answers_late_fails_nothing(
    empty: str, cloudformation: tuple[str, Answers], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, answers = cloudformation
    in_time, tries = session.open_connection, iter([DatabaseUnavailable("no route yet")] * 2)
    monkeypatch.setattr("time.sleep", lambda _: None)

    def open_late() -> Connection:
        if late := next(tries, None):
            raise late
        return in_time()

    monkeypatch.setattr(migrate, "open_connection", open_late)
    migrate.handler(request("create", url), context("migrate"))
    assert [answer["Status"] for answer in answers] == ["SUCCESS"]


def test_an_unforeseen_error_is_answered_too(
    empty: str, cloudformation: tuple[str, Answers], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, answers = cloudformation
    monkeypatch.setattr(migrate, "deploy", lambda *_: 1 / 0)
    migrate.handler(request("create", url), context("migrate"))
    assert answers[0]["Reason"].startswith("ZeroDivisionError")


@pytest.mark.parametrize(
    "event",
    [
        pytest.param({"kind": "delete"}, id="a stack that goes"),
        pytest.param({"kind": "delete", "PhysicalResourceId": "never-created"}, id="a first deployment that failed"),
        pytest.param({"kind": "update", "PhysicalResourceId": "the same"}, id="back from an update that failed here"),
        pytest.param({"kind": "update", "older": True}, id="back from an update that failed later"),
    ],
)
def test_with_the_database_gone_deletion_and_roll_back_succeed(
    event: dict[str, Any], cloudformation: tuple[str, Answers], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, answers = cloudformation
    made = request(event["kind"], url)
    if event.get("older"):
        made["OldResourceProperties"] = {
            **made["ResourceProperties"],
            "Layer": made["ResourceProperties"]["Layer"][:-1] + "4",
        }
    if event.get("PhysicalResourceId") == "the same":
        made["PhysicalResourceId"] = custom_resource.physical_id(made["ResourceProperties"])
    elif "PhysicalResourceId" in event:
        made["PhysicalResourceId"] = event["PhysicalResourceId"]
    with entered(monkeypatch, "postgresql://127.0.0.1:1/gone"):
        migrate.handler(made, context("migrate"))
    assert answers[0]["Status"] == "SUCCESS"
    if event["kind"] == "update":
        assert answers[0]["Data"] == {"WorkerConcurrency": 11}, "the worker function reads it"


def test_an_update_that_failed_leaves_the_id_by_which_the_roll_back_is_known(
    empty: str, cloudformation: tuple[str, Answers]
) -> None:
    url, answers = cloudformation
    before = request("create", url)
    migrate.handler(before, context("migrate"))
    applied = answers[0]["PhysicalResourceId"]
    failing = request("update", url, PhysicalResourceId=applied, properties={"ApiConcurrency": "500"})
    migrate.handler(failing, context("migrate"))
    assert (answers[1]["Status"], answers[1]["PhysicalResourceId"]) == ("FAILED", applied)
    assert applied == custom_resource.physical_id(before["ResourceProperties"])


def test_an_answer_that_does_not_get_through_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[str] = []

    def fail_twice(sent: Any, timeout: float) -> Any:
        tries.append(sent.full_url)
        if len(tries) < 3:
            raise OSError("reset")
        return _Closable()

    monkeypatch.setattr("urllib.request.urlopen", fail_twice)
    monkeypatch.setattr("time.sleep", lambda _: None)
    custom_resource.answer(load("migrate-delete"), "id")
    assert len(tries) == 3


class _Closable:
    def close(self) -> None: ...


def test_older_code_is_deployed_onto_a_newer_schema_that_still_serves_it(connection: Connection) -> None:
    _add_a_version(connection, compatible_from=1)
    migrated = deploy.deploy(connection, dilamme_settings.read({}), 10)
    assert (migrated.applied, migrated.version) == ([], store.known_version() + 1)


def test_older_code_is_refused_on_a_newer_schema_that_does_not_serve_it(connection: Connection) -> None:
    _add_a_version(connection, compatible_from=store.known_version() + 1)
    with pytest.raises(SchemaError, match="deploy a newer version"):
        deploy.deploy(connection, dilamme_settings.read({}), 10)


def _add_a_version(connection: Connection, compatible_from: int) -> None:
    version = store.known_version() + 1
    connection.execute(
        "INSERT INTO dilamme.schema_migrations VALUES (%s, 'later', 'checksum', %s)", (version, compatible_from)
    )


def test_the_budget_is_the_servers_to_the_last_connection(connection: Connection) -> None:
    # The tests' server gives 200, of which 3 are the superuser's: 2 × (slots + 1 + 2 + 5 + 10) + 1 ≤ 197.
    deploy.check_connections(connection, worker_slots=53, api_concurrency=10)
    with pytest.raises(ConfigurationError, match="may need 199 database connections, and the server gives 197"):
        deploy.check_connections(connection, worker_slots=54, api_concurrency=10)
