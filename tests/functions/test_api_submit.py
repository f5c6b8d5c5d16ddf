"""Storing jobs over HTTP: what is kept, what comes back, and who is woken."""

import json
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from dilamme.aws.invoke import InvokeFailed
from dilamme.store.connection import Connection
from dilamme.testing.clock import Clock
from dilamme.wire.requests import BATCH_BYTES_MAX, PAYLOAD_BYTES_MAX
from tests.functions import states
from tests.functions.door import event, get, post, send, submit
from tests.support.invocations import Invocations

pytestmark = pytest.mark.usefixtures("door")

DEFAULTS = {
    "priority": 2,
    "effectivePriority": 2,
    "status": "pending",
    "startedAt": None,
    "finishedAt": None,
    "attempt": 0,
    "maxAttempts": 3,
    "intervalSeconds": None,
    "seriesId": None,
    "dependencyIds": [],
    "unmetDependencies": 0,
    "onDependencyFailure": "wait",
    "errors": [],
    "lastError": None,
    "result": None,
}


def stored(connection: Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM dilamme.jobs").fetchall()[0][0])


def test_a_job_is_stored_and_shown_with_its_defaults() -> None:
    answer = post("/jobs", {"type": "demo.echo"})
    assert answer.status == 201
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["location"] == f"/jobs/{answer.json['id']}"
    assert answer.json.items() >= {**DEFAULTS, "type": "demo.echo", "payload": {}}.items()
    assert get(answer.headers["location"]).json == answer.json


def test_every_field_is_kept() -> None:
    parent = submit()
    asked: dict[str, Any] = {
        "type": "email.send",
        "payload": {"to": ["ä", "日本", "\U0001f600"], "n": -1.5, "none": None},
        "priority": 3,
        "scheduledAt": "2035-06-01T10:20:30.123456Z",
        "intervalSeconds": 86_400,
        "dependencyIds": [parent["id"]],
        "maxAttempts": 25,
        "onDependencyFailure": "cancel",
    }
    view = submit(**asked)
    assert view.items() >= asked.items()
    assert view["unmetDependencies"] == 1
    assert view["effectivePriority"] is None
    assert view["readyAt"] == asked["scheduledAt"]
    assert view["seriesId"]


@pytest.mark.parametrize(
    "payload", [None, True, 0, -0.5, 10**20 + 1, 1e300, 1e-300, "", "text", [], [[], {}], {"a": {"": 1}}, "\u2028"]
)
def test_a_payload_is_any_json(payload: Any) -> None:
    assert submit(payload=payload)["payload"] == payload


def test_a_payload_of_great_numbers_is_answered_as_short_as_it_came() -> None:
    payload = [1e300, -2.5e200] * 12_000
    text = post("/jobs", {"type": "demo.echo", "payload": payload}).text
    assert json.loads(text)["payload"] == payload
    assert len(text) < 256 * 1024


def test_a_payload_may_have_256_kib_however_it_is_spelt() -> None:
    for payload in ("x" * (PAYLOAD_BYTES_MAX - 2), "é" * (PAYLOAD_BYTES_MAX // 2 - 1)):
        for text in (
            json.dumps({"type": "a", "payload": payload}),
            json.dumps({"payload": payload, "type": "a"}, indent=200),
        ):
            assert post("/jobs", text).json["payload"] == payload


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "known.type"},
        {"type": "demo.echo", "maxAttempts": 7, "priority": 1, "payload": [1e300, None]},
        {"type": "demo.echo", "scheduledAt": "2999-01-31T09:30:00.000001+02:00", "intervalSeconds": 60},
        {"type": "demo.echo", "dependencyIds": ["last", "first", "last"]},
        {"type": "demo.echo", "dependencyIds": ["dead", "first"], "onDependencyFailure": "cancel"},
    ],
)
@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.usefixtures("clock")  # which stands: a waiting job does not age meanwhile
def test_the_answer_to_a_post_is_what_a_get_shows(
    fields: dict[str, Any], key: str | None, connection: Connection
) -> None:
    """Though nothing was read back."""
    states.know_type(connection, "known.type", max_attempts=5)
    parents = {name: submit()["id"] for name in ("first", "last", "dead")}
    states.finish(connection, parents["dead"], "dead")
    names = fields.get("dependencyIds", [])
    body = {**fields, "dependencyIds": [parents[name] for name in names]}
    answer = post("/jobs", body, key=key)
    assert answer.status == 201
    assert answer.json == get(f"/jobs/{answer.json['id']}").json
    assert answer.json["dependencyIds"] == sorted({parents[name] for name in names})


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("2035-01-01T12:00:00+02:00", "2035-01-01T10:00:00Z"),
        ("2035-01-01t12:00:00z", "2035-01-01T12:00:00Z"),
        ("2035-01-01 12:00:00-05:30", "2035-01-01T17:30:00Z"),
        ("2035-01-01T12:00:00.1Z", "2035-01-01T12:00:00.100000Z"),
        ("2035-01-01T12:00:00.123456789Z", "2035-01-01T12:00:00.123456Z"),
    ],
)
def test_times_are_kept_to_the_microsecond_and_given_in_utc(given: str, kept: str) -> None:
    assert submit(scheduledAt=given)["scheduledAt"] == kept


