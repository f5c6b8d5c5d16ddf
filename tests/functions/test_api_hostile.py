"""More that callers send: what looks like another name, a moment that is none, a megabyte in a field, an odd envelope."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from dilamme.store.connection import Connection
from tests.functions.door import event, get, post, send
from tests.functions.refusals import FIELDS, JOB, assert_refused, pointer

TYPED = {"content-type": "application/json"}

pytestmark = pytest.mark.usefixtures("door")

MEGABYTE = "x" * 1_000_000
METACHARACTERS = [
    "%s", "%(id)s", "%n%n", "{}", "{0.__class__}", "$1", "${jndi:x}", "\\", "'", '"', "';--", "/*", "\\x00", "\\u0000",
    "\r\nSet-Cookie: a=b", "\ufeff", "\u200b", "a\u0301", "\U0010ffff", "<script>", "-1", "NaN", "Infinity", "null\n",
]  # fmt: skip
KNOWN = ["type", "priority", "scheduledAt", "intervalSeconds", "dependencyIds", "maxAttempts", "onDependencyFailure"]


@pytest.fixture
def database_url(database_of_module: str) -> str:
    """One database for all: each test asserts that what it refused is not in it."""
    return database_of_module


@pytest.fixture(autouse=True)
def emptied(connection: Connection) -> Iterator[None]:
    """Leaves nothing of what a test has stored."""
    yield
    connection.execute("DELETE FROM dilamme.jobs")


@pytest.mark.parametrize("field", KNOWN)
@pytest.mark.parametrize("value", METACHARACTERS, ids=ascii)
def test_metacharacters_are_refused_where_they_mean_nothing(field: str, value: str, connection: Connection) -> None:
    answer = post("/jobs", {**JOB, field: value})
    assert_refused(answer, connection, 422)
    assert answer.pointers == [pointer(field)]


@pytest.mark.parametrize("value", METACHARACTERS, ids=ascii)
def test_metacharacters_in_a_payload_are_data(value: str) -> None:
    answer = post("/jobs", {**JOB, "payload": {value: value}})
    assert answer.status == 201, answer.text
    assert get(answer.headers["location"]).json["payload"] == {value: value}


@pytest.mark.parametrize("field", [name for name in FIELDS if name != "payload"])
def test_a_megabyte_in_a_field_is_refused_by_name_and_not_sent_back(field: str, connection: Connection) -> None:
    answer = post("/jobs", {**JOB, field: MEGABYTE})
    assert_refused(answer, connection, 422)
    assert answer.pointers == [pointer(field)]
    assert len(answer.text) < 2_000


@pytest.mark.case("B3")
@pytest.mark.parametrize(
    "moment",
    ["2016-12-31T23:59:60Z", "2030-06-30T23:59:60.5+00:00", "2030-01-01T24:00:00Z", "0000-01-01T00:00:00Z",
     "-0001-01-01T00:00:00Z", "+12030-01-01T00:00:00Z", "10000-01-01T00:00:00Z", "3000-01-01T00:00:00Z", "2029-02-29T00:00:00Z",
     "2030-01-01T00:00:00.Z", "2030-01-01T00:00:00,5Z", "2030-01-01T00:00:00-25:00", "2030-01-01T00:00:00+00:60",
     "2030-01-01T00:00:00\u2212 01:00", "2030-13-01T00:00:00Z", "2030-00-10T00:00:00Z", "epoch", "-infinity", "today", "1e3"],
)  # fmt: skip
def test_a_moment_that_is_none_is_refused(moment: str, connection: Connection) -> None:
    answer = post("/jobs", {**JOB, "scheduledAt": moment})
    assert_refused(answer, connection, 422)
    assert answer.pointers == ["/scheduledAt"]


@pytest.mark.parametrize(
    "name",
    ["тype", "type ", " type", "TYPE", "type\u200b", "t\u00fdpe", "__proto__", "__class__", "constructor", "max_attempts", "scheduled-at",
     "\u202etype", "%s", "a.b", "a[0]", "-", "0"],
)  # fmt: skip
def test_a_name_that_only_looks_like_a_fields_is_unknown(name: str, connection: Connection) -> None:
    answer = post("/jobs", {**JOB, name: "demo.echo"})
    assert_refused(answer, connection, 422)
    assert answer.pointers == [pointer(name)]
    assert_refused(post("/jobs/batch", {"jobs": [{**JOB, name: 1}]}), connection, 422)


@pytest.mark.parametrize(
    "number", ["1e0", "1.0", "-0", "01", "+1", "0x1", "1e400", "-1e400", "1E-400", "--1", "1_0", "١"]
)
def test_a_number_that_is_no_integer_is_refused(number: str, connection: Connection) -> None:
    for field in ("priority", "intervalSeconds", "maxAttempts"):
        assert_refused(post("/jobs", f'{{"type": "demo.echo", "{field}": {number}}}'), connection, 400, 422)


@pytest.mark.case("B6")
@pytest.mark.parametrize(
    "body",
    ["e30", "e30=\n", "e3-_", "=e30", "e3 0=", "e30=e30=", "\u00e9", "e30\0", "%7B%7D", "H4sIAAAAAAAAA6uuBQBDv6ajAgAAAA==", "gA=="],
)  # fmt: skip
def test_a_body_whose_encoding_is_broken_is_a_bad_request(body: str, connection: Connection) -> None:
    sent = event("POST", "/jobs", "", {"content-type": "application/json"}) | {"body": body, "isBase64Encoded": True}
    assert_refused(send(sent), connection, 400)


@pytest.mark.parametrize(
    ("content_type", "status"),
    [("APPLICATION/JSON", 201), ("application/json;charset=utf-16", 201), ("application/json;;=", 201), ("application/json,text/plain", 415),
     ("application/json\t", 201), ("application/problem+json", 415), ("text/json", 415), ("\u00e9", 415), ("x" * 100_000, 415), ("\0", 415)],
)  # fmt: skip
def test_an_odd_content_type_is_taken_or_refused_but_no_mistake_of_ours(content_type: str, status: int) -> None:
    answer = send(event("POST", "/jobs", json.dumps(JOB), {"content-type": content_type}))
    assert answer.status == status, answer.text
    assert len(answer.text) < 5_000


@pytest.mark.parametrize(
    "headers",
    [{"Content-Length": "-1"}, {"content-encoding": "gzip"}, {"expect": "100-continue"}, {"x-http-method-override": "DELETE"},
     {"accept": "text/html"}, {"cookie": "a=\0"}, {"traceparent": "x" * 9_000}, {"x-forwarded-for": "'; DROP TABLE dilamme.jobs"},
     {"": ""}, {"authorization": "Basic \u00e9"}],
    ids=ascii,
)  # fmt: skip
def test_headers_that_mean_nothing_here_change_nothing(headers: dict[str, str]) -> None:
    assert send(event("POST", "/jobs", json.dumps(JOB), {**TYPED, **headers})).status == 201


def test_an_envelope_without_its_optional_parts_is_read_all_the_same(connection: Connection) -> None:
    sent = event("POST", "/jobs", json.dumps(JOB), TYPED)
    for missing in ("isBase64Encoded", "rawQueryString", "routeKey", "version"):
        answer = send({name: part for name, part in sent.items() if name != missing})
        assert answer.status == 201, (missing, answer.text)
    without = send(event("POST", "/jobs", headers=TYPED) | {"body": None})
    assert without.status == 422
    assert send({name: part for name, part in sent.items() if name != "headers"}).status == 415


def test_a_body_beyond_its_limit_costs_no_parsing(monkeypatch: pytest.MonkeyPatch, connection: Connection) -> None:
    def parsed(*_: Any) -> None:
        raise AssertionError("was parsed")

    monkeypatch.setattr("dilamme.wire.strict_json.loads", parsed)
    for path in ("/jobs", "/jobs/batch", "/dead-letters/replay"):
        assert_refused(post(path, "[" * 5_000_000), connection, 413)
