"""Hostile input: every field with everything that is wrong, and the request itself. Refused by name, and nothing stored."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from dilamme.store.connection import Connection
from dilamme.wire.requests import BATCH_BYTES_MAX, PAYLOAD_BYTES_MAX
from tests.functions.door import event, get, post, send
from tests.functions.refusals import ANYTHING, FIELDS, JOB, NOBODY, NUL, SURROGATE, assert_refused, pointer

pytestmark = pytest.mark.usefixtures("door")


def cases() -> Iterator[Any]:
    for field, (besides, taken) in FIELDS.items():
        for number, value in enumerate([*besides, *(value for value in ANYTHING if not _in(value, taken))]):
            yield pytest.param(field, value, id=f"{field or 'empty'}-{number}-{ascii(value)[:30]}")


def _in(value: Any, values: list[Any]) -> bool:
    return any(type(other) is type(value) and other == value for other in values)


@pytest.fixture
def database_url(database_of_module: str) -> str:
    """One database for all cases: each asserts that it is still empty."""
    return database_of_module


@pytest.mark.case("B3")
@pytest.mark.parametrize(("field", "value"), list(cases()))
def test_a_wrong_value_is_refused_with_a_pointer_to_its_field(field: str, value: Any, connection: Connection) -> None:
    answer = post("/jobs", {**JOB, field: value}, key="k")
    assert_refused(answer, connection, 413 if value == "x" * PAYLOAD_BYTES_MAX else 422)
    (found,) = answer.pointers
    assert found == pointer(field) or found.startswith(pointer(field) + "/")


@pytest.mark.parametrize(
    "field", ["type", "priority", "payload", "scheduledAt", "ref", "dependencyRefs", "dependencyIds", "unknown"]
)
def test_a_wrong_value_in_a_batch_is_refused_with_its_place(field: str, connection: Connection) -> None:
    wrong = {"payload": [NUL], "unknown": 1}.get(field, [SURROGATE])
    answer = post("/jobs/batch", {"jobs": [JOB, {**JOB, field: wrong}]}, key="k")
    assert_refused(answer, connection, 422)
    assert answer.pointers[0].startswith(f"/jobs/1/{field}")


def test_all_wrong_fields_are_named_at_once(connection: Connection) -> None:
    answer = post("/jobs", {"type": "A", "priority": 0, "maxAttempts": 26, "more": 1})
    assert_refused(answer, connection, 422)
    assert sorted(answer.pointers) == ["/maxAttempts", "/more", "/priority", "/type"]


def test_the_callers_values_are_not_repeated_in_the_answer(connection: Connection) -> None:
    answer = post(
        "/jobs", {"type": "Secret-1", "priority": "Secret-2", "scheduledAt": "Secret-3", "payload": ["Secret-4\0"]}
    )
    assert_refused(answer, connection, 422)
    assert "Secret" not in answer.text


BATCHES: list[tuple[Any, str]] = [
    ({}, "/jobs"),
    ({"jobs": []}, "/jobs"),
    ({"jobs": None}, "/jobs"),
    ({"jobs": JOB}, "/jobs"),
    ({"jobs": [JOB] * 1001}, "/jobs"),
    ({"jobs": [None]}, "/jobs/0"),
    ({"jobs": [[JOB]]}, "/jobs/0"),
    ({"jobs": [JOB], "more": 1}, "/more"),
    ({"jobs": [{**JOB, "ref": "a"}, {**JOB, "ref": "a"}]}, "/jobs/1/ref"),
    ({"jobs": [{**JOB, "ref": ""}]}, "/jobs/0/ref"),
    ({"jobs": [{**JOB, "ref": "a b"}]}, "/jobs/0/ref"),
    ({"jobs": [{**JOB, "dependencyRefs": ["nobody"]}]}, "/jobs/0/dependencyRefs/0"),
    ({"jobs": [{**JOB, "dependencyRefs": [NOBODY] * 1001}]}, "/jobs/0/dependencyRefs"),
    ({"jobs": [{**JOB, "dependencyIds": [NOBODY]}]}, "/jobs/0/dependencyIds/0"),
]


@pytest.mark.parametrize(("body", "place"), BATCHES, ids=range(len(BATCHES)))
def test_a_wrong_batch_is_refused(body: Any, place: str, connection: Connection) -> None:
    answer = post("/jobs/batch", body, key="k")
    assert_refused(answer, connection, 422)
    assert answer.pointers == [place]


@pytest.mark.case("W7")
def test_a_batch_with_too_many_dependencies_is_refused_at_the_field_that_exceeds(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W7: a thousand jobs, all to all, and by ids. Refused before the database is asked for anything."""
    monkeypatch.delattr("dilamme.usecases.submit._submit")
    all_to_all = [
        {**JOB, "ref": str(index), "dependencyRefs": [str(one) for one in range(index)]} for index in range(1000)
    ]
    by_id = [{**JOB, "dependencyIds": [NOBODY] * 100} for _ in range(501)]
    for jobs, place in ((all_to_all, "/jobs/316/dependencyRefs"), (by_id, "/jobs/500/dependencyIds")):
        answer = post("/jobs/batch", {"jobs": jobs}, key="k")
        assert_refused(answer, connection, 422)
        assert answer.pointers == [place]
        assert "50,000" in answer.text
        assert "one job that waits for all of them" in answer.text


