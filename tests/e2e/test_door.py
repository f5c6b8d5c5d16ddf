"""Every row of *Door* in CASES.md, over HTTP: what is refused, what is accepted, and what becomes of it."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.e2e.system import System
from tests.support.answers import Answer
from tests.support.waiting import wait_until

SETTINGS = {"unknown_type_delay_seconds": 1, "unknown_type_grace_seconds": 2}
KIB, MIB = 1024, 1024 * 1024
ECHO = '{"type": "demo.echo"}'


def pointers(answer: Answer) -> list[str]:
    """Of a problem's faults, after a look at its form."""
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json["status"] == answer.status
    assert answer.json["title"]
    assert answer.json["detail"]
    return [fault["pointer"] for fault in answer.json.get("errors", [])]


# ----- B1


@pytest.mark.case("B1")
def test_fifty_threads_with_one_key_make_one_job(system: System) -> None:
    def submit(_: int) -> Answer:
        return system.post("/jobs", {"type": "e2e.note", "payload": {"n": 1}}, idempotency_key="fifty")

    with ThreadPoolExecutor(50) as threads:
        answers = list(threads.map(submit, range(50)))
    assert sorted(answer.status for answer in answers) == [200] * 49 + [201]
    (job_id,) = {answer.json["id"] for answer in answers}
    assert [job["id"] for job in system.jobs(type="e2e.note")] == [job_id]
    system.wait_for(job_id)
    assert len(system.starts(job_id)) == 1


def test_a_key_answers_the_same_body_however_spelt_and_refuses_another(system: System) -> None:
    first = system.post("/jobs", {"type": "demo.echo", "payload": {"a": 1, "b": 2}}, idempotency_key="spelt")
    spelt = '{ "payload": {"b": 2, "a": 1}, "priority": 2, "type": "demo.echo" }'
    headers = {"content-type": "application/json", "idempotency-key": "spelt"}
    again = system.request("POST", "/jobs", spelt, headers)
    assert (first.status, again.status, again.json["id"]) == (201, 200, first.json["id"])
    other = system.post("/jobs", {"type": "demo.echo", "payload": {"a": 2}}, idempotency_key="spelt")
    assert other.status == 409
    assert pointers(other) == []


# ----- B2


def test_a_payload_over_256_kib_is_too_large(system: System) -> None:
    assert system.post("/jobs", {"type": "demo.echo", "payload": "x" * (256 * KIB - 2)}).status == 201
    refused = system.post("/jobs", {"type": "demo.echo", "payload": "x" * (256 * KIB - 1)})
    assert refused.status == 413
    assert pointers(refused) == ["/payload"]


@pytest.mark.case("B2")
def test_a_batch_over_4_mib_is_too_large(system: System) -> None:
    jobs = [{"type": "demo.echo", "payload": "x" * 200 * KIB} for _ in range(20)]
    assert system.post("/jobs/batch", {"jobs": jobs}).status == 201
    refused = system.post("/jobs/batch", {"jobs": [*jobs, *jobs[:1]]})
    assert refused.status == 413
    assert pointers(refused) == [""]


# ----- B3


@pytest.mark.case("B3")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("priority", value) for value in (0, 4, 1.5, "1", True)),
        *(("scheduledAt", value) for value in ("2030-01-01T00:00:00", "10000-01-01T00:00:00Z", 1_900_000_000)),
    ],
)
def test_a_wrong_value_is_refused_with_a_pointer_to_its_field(system: System, field: str, value: Any) -> None:
    refused = system.post("/jobs", {"type": "demo.echo", field: value})
    assert refused.status == 422
    assert pointers(refused) == [f"/{field}"]


# ----- B4


@pytest.mark.case("B4")
@pytest.mark.parametrize(
    ("status", "method", "body", "content_type"),
    [
        (400, "POST", '{"type": "demo.echo"', "application/json"),
        (422, "POST", f"[{ECHO}]", "application/json"),
        (422, "POST", "", "application/json"),
        (422, "POST", '{"type": "demo.echo", "prio": 1}', "application/json"),
        (415, "POST", ECHO, "text/plain"),
        (415, "POST", ECHO, "application/x-www-form-urlencoded"),
        (405, "PUT", ECHO, "application/json"),
        (405, "DELETE", None, "application/json"),
    ],
)
def test_a_malformed_request_is_refused_as_a_problem(
    system: System, status: int, method: str, body: str | None, content_type: str
) -> None:
    refused = system.request(method, "/jobs", body, {"content-type": content_type})
    assert refused.status == status
    pointers(refused)
    if status == 405:
        assert refused.headers["allow"] == "GET, POST"


# ----- B5


@pytest.mark.case("B5")
def test_a_job_of_an_unknown_type_waits_loudly_at_no_cost_and_dies_after_its_grace(system: System) -> None:
    stranger, *others = system.submit_all([{"type": "e2e.stranger"}, *[{"type": "demo.echo"}] * 20])
    assert all(system.wait_for(job_id)["attempt"] == 1 for job_id in others)
    wait_until(lambda: _is_put_off(system, stranger))
    # It says so in one way while the job is put off, and in another when a worker may look at it again.
    assert re.search("knows? the type e2e.stranger", system.get(f"/jobs/{stranger}/why")["detail"])

    dead = system.wait_for(stranger, "dead")
    assert dead["lastError"]["reason"] == "unknown_type"
    (letter,) = wait_until(lambda: system.letters(stranger))
    assert letter["error"]["reason"] == "unknown_type"
    assert sum(_metrics(system, "JobsOfUnknownType")) >= 2


def _is_put_off(system: System, job_id: str) -> bool:
    view = system.job(job_id)
    assert view["attempt"] <= 1  # while a worker looks at it
    later = view["readyAt"] > view["createdAt"]
    return later and (view["status"], view["attempt"]) == ("pending", 0)


def _metrics(system: System, name: str) -> list[float]:
    """The values of a metric that the workers have emitted."""
    lines = (system.folder / "logs" / "worker.log").read_text().splitlines()
    emitted = [json.loads(line) for line in lines if f'"{name}"' in line]
    return [value for line in emitted for value in line[name]]


# ----- E7


@pytest.mark.case("E7")
def test_a_job_that_is_not_declared_to_be_json_is_refused(system: System) -> None:
    answer = system.request("POST", "/jobs", b'{"type": "demo.echo"}')
    assert answer.status == 415
    assert "which is missing" in answer.json["detail"]
