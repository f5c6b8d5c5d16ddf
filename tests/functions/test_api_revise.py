"""Cancelling and replaying over HTTP."""

from datetime import timedelta
from uuid import uuid4

import pytest

from dilamme.store.connection import Connection
from dilamme.testing.clock import Clock
from tests.functions import states
from tests.functions.door import event, get, post, send, submit
from tests.support.invocations import Invocations

pytestmark = pytest.mark.usefixtures("door")


def status(job_id: str) -> str:
    found: str = get(f"/jobs/{job_id}").json["status"]
    return found


# ----- cancel


def test_a_pending_job_is_cancelled_and_cancelling_it_again_changes_nothing() -> None:
    job = submit()
    first = post(f"/jobs/{job['id']}/cancel")
    again = post(f"/jobs/{job['id']}/cancel")
    assert first.status == again.status == 200
    assert first.json == again.json == get(f"/jobs/{job['id']}").json
    assert first.json["status"] == "cancelled"
    assert first.json["finishedAt"]
    assert first.json["lastError"]["reason"] == "cancelled"


def test_what_a_cancel_request_carries_besides_is_not_looked_at() -> None:
    job = submit()
    assert post(f"/jobs/{job['id']}/cancel", "{no json").status == 200


@pytest.mark.case("E7")
@pytest.mark.parametrize("path", ["/jobs/{}/cancel", "/jobs/{}/replay", "/series/{}/cancel", "/dead-letters/replay"])
@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/x-www-form-urlencoded", "a=b"),
        ("application/x-www-form-urlencoded", None),
        ("multipart/form-data; boundary=x", "--x--"),
        ("text/plain", "{}"),
        (None, "{}"),
    ],
)
def test_a_form_of_another_pages_changes_nothing(path: str, content_type: str | None, body: str | None) -> None:
    job = submit()
    headers = {} if content_type is None else {"content-type": content_type}
    answer = send(event("POST", path.format(job["id"]), body, headers))
    assert answer.status == 415
    assert "Content-Type: application/json" in answer.json["detail"]
    assert get(f"/jobs/{job['id']}").json["status"] == "pending"


def test_a_request_that_carries_nothing_needs_no_content_type() -> None:
    job = submit()
    assert send(event("POST", f"/jobs/{job['id']}/cancel")).status == 200


@pytest.mark.parametrize("state", ["running", "completed", "dead"])
def test_a_job_that_has_started_cannot_be_cancelled(state: str, connection: Connection) -> None:
    job = submit()
    if state == "running":
        states.start(connection, job["id"])
    else:
        states.finish(connection, job["id"], state)
    answer = post(f"/jobs/{job['id']}/cancel")
    assert answer.status == 409
    assert answer.pointers == []
    assert state in answer.json["detail"]
    assert status(job["id"]) == state


def test_the_dependents_of_a_cancelled_job_follow_it_if_that_is_their_policy() -> None:
    parent = submit()
    follows, waits = (submit(dependencyIds=[parent["id"]], onDependencyFailure=policy) for policy in ("cancel", "wait"))
    after = submit(dependencyIds=[follows["id"]], onDependencyFailure="cancel")
    post(f"/jobs/{parent['id']}/cancel")
    assert [status(job["id"]) for job in (follows, waits, after)] == ["cancelled", "pending", "cancelled"]


def test_a_cancelled_occurrence_is_skipped_and_the_next_one_is_watched_for(
    clock: Clock, invocations: Invocations
) -> None:
    job = submit(intervalSeconds=20)
    invocations.clear()
    post(f"/jobs/{job['id']}/cancel")
    newest, cancelled = get("/jobs", seriesId=job["seriesId"]).json["jobs"]
    assert (cancelled["id"], cancelled["status"]) == (job["id"], "cancelled")
    assert (newest["status"], newest["scheduledAt"]) == ("pending", "2030-01-01T00:00:20Z")
    assert [function for function, _ in invocations] == ["scheduler"]