def test_a_flood_of_faults_is_answered_briefly(connection: Connection) -> None:
    unknown = {f"field{number}": 1 for number in range(45)}
    answer = post("/jobs/batch", {"jobs": [{**JOB, **unknown}] * 1000})
    assert_refused(answer, connection, 422)
    assert len(answer.pointers) == 100
    assert "45,000 faults" in answer.json["detail"]
    for body in (
        {**JOB, **{f"field{number}": 1 for number in range(50_000)}},
        {"jobs": [1], **dict.fromkeys(map(str, range(99)))},
    ):
        answer = post("/jobs/batch" if "jobs" in body else "/jobs", body)
        assert_refused(answer, connection, 422)
        assert answer.pointers == [""]


def test_long_names_of_unknown_fields_are_answered_briefly(connection: Connection) -> None:
    answer = post(
        "/jobs/batch", json.dumps({"jobs": [{**JOB, "é" * 500_000: 1, "x" * 500_000: 2}]}, ensure_ascii=False)
    )
    assert_refused(answer, connection, 422)
    assert len(answer.pointers) == 2
    assert len(answer.text) < 5_000
    alone = post("/jobs", {**JOB, "x" * 500_000: 1})
    assert alone.status == 422
    assert len(alone.text) < 5_000


# ----- bodies

MALFORMED = {
    "nothing closed": '{"type": "demo.echo"',
    "a comma too many": '{"type": "demo.echo",}',
    "single quotes": "{'type': 'demo.echo'}",
    "two values": '{"type": "demo.echo"} {}',
    "NaN": '{"type": "demo.echo", "payload": NaN}',
    "Infinity": '{"type": "demo.echo", "payload": [Infinity]}',
    "-Infinity": '{"type": "demo.echo", "priority": -Infinity}',
    "a control character": '{"type": "demo.echo", "payload": "\n"}',
    "a byte order mark": '\ufeff{"type": "demo.echo"}',
    "half a surrogate pair, unescaped": '{"type": "demo.echo", "payload": "\ud800"}',
    "a form": "type=demo.echo",
    "a name twice": '{"type": "demo.echo", "priority": 1, "priority": 3}',
    "a name twice, in the payload": '{"type": "demo.echo", "payload": {"a": [{"b": 1, "b": 2}]}}',
    "a name twice, once escaped": '{"type": "demo.echo", "\\u0074ype": "demo.sleep"}',
}
NOT_AN_OBJECT = {
    "nothing": "",
    "white space": " \n",
    "null": "null",
    "an array": "[]",
    "an array of a job": '[{"type": "demo.echo"}]',
    "a string": '"demo.echo"',
    "a number": "1",
}
PATHS = ["/jobs", "/jobs/batch", "/dead-letters/replay"]


@pytest.mark.case("B4")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_what_is_not_json_is_a_bad_request(path: str, body: str, connection: Connection) -> None:
    assert_refused(post(path, body), connection, 400)


@pytest.mark.case("B4")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("body", NOT_AN_OBJECT.values(), ids=NOT_AN_OBJECT)
def test_json_that_is_no_object_is_refused(path: str, body: str, connection: Connection) -> None:
    answer = post(path, body)
    assert_refused(answer, connection, 422)
    assert answer.pointers == [""]


@pytest.mark.parametrize("field", ["priority", "intervalSeconds", "maxAttempts", "payload"])
@pytest.mark.parametrize("number", ["1e400", "-1e400", "[1e400]"])
def test_a_number_beyond_a_double_is_refused(field: str, number: str, connection: Connection) -> None:
    answer = post("/jobs", f'{{"type": "demo.echo", "{field}": {number}}}')
    assert_refused(answer, connection, 422)
    assert answer.pointers == [f"/{field}"]


