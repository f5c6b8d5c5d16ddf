"""The type of each problem: where one status has several, a program can tell them apart (docs/problems.md)."""

from collections.abc import Callable
from uuid import uuid4

import pytest

from dilamme.wire.requests import PAYLOAD_BYTES_MAX
from tests.functions.door import Answer, event, get, post, send, submit

pytestmark = pytest.mark.usefixtures("door")

JOB = {"type": "demo.echo"}


def replay_of_a_pending_job() -> Answer:
    return post(f"/jobs/{submit()['id']}/replay")


def key_of_another_job() -> Answer:
    post("/jobs", JOB, key="k")
    return post("/jobs", {**JOB, "priority": 1}, key="k")


@pytest.mark.parametrize(
    ("ask", "status", "code"),
    [
        (lambda: post("/jobs", "{"), 400, "malformed-request"),
        (lambda: get(f"/jobs/{uuid4()}"), 404, "not-found"),
        (lambda: get("/jobs/one"), 404, "not-found"),
        (lambda: post(f"/series/{uuid4()}/cancel"), 404, "not-found"),
        (lambda: get("/nothing"), 404, "unknown-path"),
        (lambda: send(event("DELETE", "/jobs")), 405, "method-not-allowed"),
        (replay_of_a_pending_job, 409, "state-conflict"),
        (key_of_another_job, 409, "idempotency-conflict"),
        (lambda: post("/jobs", {**JOB, "payload": "x" * PAYLOAD_BYTES_MAX}), 413, "too-large"),
        (lambda: post("/jobs", JOB, **{"content-type": "text/plain"}), 415, "unsupported-media-type"),
        (lambda: post("/jobs", {}), 422, "invalid-input"),
        (lambda: get("/jobs", limit=0), 422, "invalid-input"),
        (lambda: get("/jobs", unknown=1), 422, "invalid-input"),
    ],
)
def test_a_problem_has_a_type_for_programs(ask: Callable[[], Answer], status: int, code: str) -> None:
    answer = ask()
    assert (answer.status, answer.json["type"]) == (status, f"urn:dilamme:problem:{code}")
