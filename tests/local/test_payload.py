"""HTTP requests become API Gateway events of payload format 2.0, and answers become HTTP responses."""

import base64
import json
from typing import Any

import pytest

from dilamme_local import payload


def make(
    method: str = "GET", target: str = "/", headers: list[tuple[str, str]] | None = None, body: bytes = b""
) -> dict[str, Any]:
    return payload.event(method, target, headers or [], body, "192.0.2.1")


def test_an_event_has_the_documented_keys() -> None:
    event = make("POST", "/jobs?a=1", [("Content-Type", "application/json"), ("Cookie", "a=b")], b"{}")
    assert event.keys() == {
        "version",
        "routeKey",
        "rawPath",
        "rawQueryString",
        "cookies",
        "headers",
        "queryStringParameters",
        "requestContext",
        "body",
        "isBase64Encoded",
    }
    assert event["version"] == "2.0"
    assert event["requestContext"].keys() == {
        "accountId",
        "apiId",
        "domainName",
        "domainPrefix",
        "http",
        "requestId",
        "routeKey",
        "stage",
        "time",
        "timeEpoch",
    }


def test_what_a_request_does_not_have_its_event_does_not_have() -> None:
    event = make()
    assert not event.keys() & {"body", "cookies", "queryStringParameters"}
    assert event["isBase64Encoded"] is False


def test_the_request_line_is_told_in_the_context() -> None:
    event = make("PATCH", "/jobs/7?x=1", [("User-Agent", "curl/8"), ("Host", "localhost:3000")])
    assert event["requestContext"]["http"] == {
        "method": "PATCH",
        "path": "/jobs/7",
        "protocol": "HTTP/1.1",
        "sourceIp": "192.0.2.1",
        "userAgent": "curl/8",
    }
    assert event["requestContext"]["domainName"] == "localhost:3000"
    assert event["routeKey"] == event["requestContext"]["stage"] == "$default"


def test_the_path_is_decoded_and_the_query_is_kept_as_sent() -> None:
    event = make(target="/a%20b/%C3%BC?q=x%20y&empty=")
    assert event["rawPath"] == event["requestContext"]["http"]["path"] == "/a b/ü"
    assert event["rawQueryString"] == "q=x%20y&empty="
    assert event["queryStringParameters"] == {"q": "x y", "empty": ""}


def test_repeated_parameters_are_joined_by_commas() -> None:
    assert make(target="/?a=1&b=2&a=3")["queryStringParameters"] == {"a": "1,3", "b": "2"}


def test_header_names_are_in_lower_case_and_repeated_headers_joined() -> None:
    headers = make(headers=[("X-One", "1"), ("x-one", "2"), ("Idempotency-Key", "Ab")])["headers"]
    assert headers["x-one"] == "1,2"
    assert headers["idempotency-key"] == "Ab"
    assert headers["x-forwarded-for"] == "192.0.2.1"


def test_cookies_stand_apart() -> None:
    event = make(headers=[("Cookie", "a=1; b=2"), ("Cookie", "c=3")])
    assert event["cookies"] == ["a=1", "b=2", "c=3"]
    assert "cookie" not in event["headers"]


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "Application/JSON; charset=utf-8", "text/plain", "application/xml", "application/javascript"],
)
def test_a_text_body_is_kept(content_type: str) -> None:
    event = make("POST", headers=[("Content-Type", content_type)], body="{ü}".encode())
    assert (event["body"], event["isBase64Encoded"]) == ("{ü}", False)


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ([("Content-Type", "application/octet-stream")], b"\x00\xff"),
        ([("Content-Type", "application/x-www-form-urlencoded")], b"a=1"),
        ([("Content-Type", "application/problem+json")], b"{}"),
        ([("Content-Type", "application/json")], b"\xff"),
        ([], b"{}"),
    ],
)
def test_every_other_body_is_base64(headers: list[tuple[str, str]], body: bytes) -> None:
    event = make("POST", headers=headers, body=body)
    assert event["isBase64Encoded"] is True
    assert base64.b64decode(event["body"]) == body


def test_an_answer_becomes_a_response() -> None:
    answer = {
        "statusCode": 201,
        "headers": {"Location": "/jobs/1", "Content-Type": "application/json", "X-True": True},
        "cookies": ["a=1", "b=2"],
        "body": "{ü}",
        "isBase64Encoded": False,
    }
    response = payload.response(json.dumps(answer).encode())
    assert response.status == 201
    assert response.body == "{ü}".encode()
    assert response.headers == [
        ("Location", "/jobs/1"),
        ("Content-Type", "application/json"),
        ("X-True", "true"),
        ("Set-Cookie", "a=1"),
        ("Set-Cookie", "b=2"),
    ]


def test_a_base64_answer_is_decoded() -> None:
    answer = {"statusCode": 200, "body": base64.b64encode(b"\x00\xff").decode(), "isBase64Encoded": True}
    assert payload.response(json.dumps(answer).encode()).body == b"\x00\xff"


@pytest.mark.parametrize("answer", [{"hello": "world"}, ["a"], 3])
def test_an_answer_without_a_status_is_the_body_of_a_200(answer: object) -> None:
    response = payload.response(json.dumps(answer).encode())
    assert (response.status, json.loads(response.body)) == (200, answer)


@pytest.mark.parametrize(
    "answer",
    [
        {"statusCode": "two hundred"},
        {"statusCode": 200, "body": {"not": "text"}},
        {"statusCode": 200, "headers": ["not", "a", "map"]},
        {"statusCode": 200, "headers": {"X": "a\r\nSet-Cookie: b"}},
        {"statusCode": 200, "headers": {"X": "☃"}},
        {"statusCode": 200, "body": "not base64!", "isBase64Encoded": True},
    ],
)
def test_a_malformed_answer_is_the_gateways_500(answer: object) -> None:
    assert payload.response(json.dumps(answer).encode()) == payload.INTERNAL_SERVER_ERROR
