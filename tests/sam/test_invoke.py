"""`sam local invoke`: every function, with every event of events/, in a container of its own."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Self
from uuid import uuid4

import pytest

from dilamme.store.schema import steps
from tests.sam.stack import MIGRATE, SamStack
from tests.support.checkout import CHECKOUT

pytestmark = pytest.mark.timeout(600)

EVENTS = CHECKOUT / "events"
API_STATUS = {
    "api-post-job.json": 201,
    "api-post-job-base64.json": 201,
    "api-post-batch.json": 201,
    "api-get-job.json": 404,  # of a job that this database has never had
    "api-list-jobs.json": 200,
    "api-health.json": 200,
    "api-stats.json": 200,
}


def event(name: str) -> dict[str, Any]:
    return dict(json.loads((EVENTS / name).read_text()))


def test_every_event_is_invoked_somewhere_here() -> None:
    ours = {
        "scheduler-trigger.json",
        "scheduler-wake.json",
        "worker-batch.json",
        "rescue-worker.json",
        "rescue-scheduler.json",
    }
    migrations = {"migrate.json", "migrate-create.json", "migrate-update.json", "migrate-delete.json"}
    assert {path.name for path in EVENTS.glob("*.json")} == {*API_STATUS, *ours, *migrations, "env.json"}


def test_the_migration_made_the_schema_and_the_roles(stack: SamStack) -> None:
    returned, log = stack.migrated
    versions = [step.version for step, _ in steps()]
    assert returned == {"applied": versions, "version": versions[-1], "roles": True}
    assert '"service":"migrate"' in log


@pytest.mark.parametrize(("name", "status"), API_STATUS.items())
def test_the_api_answers(stack: SamStack, name: str, status: int) -> None:
    answer, _ = stack.invoke("ApiFunction", EVENTS / name)
    assert answer["statusCode"] == status


def test_the_drivers_fast_half_is_the_one_that_runs(stack: SamStack) -> None:
    """Psycopg falls back to a slow one in silence; its C half is in the layer, for this processor."""
    code = "import psycopg; print(psycopg.pq.__impl__)"
    assert stack.run_in_container(code) == "binary"


@pytest.mark.parametrize("name", ["scheduler-trigger.json", "scheduler-wake.json"])
def test_the_scheduler_ticks_and_leaves_when_there_is_nothing_to_do(stack: SamStack, name: str) -> None:
    with stack.connect() as connection:
        connection.execute("UPDATE dilamme.jobs SET status = 'cancelled', finished_at = now() WHERE status = 'pending'")
    returned, log = stack.invoke("SchedulerFunction", EVENTS / name)
    assert returned["ticks"] >= 3
    assert '"DeadJobs"' in log


def test_a_worker_that_nobody_invited_leaves(stack: SamStack) -> None:
    assert stack.invoke("WorkerFunction", EVENTS / "worker-batch.json")[0] == {"admitted": False, "settled": 0}


def test_a_worker_that_was_invited_runs_what_is_there(stack: SamStack) -> None:
    job = {"type": "demo.echo", "payload": {"n": 1}}
    posting = event("api-post-job.json")
    headers = {"content-type": "application/json"}  # without its idempotency key, which stands for another job by now
    stack.invoke("ApiFunction", {**posting, "headers": headers, "body": json.dumps(job)})
    invited = event("worker-batch.json")
    with stack.connect() as connection:
        invitation = "state = 'invited', token = %(token)s, held_until = now() + interval '5 minutes'"
        connection.execute(f"UPDATE dilamme.worker_slots SET {invitation} WHERE slot = %(slot)s", invited)
    returned, log = stack.invoke("WorkerFunction", invited)
    assert returned["admitted"]
    assert returned["settled"] >= 1
    assert '"JobsCompleted"' in log


def test_a_lost_worker_is_rescued(stack: SamStack) -> None:
    assert stack.invoke("RescueFunction", EVENTS / "rescue-worker.json")[0] == {"jobs": 0}


def test_a_lost_scheduler_is_replaced(stack: SamStack) -> None:
    assert "invoked" in stack.invoke("RescueFunction", EVENTS / "rescue-scheduler.json")[0]


@pytest.mark.parametrize("kind", ["create", "update", "delete"])
def test_the_migration_answers_cloudformation(stack: SamStack, kind: str) -> None:
    with _Listener(stack.host) as listener:
        request = {**event(f"migrate-{kind}.json"), "ResponseURL": listener.url, "RequestId": str(uuid4())}
        stack.invoke(MIGRATE, request)
    (answer,) = listener.answers
    assert (answer["Status"], answer["RequestId"]) == ("SUCCESS", request["RequestId"]), answer
    assert answer["Data"] == ({} if kind == "delete" else {"WorkerConcurrency": 11})


class _Listener:
    """Where CloudFormation would listen, for containers to reach."""

    def __init__(self, host: str) -> None:
        answers: list[Any] = []

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                answers.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self.answers = answers
        self._server = HTTPServer((host, 0), Handler)
        self.url = f"http://{host}:{self._server.server_port}/answer"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