@pytest.mark.parametrize("value", ["[" * 100_000 + "]" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000, "9" * 5000])
def test_a_nest_or_a_number_that_cannot_be_read_is_refused(value: str, connection: Connection) -> None:
    for body in (
        value,
        f'{{"type": "demo.echo", "payload": {value}}}',
        f'{{"type": "demo.echo", "priority": {value}}}',
    ):
        answer = post("/jobs", body)
        assert_refused(answer, connection, 422)
        assert answer.pointers == [""]


def test_no_body_at_all_is_refused(connection: Connection) -> None:
    assert_refused(post("/jobs"), connection, 422)


@pytest.mark.case("B4")
@pytest.mark.parametrize(
    "content_type",
    [
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain",
        "application/jsonp",
        "json",
        "*/*",
        ";",
    ],
)
def test_another_content_type_is_refused_with_the_remedy(content_type: str, connection: Connection) -> None:
    answer = send(event("POST", "/jobs", json.dumps(JOB), {"content-type": content_type}, encoded=True))
    assert_refused(answer, connection, 415)
    assert "Content-Type: application/json" in answer.json["detail"]


@pytest.mark.case("E7")
@pytest.mark.parametrize("path", ["/jobs", "/jobs/batch"])
@pytest.mark.parametrize("body", [json.dumps(JOB), json.dumps({"jobs": [JOB]}), "", None])
def test_no_content_type_is_refused_with_the_remedy(path: str, body: str | None, connection: Connection) -> None:
    """A web page of another origin can send such a body without asking first; it cannot say that it is JSON."""
    for encoded in (True, False):
        answer = send(event("POST", path, body, encoded=encoded))
        assert_refused(answer, connection, 415)
        assert "Content-Type: application/json', which is missing" in answer.json["detail"]


@pytest.mark.parametrize(("body", "encoded"), [("\xff\xfe", True), ("no base64!", True), ("e30", True)])
def test_a_body_that_is_no_text_is_a_bad_request(body: str, encoded: bool, connection: Connection) -> None:
    sent = event("POST", "/jobs", "", {"content-type": "application/json"})
    sent |= {"body": "//4=" if body == "\xff\xfe" else body, "isBase64Encoded": encoded}
    assert_refused(send(sent), connection, 400)


