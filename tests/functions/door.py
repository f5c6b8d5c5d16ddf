"""Calls the API's handler as API Gateway does: an event in, an answer out."""

import base64
import json
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

from functions.api import handler as api
from tests.support.answers import Answer

CONTEXT = SimpleNamespace(
    function_name="dilamme-api",
    memory_limit_in_mb=512,
    invoked_function_arn="arn:aws:lambda:us-east-1:123456789012:function:dilamme-api",
    aws_request_id="00000000-0000-4000-8000-000000000000",
    get_remaining_time_in_millis=lambda: 30_000,
)


def event(
    method: str,
    path: str,
    body: str | None = None,
    headers: dict[str, str] | None = None,
    query: dict[str, str] | None = None,
    *,
    encoded: bool = False,
) -> dict[str, Any]:
    """An event of payload format 2.0."""
    made: dict[str, Any] = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": urlencode(query or {}, errors="surrogatepass"),
        "headers": {"host": "localhost", **(headers or {})},
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "local",
            "domainName": "localhost",
            "http": {
                "method": method,
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": "127.0.0.1",
                "userAgent": "test",
            },
            "requestId": "a-request",
            "stage": "$default",
        },
        "isBase64Encoded": encoded,
    }
    if query:
        made["queryStringParameters"] = query
    if body is not None:
        made["body"] = base64.b64encode(body.encode()).decode() if encoded else body
    return made


def send(sent: dict[str, Any]) -> Answer:
    """The handler's answer, which must be one that API Gateway takes."""
    answer = api.handler(json.loads(json.dumps(sent)), CONTEXT)
    headers = {name.lower(): value for name, value in answer["headers"].items()}
    assert all(isinstance(value, str) for value in headers.values())
    assert answer["isBase64Encoded"] is False
    return Answer(answer["statusCode"], headers, answer["body"].encode())


def get(path: str, **query: Any) -> Answer:
    return send(event("GET", path, query={name: str(value) for name, value in query.items()}))


def post(path: str, body: Any = None, key: str | None = None, **headers: str) -> Answer:
    """Posts ``body`` as JSON; a string as it is."""
    text = body if isinstance(body, str) or body is None else json.dumps(body)
    sent = {"content-type": "application/json", **headers}
    if key is not None:
        sent["idempotency-key"] = key
    return send(event("POST", path, text, sent))


def submit(type: str = "demo.echo", **fields: Any) -> dict[str, Any]:  # noqa: A002
    """Stores a job; its view."""
    answer = post("/jobs", {"type": type, **fields})
    assert answer.status == 201, answer.text
    view: dict[str, Any] = answer.json
    return view
