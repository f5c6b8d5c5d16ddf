"""`sam local start-api` and `start-lambda`: the whole path, each function in its container, jobs in PostgreSQL."""

import json
import time
from typing import Any

import pytest
import requests

from tests.sam.stack import SamStack

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def served(stack: SamStack) -> SamStack:
    stack.serve_lambda()
    stack.serve_api()
    return stack


def post(stack: SamStack, path: str, body: Any) -> Any:
    response = requests.post(f"{stack.url}{path}", json=body, timeout=120)
    assert response.status_code == 201, response.text
    return response.json()


def until_ended(stack: SamStack, ids: list[str], seconds: float = 400) -> dict[str, Any]:
    deadline = time.monotonic() + seconds
    while True:
        jobs = {job_id: requests.get(f"{stack.url}/jobs/{job_id}", timeout=120).json() for job_id in ids}
        if all(job["status"] in ("completed", "dead", "cancelled") for job in jobs.values()):
            return jobs
        assert time.monotonic() < deadline, jobs
        time.sleep(2)


def trigger(stack: SamStack) -> None:
    """What the rule does every minute."""
    event = {"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}
    answer = stack.client().invoke(FunctionName="SchedulerFunction", InvocationType="Event", Payload=json.dumps(event))
    assert answer["StatusCode"] == 202


def test_an_applications_own_handler_runs_in_its_container(served: SamStack) -> None:
    job = post(served, "/jobs", {"type": "shop.hello", "payload": {"name": "Ada"}})
    assert until_ended(served, [job["id"]])[job["id"]]["result"] == {"hello": "Ada"}


def test_a_posted_dag_runs_to_its_end(served: SamStack) -> None:
    jobs = [
        {"type": "demo.echo", "payload": {"step": "a"}, "ref": "a"},
        {"type": "demo.echo", "payload": {"step": "b"}, "ref": "b", "dependencyRefs": ["a"]},
        {"type": "demo.echo", "payload": {"step": "c"}, "ref": "c", "dependencyRefs": ["a"]},
        {"type": "demo.echo", "payload": {"step": "d"}, "dependencyRefs": ["b", "c"]},
    ]
    ids = [job["id"] for job in post(served, "/jobs/batch", {"jobs": jobs})["jobs"]]
    ended = until_ended(served, ids)
    assert [ended[job_id]["status"] for job_id in ids] == ["completed"] * 4
    assert [ended[job_id]["result"]["step"] for job_id in ids] == ["a", "b", "c", "d"]
    starts = [ended[job_id]["startedAt"] for job_id in ids]
    ends = [ended[job_id]["finishedAt"] for job_id in ids]
    assert starts[1] >= ends[0] <= starts[2]
    assert starts[3] >= max(ends[1:3])


def test_the_scheduler_in_its_container_invokes_a_worker_in_another(served: SamStack) -> None:
    with served.connect() as connection:  # behind the API's back, so that nobody wakes anybody
        connection.execute(
            "INSERT INTO dilamme.jobs (id, type, status, priority, created_at, scheduled_at, ready_at, payload) "
            "VALUES ('01900000-0000-7000-8000-000000000001', 'demo.echo', 'pending', 1, now(), now(), now(), '{}')"
        )
    trigger(served)
    ended = until_ended(served, ["01900000-0000-7000-8000-000000000001"])
    assert [job["status"] for job in ended.values()] == ["completed"]


def test_a_dead_letter_reaches_the_queue(served: SamStack) -> None:
    job = post(served, "/jobs", {"type": "demo.fail", "payload": {"times": 9}, "maxAttempts": 1})
    assert until_ended(served, [job["id"]])[job["id"]]["status"] == "dead"
    trigger(served)
    deadline = time.monotonic() + 200
    messages: list[Any] = []
    while not messages and time.monotonic() < deadline:
        messages = served.sqs.receive_message(QueueUrl=served.queue_url, WaitTimeSeconds=2).get("Messages", [])
    letter = json.loads(messages[0]["Body"])
    assert (letter["jobId"], letter["type"], letter["attempts"]) == (job["id"], "demo.fail", 1)
    assert letter["error"]["reason"] == "error"