@pytest.mark.case("O5")
def test_a_time_in_the_past_buys_no_priority(clock: Clock) -> None:
    view = submit(scheduledAt="2020-01-01T00:00:00Z", priority=3)
    assert view["scheduledAt"] == "2020-01-01T00:00:00Z"
    assert view["readyAt"] == view["createdAt"] == "2030-01-01T00:00:00Z"
    assert view["effectivePriority"] == 3


@pytest.mark.case("B6")
def test_a_base64_body_is_read_as_usual() -> None:
    text = json.dumps({"type": "demo.echo", "payload": "grüße"}, ensure_ascii=False)
    answer = send(event("POST", "/jobs", text, {"content-type": "application/json"}, encoded=True))
    assert answer.status == 201
    assert answer.json["payload"] == "grüße"


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=utf-8", "Application/JSON", "application/json ;x=y"]
)
def test_a_content_type_may_have_parameters(content_type: str) -> None:
    assert send(event("POST", "/jobs", '{"type": "demo.echo"}', {"content-type": content_type})).status == 201


def test_the_location_keeps_the_stage_of_the_gateway() -> None:
    sent = event("POST", "/prod/jobs", '{"type": "demo.echo"}', {"content-type": "application/json"})
    sent["requestContext"]["stage"] = "prod"
    answer = send(sent)
    assert answer.status == 201
    assert answer.headers["location"] == f"/prod/jobs/{answer.json['id']}"


# ----- batches


def test_a_batch_is_stored_in_order_with_its_refs_and_dependencies() -> None:
    outside = submit()["id"]
    jobs = [
        {"type": "extract", "ref": "e"},
        {"type": "load", "ref": "l", "dependencyRefs": ["e", "e"], "dependencyIds": [outside]},
        {"type": "report", "dependencyRefs": ["e", "l"]},
    ]
    answer = post("/jobs/batch", {"jobs": jobs})
    assert answer.status == 201
    ids = [job["id"] for job in answer.json["jobs"]]
    assert answer.json == {
        "jobs": [{"id": ids[0], "ref": "e", "status": "pending"}, {"id": ids[1], "ref": "l", "status": "pending"},
                 {"id": ids[2], "ref": None, "status": "pending"}]
    }  # fmt: skip
    assert ids == sorted(ids)
    assert get(f"/jobs/{ids[1]}").json["dependencyIds"] == sorted([outside, ids[0]])
    assert get(f"/jobs/{ids[2]}").json["unmetDependencies"] == 2


def test_a_batch_takes_a_thousand_jobs(connection: Connection) -> None:
    answer = post("/jobs/batch", {"jobs": [{"type": "demo.echo"}] * 1000})
    assert answer.status == 201
    assert len(answer.json["jobs"]) == stored(connection) == 1000


@pytest.mark.case("W7")
def test_a_batch_takes_fifty_thousand_dependencies(connection: Connection) -> None:
    """W7: the most that is taken, half of them by refs and half by ids of stored jobs. `make bench-bounds` times it."""
    parents = [job["id"] for job in post("/jobs/batch", {"jobs": [{"type": "demo.echo"}] * 100}).json["jobs"]]
    stages = [{"type": "demo.echo", "ref": str(index)} for index in range(100)]
    waiting = [{"type": "demo.echo", "dependencyRefs": [job["ref"] for job in stages]} for _ in range(250)]
    waiting += [{"type": "demo.echo", "dependencyIds": parents} for _ in range(250)]
    answer = post("/jobs/batch", {"jobs": [*stages, *waiting]})
    assert answer.status == 201, answer.text
    assert connection.execute("SELECT count(*) FROM dilamme.job_dependencies").fetchone() == (50_000,)


def test_a_batch_may_have_4_mib() -> None:
    text = json.dumps({"jobs": [{"type": "demo.echo", "payload": "x" * 200_000}] * 20})
    assert post("/jobs/batch", text + " " * (BATCH_BYTES_MAX - len(text))).status == 201


def test_a_batch_with_one_wrong_job_stores_none(connection: Connection) -> None:
    answer = post("/jobs/batch", {"jobs": [{"type": "demo.echo"}, {"type": "demo.echo", "priority": 4}]})
    assert answer.status == 422
    assert answer.pointers == ["/jobs/1/priority"]
    assert stored(connection) == 0


@pytest.mark.case("D7")
def test_a_job_whose_dependency_has_failed_is_stored_as_its_policy_says(connection: Connection) -> None:
    parent = submit()["id"]
    states.finish(connection, parent, "dead", error="boom")
    waits = submit(dependencyIds=[parent])
    cancelled = submit(dependencyIds=[parent], onDependencyFailure="cancel")
    assert waits["status"] == "pending"
    assert cancelled["status"] == "cancelled"
    assert cancelled["lastError"]["reason"] == "dependency_failed"