def test_a_series_ends_with_its_pending_occurrence(connection: Connection) -> None:
    job = submit(intervalSeconds=60)
    first, again = (post(f"/series/{job['seriesId']}/cancel") for _ in range(2))
    assert (first.status, again.status) == (200, 200)
    assert (first.json["id"], first.json["cancelled"], again.json["cancelled"]) == (job["seriesId"], True, False)
    assert [other["status"] for other in get("/jobs", seriesId=job["seriesId"]).json["jobs"]] == ["cancelled"]


def test_a_series_ends_while_an_occurrence_runs(connection: Connection) -> None:
    job = submit(intervalSeconds=60)
    states.start(connection, job["id"])
    assert post(f"/series/{job['seriesId']}/cancel").json["cancelled"] is True
    assert status(job["id"]) == "running"


def test_a_job_is_no_series() -> None:
    job = submit(intervalSeconds=60)
    for series_id in (job["id"], uuid4()):
        answer = post(f"/series/{series_id}/cancel")
        assert answer.status == 404
        assert "no series" in answer.json["detail"]


# ----- replay


@pytest.mark.case("R3")
def test_a_dead_job_is_replayed_once_and_the_second_call_says_so(
    connection: Connection, invocations: Invocations
) -> None:
    job = submit(payload={"a": 1e300})
    states.finish(connection, job["id"], "dead", error="boom")
    invocations.clear()
    first = post(f"/jobs/{job['id']}/replay")
    again = post(f"/jobs/{job['id']}/replay")
    assert (first.status, again.status) == (200, 200)
    assert (first.json["replayed"], again.json["replayed"]) == (True, False)
    assert "before" in again.json["detail"]
    view = get(f"/jobs/{job['id']}").json
    assert first.json == {**view, "replayed": True, "detail": first.json["detail"]}
    assert (view["status"], view["attempt"], view["finishedAt"]) == ("pending", 0, None)
    assert view["lastError"]["message"] == "boom"
    assert [function for function, _ in invocations] == ["worker"]


@pytest.mark.parametrize("state", ["pending", "running", "completed", "cancelled"])
def test_a_job_that_never_died_cannot_be_replayed(state: str, connection: Connection) -> None:
    job = submit()
    if state == "running":
        states.start(connection, job["id"])
    elif state != "pending":
        states.finish(connection, job["id"], state)
    answer = post(f"/jobs/{job['id']}/replay")
    assert answer.status == 409
    assert answer.pointers == []
    assert status(job["id"]) == state


def test_dead_letters_are_replayed_the_oldest_first_and_boundedly(
    clock: Clock, connection: Connection, invocations: Invocations
) -> None:
    ids = []
    for number in range(5):
        ids.append(submit(priority=1 + number % 3)["id"])
        states.finish(connection, ids[-1], "dead")
        clock.set(clock.now + timedelta(seconds=1))
    invocations.clear()
    answer = post("/dead-letters/replay", {"limit": 2})
    assert answer.status == 200
    assert answer.json == {"replayed": 2, "ids": answer.json["ids"], "more": True}
    assert sorted(answer.json["ids"]) == ids[:2]
    assert [function for function, _ in invocations] == ["worker"]
    rest = post("/dead-letters/replay", {})
    assert (sorted(rest.json["ids"]), rest.json["more"]) == (ids[2:], False)
    assert {status(job_id) for job_id in ids} == {"pending"}


def test_dead_letters_can_be_replayed_by_type(connection: Connection, invocations: Invocations) -> None:
    mail, other = submit("email.send")["id"], submit()["id"]
    for job_id in (mail, other):
        states.finish(connection, job_id, "dead")
    invocations.clear()
    assert post("/dead-letters/replay", {"type": "email.send"}).json == {"replayed": 1, "ids": [mail], "more": False}
    assert post("/dead-letters/replay", {"type": "none"}).json == {"replayed": 0, "ids": [], "more": False}
    assert status(other) == "dead"
    assert [function for function, _ in invocations] == ["worker"]
