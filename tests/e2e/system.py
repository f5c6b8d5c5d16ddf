"""A running stack as the tests see it: over HTTP, by what its handlers wrote down, and by the processes it runs."""

import http.client
import json
import os
import signal
import time
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit
from uuid import uuid4

import boto3
import psycopg

from dilamme_local.dispatcher import Running
from dilamme_local.faults import Fault, Kind
from dilamme_local.stack import Stack
from tests.support.answers import Answer
from tests.support.waiting import wait_until

JSON = "application/json"
LIVE = ("pending", "running")


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def seconds_between(earlier: str, later: str) -> float:
    return (moment(later) - moment(earlier)).total_seconds()


class System:
    """``folder`` holds the journal and the gates of the handlers in ``jobs/``."""

    def __init__(self, stack: Stack, folder: Path) -> None:
        self.stack = stack
        self.folder = folder
        self.letters_read: list[dict[str, Any]] = []
        self._gates: list[str] = []
        self._sqs = boto3.Session("local", "local", None, "us-east-1").client("sqs", endpoint_url=stack.aws_url)

    # ----- HTTP

    def request(
        self, method: str, path: str, body: bytes | str | None = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """One request on a connection of its own, so that many threads may call."""
        connection = http.client.HTTPConnection(urlsplit(self.stack.url).netloc, timeout=60)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            given = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, given, response.read())
        finally:
            connection.close()

    def post(self, path: str, content: Any = None, **headers: str) -> Answer:
        """Posts ``content`` as JSON; header names with an underscore in place of each hyphen."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        body = None if content is None else json.dumps(content)
        return self.request("POST", path, body, {"content-type": JSON, **named})

    def get(self, path: str, **query: Any) -> Any:
        answer = self.request("GET", f"{path}?{urlencode(query)}" if query else path)
        assert answer.status == 200, answer.body
        return answer.json

    def submit(self, type: str, payload: Any = None, **fields: Any) -> str:  # noqa: A002
        """Stores a job; its id."""
        answer = self.post("/jobs", {"type": type, "payload": {} if payload is None else payload, **fields})
        assert answer.status == 201, answer.body
        job_id: str = answer.json["id"]
        return job_id

    def submit_all(self, jobs: Sequence[dict[str, Any]]) -> list[str]:
        """Stores a batch; the ids in order."""
        answer = self.post("/jobs/batch", {"jobs": jobs})
        assert answer.status == 201, answer.body
        return [job["id"] for job in answer.json["jobs"]]

    def job(self, job_id: str) -> dict[str, Any]:
        view: dict[str, Any] = self.get(f"/jobs/{job_id}")
        return view

    def jobs(self, **filters: Any) -> list[dict[str, Any]]:
        """Every job that passes, newest first, over as many pages as it takes."""
        page = self.get("/jobs", limit=200, **filters)
        found = list(page["jobs"])
        while page["nextCursor"]:
            page = self.get("/jobs", limit=200, cursor=page["nextCursor"], **filters)
            found += page["jobs"]
        return found

    def wait_for(self, job_id: str, *statuses: str, seconds: float = 30) -> dict[str, Any]:
        """The job once it has one of the statuses, ``completed`` if none is given."""
        wanted = statuses or ("completed",)

        def look() -> dict[str, Any] | None:
            view = self.job(job_id)
            return view if view["status"] in wanted else None

        view = wait_until(look, seconds=seconds)
        assert view is not None
        return view

    def wait_for_all(self, ids: Iterable[str], seconds: float = 60) -> list[dict[str, Any]]:
        """The summaries of jobs that end, in the order of ``ids``."""
        ids = list(ids)
        wait_until(lambda: not self._unfinished(), seconds=seconds)
        views = {view["id"]: view for view in self.jobs()}
        return [views[job_id] for job_id in ids]

    def _unfinished(self) -> int:
        counts = self.get("/stats")["jobs"]
        return sum(counts[status]["count"] for status in LIVE)

    def soon(self, seconds: float) -> str:
        """A time so many seconds ahead, by the one clock."""
        return (moment(self.get("/stats")["at"]) + timedelta(seconds=seconds)).isoformat()

    # ----- what handlers did, and what they wait for

    def journal(self, *ids: str, step: str | None = None) -> list[dict[str, Any]]:
        """The lines that these jobs' handlers (or all) left, in order; of one step or of all."""
        file = self.folder / "journal"
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [line for line in lines if (not ids or line["job"] in ids) and step in (None, line["step"])]

    def starts(self, job_id: str) -> list[dict[str, Any]]:
        return self.journal(job_id, step="start")

    def new_gate(self) -> str:
        self._gates.append(uuid4().hex)
        return self._gates[-1]

    def open(self, gate: str) -> None:
        (self.folder / gate).touch()

    def submit_gated(self, **fields: Any) -> tuple[str, str]:
        """A job that runs until its gate is opened, and has begun to: its id and its gate."""
        gate = self.new_gate()
        job_id = self.submit("e2e.gate", {"gate": gate}, **fields)
        wait_until(lambda: self.starts(job_id))
        return job_id, gate

    # ----- processes and faults

    def arm(self, name: str, kind: Kind, **more: Any) -> None:
        self.stack.faults.arm(Fault(name, kind, **more))

    def running(self, function: str) -> list[Running]:
        """The invocations of a function at this moment."""
        return [one for one in self.stack.dispatcher.running() if one.invocation.function_name == function]

    def spare_worker(self) -> int:
        """The process of the next worker, once it waits for its event: for tests that a cold start would confuse."""
        pool = self.stack.dispatcher._pools["worker"]
        return wait_until(lambda: pool._idle)[-1].pid

    def worker_of(self, job_id: str) -> Running:
        """The invocation that runs a job."""
        token = self.get(f"/jobs/{job_id}/why")["worker"]
        (worker,) = [one for one in self.running("worker") if json.loads(one.invocation.event)["token"] == token]
        return worker

    def leader(self) -> Running | None:
        """The scheduler that holds the lease."""
        ((owner, leads),) = self.query("SELECT owner, expires_at > dilamme.clock() FROM dilamme.scheduler_lease")
        leaders = [one for one in self.running("scheduler") if one.invocation.request_id == str(owner)]
        return leaders[0] if leads and leaders else None

    def query(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Looks into the database as its administrator does."""
        with psycopg.connect(self.stack.database_url) as connection:
            return connection.execute(statement, parameters).fetchall()

    # ----- dead letters

    def letters(self, job_id: str) -> list[dict[str, Any]]:
        """The messages about a job that the queue has given so far."""
        answer = self._sqs.receive_message(
            QueueUrl=self.stack.queue_url, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
        )
        for message in answer.get("Messages", []):
            self.letters_read.append({**json.loads(message["Body"]), "attributes": message["MessageAttributes"]})
            self._sqs.delete_message(QueueUrl=self.stack.queue_url, ReceiptHandle=message["ReceiptHandle"])
        return [letter for letter in self.letters_read if letter["jobId"] == job_id]

    # ----- between two tests

    def tidy(self) -> None:
        """Leaves nothing that would run into the next test."""
        self.stack.faults.clear()
        for gate in self._gates:
            self.open(gate)
        wait_until(self._is_quiet, seconds=60)

    def _is_quiet(self) -> bool:
        for job in self.jobs(status="pending"):
            self.post(f"/series/{job['seriesId']}/cancel" if job["seriesId"] else f"/jobs/{job['id']}/cancel")
        return not self._unfinished() and not self.running("worker")


def kill(process: Running) -> float:
    """Ends exactly this invocation's process, as the out-of-memory killer would; when (seconds since 1970)."""
    os.kill(process.pid, signal.SIGKILL)
    return time.time()
