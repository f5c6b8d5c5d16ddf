"""Lists: newest first, page after page, each of them bounded."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from dilamme.domain.outcome import MESSAGE_CHARACTERS_MAX
from dilamme.store.connection import Connection
from dilamme.usecases import read
from tests.functions import states
from tests.functions.door import get, post, submit

LAMBDA_ANSWER_BYTES_MAX = 6 * 1024 * 1024

pytestmark = pytest.mark.usefixtures("door")


def batch(number: int, **fields: Any) -> list[str]:
    """Stores ``number`` jobs; their ids, oldest first."""
    answer = post("/jobs/batch", {"jobs": [{"type": "demo.echo", **fields}] * number})
    return [job["id"] for job in answer.json["jobs"]]


def pages(**query: Any) -> Iterator[list[str]]:
    """The ids of page after page."""
    cursor: dict[str, str] = {}
    while True:
        answer = get("/jobs", **query, **cursor)
        assert answer.status == 200, answer.text
        yield [job["id"] for job in answer.json["jobs"]]
        if answer.json["nextCursor"] is None:
            return
        cursor = {"cursor": answer.json["nextCursor"]}


def everything(**query: Any) -> list[str]:
    return [job_id for page in pages(**query) for job_id in page]


def test_jobs_are_listed_newest_first_without_payloads_and_results(connection: Connection) -> None:
    old, new = submit(payload={"secret": 1}), submit()
    states.finish(connection, old["id"], "completed", result="secret")
    answer = get("/jobs")
    assert [job["id"] for job in answer.json["jobs"]] == [new["id"], old["id"]]
    assert answer.json["nextCursor"] is None
    assert "secret" not in answer.text
    whole = get(f"/jobs/{old['id']}").json
    left_out = {"payload", "payloadVersion", "result", "errors", "dependencyIds"}
    assert answer.json["jobs"][1] == {name: value for name, value in whole.items() if name not in left_out}


@pytest.mark.parametrize("character", ["x", "é", "\U0001f600", '"', "\x01"])
def test_a_page_of_the_longest_error_messages_is_an_answer_that_lambda_takes(
    character: str, connection: Connection
) -> None:
    batch(200)
    connection.execute(
        "UPDATE dilamme.jobs SET errors = jsonb_build_array(jsonb_build_object('reason', 'error', 'message', %s::text,"
        " 'attempt', 1, 'at', dilamme.clock()))",
        (character * MESSAGE_CHARACTERS_MAX,),
    )
    answer = get("/jobs", limit=200)
    assert len(answer.json["jobs"]) == 200
    assert len(json.dumps(answer.text, ensure_ascii=False).encode()) < LAMBDA_ANSWER_BYTES_MAX


def test_an_empty_list_is_an_answer() -> None:
    for query in ({}, {"status": "dead"}, {"type": "none"}, {"seriesId": uuid4()}):
        assert get("/jobs", **query).json == {"jobs": [], "nextCursor": None}


@pytest.mark.parametrize("limit", [1, 7, 60, 61, 200])
def test_pages_hold_each_job_once_in_order(limit: int) -> None:
    ids = batch(61)
    found = list(pages(limit=limit))
    assert [job_id for page in found for job_id in page] == ids[::-1]
    assert all(len(page) == limit for page in found[:-1])
    assert len(found) == -(-len(ids) // limit)


def test_a_page_has_fifty_jobs_unless_asked_otherwise() -> None:
    batch(51)
    assert [len(page) for page in pages()] == [50, 1]


def test_what_is_stored_while_paging_moves_no_page() -> None:
    ids = batch(4)
    first = get("/jobs", limit=2).json
    batch(3)
    rest = get("/jobs", limit=9, cursor=first["nextCursor"]).json
    assert [job["id"] for job in first["jobs"] + rest["jobs"]] == ids[::-1]


def test_a_list_can_be_limited_to_a_status_a_type_a_priority_and_a_series(connection: Connection) -> None:
    urgent, mail, blocked = submit(priority=1), submit("email.send"), submit(dependencyIds=[submit()["id"]])
    parent = blocked["dependencyIds"][0]
    series = submit(intervalSeconds=60)
    ended = {status: submit(priority=3)["id"] for status in ("completed", "dead", "cancelled")}
    for status, job_id in ended.items():
        states.finish(connection, job_id, status)
    states.start(connection, mail["id"])
    assert everything(status="running") == [mail["id"]]
    assert set(everything(status="pending")) == {urgent["id"], blocked["id"], parent, series["id"]}
    assert {status: everything(status=status) for status in ended} == {status: [job] for status, job in ended.items()}
    assert everything(type="email.send") == [mail["id"]]
    assert everything(priority=1) == [urgent["id"]]
    assert everything(seriesId=series["seriesId"]) == [series["id"]]
    assert everything(status="dead", priority=3, type="demo.echo") == [ended["dead"]]
    assert everything(status="dead", priority=1) == []
    assert everything(status="running", seriesId=series["seriesId"]) == []


@pytest.mark.parametrize("query", [{"type": "rare"}, {"priority": "1"}, {"type": "rare", "priority": "1"}])
def test_a_call_looks_at_a_bounded_number_of_jobs_and_says_where_to_go_on(
    query: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "REACH", 10)
    oldest = batch(1, type="rare", priority=1)
    batch(26)
    middle = batch(2, type="rare", priority=1)
    batch(12)
    found = list(pages(**query, limit=5))
    assert found == [[], [middle[1], middle[0]], [], [], oldest]


@pytest.mark.parametrize(
    "query", [{"status": "dead"}, {"status": "cancelled"}, {"status": "pending"}, {"status": "running"}]
)
def test_few_jobs_of_a_status_are_found_at_once_however_many_others_there_are(
    query: dict[str, Any], connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "REACH", 2)
    monkeypatch.setattr(read, "FEW", 5)
    wanted, others = batch(5), batch(30)
    for job_id in others:
        states.finish(connection, job_id, "completed")
    for job_id in wanted:
        if query["status"] == "running":
            states.start(connection, job_id)
        elif query["status"] != "pending":
            states.finish(connection, job_id, query["status"])
    assert list(pages(**query, limit=3)) == [wanted[:1:-1], wanted[1::-1]]


@pytest.mark.parametrize("status", ["dead", "completed", "cancelled", "pending", "running"])
def test_many_jobs_of_a_status_are_found_window_by_window(
    status: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "REACH", 7)
    monkeypatch.setattr(read, "FEW", 5)
    wanted = []
    for number, job_id in enumerate(batch(40)):
        if number % 3:
            states.finish(connection, job_id, "completed" if status == "dead" else "dead")
            continue
        wanted.append(job_id)
        if status == "running":
            states.start(connection, job_id)
        elif status != "pending":
            states.finish(connection, job_id, status)
    assert everything(status=status, limit=4) == wanted[::-1]


def test_a_long_series_is_found_window_by_window(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "REACH", 4)
    monkeypatch.setattr(read, "FEW", 3)
    first = submit(intervalSeconds=60)
    ids = [first["id"]]
    for _ in range(8):
        batch(3)
        post(f"/jobs/{ids[-1]}/cancel")
        (newest,) = connection.execute(
            "SELECT id FROM dilamme.jobs WHERE series_id = %s AND status = 'pending'", (first["seriesId"],)
        ).fetchone()  # type: ignore[misc]
        ids.append(str(newest))
    assert everything(seriesId=first["seriesId"], limit=2) == ids[::-1]
    assert everything(seriesId=first["seriesId"], status="pending") == ids[-1:]


def test_pages_go_on_when_retention_takes_the_job_that_the_cursor_came_from(connection: Connection) -> None:
    ids = batch(4)
    first = get("/jobs", limit=2).json
    connection.execute("DELETE FROM dilamme.jobs WHERE id = ANY(%s)", ([UUID(ids[2]), UUID(ids[3])],))
    assert [job["id"] for job in get("/jobs", cursor=first["nextCursor"]).json["jobs"]] == ids[1::-1]


def test_a_cursor_serves_any_filter() -> None:
    old, new = submit(priority=1), submit(priority=3)
    cursor = get("/jobs", limit=1).json["nextCursor"]
    assert [job["id"] for job in get("/jobs", priority=1, cursor=cursor).json["jobs"]] == [old["id"]]
    assert get("/jobs", priority=3, cursor=cursor).json["jobs"] == []
    assert new["id"] not in get("/jobs", cursor=cursor).text
