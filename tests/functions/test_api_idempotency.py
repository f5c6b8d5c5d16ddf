"""Idempotency keys: the same request twice is one job, whoever commits first and whoever rolls back."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import pytest

from dilamme.domain.errors import Conflict
from dilamme.store.connection import Connection, connect
from dilamme.usecases.submit import Receipt, submit_here
from dilamme.usecases.submit import submit as submit_job
from dilamme.wire.requests import Submission, parse
from tests.functions import states
from tests.functions.door import event, get, post, send
from tests.support.invocations import Invocations
from tests.support.rivals import wait_until_blocked

pytestmark = pytest.mark.usefixtures("door")

JOB = {"type": "demo.echo", "payload": {"a": 1, "b": [1, {"c": None}]}, "scheduledAt": "2035-01-01T00:00:00Z"}


def stored(connection: Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM dilamme.jobs").fetchall()[0][0])


def test_the_same_request_again_gets_the_first_job_in_its_present_state(connection: Connection) -> None:
    first = post("/jobs", JOB, key="k")
    states.finish(connection, first.json["id"], "completed", result=1)
    again = post("/jobs", JOB, key="k")
    assert (first.status, again.status) == (201, 200)
    assert again.json == get(f"/jobs/{first.json['id']}").json
    assert again.json["status"] == "completed"
    assert "location" not in again.headers
    assert stored(connection) == 1


SPELLINGS = {
    "other key order": '{"scheduledAt":"2035-01-01T00:00:00Z","payload":{"b":[1,{"c":null}],"a":1},"type":"demo.echo"}',
    "white space": json.dumps(JOB, indent=8),
    "escapes": json.dumps(JOB).replace("demo.echo", "\\u0064emo.echo").replace('"a"', '"\\u0061"'),
    "defaults written out": json.dumps(
        {
            **JOB,
            "priority": 2,
            "dependencyIds": [],
            "onDependencyFailure": "wait",
            "maxAttempts": None,
            "intervalSeconds": None,
        }
    ),
    "another time zone": json.dumps({**JOB, "scheduledAt": "2035-01-01T05:45:00+05:45"}),
    "zeros": json.dumps({**JOB, "scheduledAt": "2035-01-01T00:00:00.000000Z"}),
}


@pytest.mark.parametrize("body", SPELLINGS.values(), ids=SPELLINGS)
def test_what_counts_is_what_was_asked_for_not_how_it_was_spelt(body: str, connection: Connection) -> None:
    first = post("/jobs", JOB, key="k")
    again = post("/jobs", body, key="k")
    assert (again.status, again.json["id"]) == (200, first.json["id"])
    assert stored(connection) == 1


OTHERS: dict[str, dict[str, Any]] = {
    "type": {"type": "demo.sleep"},
    "payload": {"payload": {"a": 2}},
    "payload's kind of number": {"payload": {"a": 1.0, "b": [1, {"c": None}]}},
    "priority": {"priority": 1},
    "time": {"scheduledAt": "2035-01-01T00:00:00.000001Z"},
    "interval": {"intervalSeconds": 60},
    "attempts": {"maxAttempts": 3},
    "policy": {"onDependencyFailure": "cancel"},
}


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS)
def test_another_request_with_the_same_key_is_a_conflict(change: dict[str, Any], connection: Connection) -> None:
    post("/jobs", JOB, key="k")
    answer = post("/jobs", {**JOB, **change}, key="k")
    assert answer.status == 409
    assert answer.pointers == []
    assert stored(connection) == 1


def test_other_keys_and_no_key_are_other_jobs(connection: Connection) -> None:
    for key in ("k", "K", "a,b", "~!", None, None):
        assert post("/jobs", JOB, key=key).status == 201
    assert stored(connection) == 6


def test_a_key_covers_the_batch(connection: Connection) -> None:
    batch = {"jobs": [{"type": "a", "ref": "x"}, {"type": "b", "dependencyRefs": ["x"]}]}
    first = post("/jobs/batch", batch, key="k")
    states.finish(connection, first.json["jobs"][0]["id"], "completed")
    again = post("/jobs/batch", batch, key="k")
    assert (first.status, again.status) == (201, 200)
    assert [(job["id"], job["ref"]) for job in again.json["jobs"]] == [
        (job["id"], job["ref"]) for job in first.json["jobs"]
    ]
    assert [job["status"] for job in again.json["jobs"]] == ["completed", "pending"]
    assert post("/jobs/batch", {"jobs": batch["jobs"][:1]}, key="k").status == 409
    assert stored(connection) == 2


def test_a_job_of_a_batch_that_retention_has_removed_has_no_status(connection: Connection) -> None:
    batch = {"jobs": [{"type": "a"}, {"type": "b"}]}
    first = post("/jobs/batch", batch, key="k").json["jobs"]
    connection.execute("DELETE FROM dilamme.jobs WHERE id = %s", (first[0]["id"],))
    assert [job["status"] for job in post("/jobs/batch", batch, key="k").json["jobs"]] == [None, "pending"]


def test_a_repeated_request_wakes_nobody(invocations: Invocations) -> None:
    post("/jobs", {"type": "demo.echo"}, key="k")
    invocations.clear()
    post("/jobs", {"type": "demo.echo"}, key="k")
    assert invocations == []


def test_a_refused_request_does_not_use_the_key_up() -> None:
    assert post("/jobs", {**JOB, "priority": 4}, key="k").status == 422
    assert post("/jobs", JOB, key="k").status == 201


def test_a_key_is_found_whatever_the_case_of_its_headers_name() -> None:
    body = json.dumps(JOB)
    first = send(event("POST", "/jobs", body, {"Idempotency-Key": "k", "Content-Type": "application/json"}))
    again = send(event("POST", "/jobs", body, {"idempotency-key": "k", "content-type": "application/json"}))
    assert (first.status, again.status) == (201, 200)


# ----- races, on connections of their own: a function's process has one


@pytest.fixture
def rivals(database_url: str) -> Iterator[list[Connection]]:
    """Fifty connections."""
    with ExitStack() as stack:
        yield [stack.enter_context(closing(connect(database_url))) for _ in range(50)]


def test_fifty_at_once_with_one_key_are_one_job(rivals: list[Connection], connection: Connection) -> None:
    barrier = threading.Barrier(len(rivals))

    def enqueue(rival: Connection) -> Receipt:
        barrier.wait()
        return submit_job(rival, [parse(Submission, JOB)], "k", single=True)

    with ThreadPoolExecutor(len(rivals)) as pool:
        receipts = list(pool.map(enqueue, rivals))
    assert len({receipt.ids[0] for receipt in receipts}) == 1
    assert sum(receipt.created for receipt in receipts) == 1
    assert stored(connection) == 1


def test_of_two_requests_that_race_for_a_key_one_is_a_conflict(
    rivals: list[Connection], connection: Connection
) -> None:
    barrier = threading.Barrier(len(rivals))

    def enqueue(place: int) -> str:
        barrier.wait()
        try:
            return str(
                submit_job(rivals[place], [parse(Submission, {**JOB, "payload": place % 2})], "k", single=True).ids[0]
            )
        except Conflict:
            return "conflict"

    with ThreadPoolExecutor(len(rivals)) as pool:
        outcomes = list(pool.map(enqueue, range(len(rivals))))
    assert outcomes.count("conflict") == len(rivals) / 2
    assert len(set(outcomes)) == 2
    assert stored(connection) == 1


@pytest.mark.parametrize("commits", [True, False])
def test_a_race_ends_with_one_job_whichever_transaction_rolls_back(
    commits: bool, rivals: list[Connection], connection: Connection
) -> None:
    first, second = rivals[:2]
    job = [parse(Submission, JOB)]
    first.execute("BEGIN")
    kept = submit_here(first, job, "k", single=True)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(submit_job, second, job, "k", single=True)
        wait_until_blocked(connection, second)
        first.execute("COMMIT" if commits else "ROLLBACK")
        receipt = waiting.result()
    assert receipt.created is not commits
    assert (receipt.ids == kept.ids) is commits
    assert stored(connection) == 1


@pytest.mark.case("K1")
def test_a_key_whose_first_occurrence_is_gone_gets_the_newest_of_its_series(connection: Connection) -> None:
    """As retention leaves it: the first one deleted, its key with the series."""
    recurring = {**JOB, "intervalSeconds": 60}
    first = post("/jobs", recurring, key="k")
    post(f"/jobs/{first.json['id']}/cancel")
    connection.execute("UPDATE dilamme.series SET idempotency_key = 'k'")
    connection.execute("DELETE FROM dilamme.jobs WHERE idempotency_key = 'k'")
    again = post("/jobs", recurring, key="k")
    assert (again.status, again.json["status"], again.json["seriesId"]) == (200, "pending", first.json["seriesId"])
    assert stored(connection) == 1
    assert post("/jobs", JOB, key="k").status == 409