@pytest.mark.case("B2")
def test_a_payload_over_256_kib_is_refused(connection: Connection) -> None:
    for payload in ("x" * (PAYLOAD_BYTES_MAX - 1), "é" * (PAYLOAD_BYTES_MAX // 2), {"a": "x" * PAYLOAD_BYTES_MAX}):
        answer = post("/jobs", {**JOB, "payload": payload})
        assert_refused(answer, connection, 413)
        assert answer.pointers == ["/payload"]
        answer = post("/jobs/batch", {"jobs": [JOB, {**JOB, "payload": payload}]})
        assert_refused(answer, connection, 413)
        assert answer.pointers == ["/jobs/1/payload"]


@pytest.mark.case("B2")
@pytest.mark.parametrize(
    ("path", "limit"),
    [("/jobs", 4 * PAYLOAD_BYTES_MAX), ("/jobs/batch", BATCH_BYTES_MAX), ("/dead-letters/replay", 4096)],
)
@pytest.mark.parametrize("encoded", [False, True])
def test_a_body_beyond_its_limit_is_refused_before_it_is_read(
    path: str, limit: int, encoded: bool, connection: Connection
) -> None:
    headers = {"content-type": "application/json"}
    for body in ("{" * (limit + 1), "é" * (limit // 2 + 1), " " * 3 * limit):
        answer = send(event("POST", path, body, headers, encoded=encoded))
        assert_refused(answer, connection, 413)
        assert f"{limit:,} bytes" in answer.json["detail"]
    assert_refused(send(event("POST", path, "{" * limit, headers, encoded=encoded)), connection, 400)


# ----- headers, paths, parameters


@pytest.mark.parametrize("key", ["", " ", "a b", "é", NUL, "a\0", "a\n", "k" * 256, "\x7f"])
def test_a_wrong_key_is_refused_by_name(key: str, connection: Connection) -> None:
    for path, body in (("/jobs", JOB), ("/jobs/batch", {"jobs": [JOB]})):
        answer = post(path, body, key=key)
        assert_refused(answer, connection, 422)
        assert answer.pointers == ["/idempotency-key"]


@pytest.mark.parametrize(
    "job_id",
    ["nope", "0", NOBODY, str(UUID(int=0)), "01890a5dac96774bbcceb302099a8057", "{01890a5d-ac96-774b-bcce-b302099a8057}", NUL,
     "a\0b", SURROGATE, "é", "..", "%00", "%2e%2e", " ", "x" * 5000, "batch", "'; DROP TABLE dilamme.jobs; --"],
)  # fmt: skip
def test_an_id_that_is_none_of_ours_is_not_found(job_id: str, connection: Connection) -> None:
    for method, path in (
        ("GET", f"/jobs/{job_id}/why"),
        ("POST", f"/jobs/{job_id}/cancel"),
        ("POST", f"/jobs/{job_id}/replay"),
        ("POST", f"/series/{job_id}/cancel"),
        *([("GET", f"/jobs/{job_id}")] if job_id != "batch" else []),
    ):
        sent = event(method, path)
        assert_refused(send(sent), connection, 404)


WRONG_PARAMETERS = {
    "status": ["", "Dead", "done", "dead,running", NUL, SURROGATE],
    "type": ["", "A", "a b", NUL, "a\0", SURROGATE, "a,b", "a" * 101],
    "priority": ["", "0", "4", "1.5", "high", "true", "1,2", NUL, "9" * 5000],
    "seriesId": ["", "x", NUL, "1", SURROGATE],
    "limit": ["", "0", "-1", "201", "1.5", "ten", "9" * 5000, NUL],
    "cursor": ["", "x", "AAAA", NUL, SURROGATE, "é", "=" * 9, "A" * 27, "x" * 5000, str(UUID(int=0))],
    "stauts": ["dead"],
    "offset": ["1"],
}


@pytest.mark.parametrize("name", WRONG_PARAMETERS)
def test_a_wrong_parameter_is_refused_by_name(name: str, connection: Connection) -> None:
    for value in WRONG_PARAMETERS[name]:
        answer = get("/jobs", **{name: value})
        assert_refused(answer, connection, 422)
        assert answer.pointers == [f"/{name}"], value


@pytest.mark.parametrize(
    "body", [{"type": "A"}, {"type": 1}, {"limit": 0}, {"limit": 1001}, {"limit": "1"}, {"limit": True}, {"more": 1}]
)
def test_a_wrong_replay_of_dead_letters_is_refused(body: dict[str, Any], connection: Connection) -> None:
    answer = post("/dead-letters/replay", body)
    assert_refused(answer, connection, 422)
    assert answer.pointers == [f"/{name}" for name in body]


# ----- routes


@pytest.mark.parametrize(
    "path",
    ["/", "", "/nothing", "/jobs/", "//jobs", "/JOBS", f"/jobs/{NOBODY}/", f"/jobs/{NOBODY}/retry", "/series", NUL],
)
def test_an_unknown_path_is_not_found(path: str, connection: Connection) -> None:
    for method in ("GET", "POST", "DELETE"):
        assert_refused(send(event(method, path)), connection, 404)


METHODS = {
    "/jobs": "GET, POST",
    "/jobs/batch": "POST",
    "/jobs/01890a5d-ac96-774b-bcce-b302099a8057": "GET",
    "/jobs/01890a5d-ac96-774b-bcce-b302099a8057/why": "GET",
    "/jobs/01890a5d-ac96-774b-bcce-b302099a8057/cancel": "POST",
    "/jobs/01890a5d-ac96-774b-bcce-b302099a8057/replay": "POST",
    "/series/01890a5d-ac96-774b-bcce-b302099a8057/cancel": "POST",
    "/dead-letters/replay": "POST",
    "/stats": "GET",
    "/health": "GET",
    "/openapi.json": "GET",
    "/docs": "GET",
}


@pytest.mark.case("B4")
@pytest.mark.parametrize(("path", "allowed"), METHODS.items())
def test_a_wrong_method_is_refused_and_the_right_ones_are_named(
    path: str, allowed: str, connection: Connection
) -> None:
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "BREW"):
        if method not in allowed:
            answer = send(event(method, path, json.dumps(JOB), {"content-type": "application/json"}))
            assert_refused(answer, connection, 405)
            assert answer.headers["allow"] == allowed