def test_a_job_cannot_wait_on_one_that_is_not_there(connection: Connection) -> None:
    known, unknown = submit()["id"], str(uuid4())
    answer = post("/jobs", {"type": "a", "dependencyIds": [known, unknown]})
    assert answer.status == 422
    assert answer.pointers == ["/dependencyIds/1"]
    assert unknown in answer.json["detail"]
    assert stored(connection) == 1


@pytest.mark.case("D3")
def test_jobs_of_a_batch_that_wait_for_each_other_are_refused_with_the_path(connection: Connection) -> None:
    jobs = [
        {"type": "a", "ref": "a", "dependencyRefs": ["c"]},
        {"type": "b", "ref": "b", "dependencyRefs": ["a"]},
        {"type": "c", "ref": "c", "dependencyRefs": ["b"]},
    ]
    answer = post("/jobs/batch", {"jobs": jobs})
    assert answer.status == 422
    assert all(f"{name} -> " in answer.json["detail"] for name in "abc")
    alone = post("/jobs/batch", {"jobs": [{"type": "a", "ref": "a", "dependencyRefs": ["a"]}]})
    assert alone.pointers == ["/jobs/0/dependencyRefs"]
    assert "a -> a" in alone.json["detail"]
    assert stored(connection) == 0


# ----- waking


def test_a_job_that_is_due_wakes_one_worker(invocations: Invocations) -> None:
    submit()
    assert [function for function, _ in invocations] == ["worker"]


def test_a_batch_wakes_one_worker_for_all_of_its_jobs(invocations: Invocations) -> None:
    assert post("/jobs/batch", {"jobs": [{"type": "demo.echo"}, {"type": "demo.echo"}]}).status == 201
    assert [function for function, _ in invocations] == ["worker"]


def test_nothing_is_invoked_before_the_commit(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr("dilamme.usecases.wake.invoke", lambda function, event: seen.append(stored(connection)))
    submit()
    assert seen == [1]


def test_a_job_that_cannot_run_yet_wakes_no_worker(invocations: Invocations, connection: Connection) -> None:
    states.lead(connection)
    parent = submit(scheduledAt="2035-01-01T00:00:00Z")
    submit(dependencyIds=[parent["id"]])
    post("/jobs", {"type": "a", "priority": 4})
    assert invocations == []


def test_a_job_for_the_near_future_wakes_a_scheduler_if_none_leads(invocations: Invocations, clock: Clock) -> None:
    submit(scheduledAt=(clock.now + timedelta(seconds=10)).isoformat())
    assert [function for function, _ in invocations] == ["scheduler"]


@pytest.mark.parametrize("failure", [InvokeFailed("429"), RuntimeError("something else")])
def test_a_wake_that_fails_does_not_fail_the_request(
    failure: Exception, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(function: str, event: object) -> None:
        raise failure

    monkeypatch.setattr("dilamme.usecases.wake.invoke", fail)
    assert post("/jobs", {"type": "demo.echo"}).status == 201
    assert stored(connection) == 1


# ----- what the view shows


def test_the_attempts_are_the_jobs_own_or_its_types_or_the_settings(connection: Connection) -> None:
    states.know_type(connection, "email.send", max_attempts=7)
    assert submit("email.send", maxAttempts=2)["maxAttempts"] == 2
    assert submit("email.send")["maxAttempts"] == 7
    assert submit("demo.echo")["maxAttempts"] == 3


def test_the_effective_priority_rises_while_a_job_waits_and_is_null_once_it_runs(
    clock: Clock, connection: Connection
) -> None:
    job = submit(priority=3)
    path = f"/jobs/{job['id']}"
    seen = []
    for seconds in (29.999999, 0.000001, 30, 3600):
        clock.advance(seconds)
        seen.append(get(path).json["effectivePriority"])
    assert seen == [3, 2, 1, 1]
    states.start(connection, job["id"])
    assert get(path).json["effectivePriority"] is None


def test_past_errors_and_results_are_shown_in_utc(connection: Connection) -> None:
    connection.execute("ALTER ROLE dilamme_api SET timezone = 'Asia/Kathmandu'")
    try:
        job = submit()
        states.finish(connection, job["id"], "dead", error="boom")
        view = get(f"/jobs/{job['id']}").json
    finally:
        connection.execute("ALTER ROLE dilamme_api RESET timezone")
    (error,) = view["errors"]
    assert error == view["lastError"]
    assert (error["reason"], error["message"]) == ("error", "boom")
    assert error["attempt"] == 1
    for moment in (error["at"], view["createdAt"], view["startedAt"], view["finishedAt"]):
        assert moment.endswith("Z")
        assert datetime.fromisoformat(moment)


def test_a_completed_job_shows_its_result(connection: Connection) -> None:
    job = submit()
    states.finish(connection, job["id"], "completed", result={"sent": [1, None]})
    view = get(f"/jobs/{job['id']}").json
    assert view["result"] == {"sent": [1, None]}
    assert view["status"] == "completed"
