"""API Gateway's HTTP API, payload format 2.0: an HTTP request into the event, the function's answer into a response.

From "Create AWS Lambda proxy integrations for HTTP APIs". What the page leaves open is as observed on AWS: ``rawPath`` is
decoded, and a body is plain text only for ``text/*`` and JSON, XML and JavaScript; everything else, a form and a missing
content type too, comes base64-encoded.
"""

import base64
import binascii
import json
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, unquote

from dilamme_local.invocation import ACCOUNT

TEXT_TYPES = {"application/json", "application/xml", "application/javascript"}
Headers = Iterable[tuple[str, str]]


@dataclass(frozen=True)
class Response:
    """``headers`` in order, a name more than once where there are cookies."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes


INTERNAL_SERVER_ERROR = Response(500, [("Content-Type", "application/json")], b'{"message":"Internal Server Error"}')


def event(method: str, target: str, headers: Headers, body: bytes, source_ip: str) -> dict[str, Any]:
    """The event for a request line's ``target`` (path and query, as sent)."""
    raw_path, _, raw_query = target.partition("?")
    path = unquote(raw_path)
    joined, cookies = _join(headers)
    optional: dict[str, Any] = {
        "cookies": cookies,
        "queryStringParameters": _query(raw_query),
        **_body(joined.get("content-type", ""), body),
    }
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": raw_query,
        "headers": {**joined, "x-forwarded-for": source_ip, "x-forwarded-proto": "http"},
        "requestContext": _context(method, path, joined, source_ip),
        "isBase64Encoded": False,
        **{name: value for name, value in optional.items() if value},
    }


def response(payload: bytes) -> Response:
    """The response for what the function returned: with a ``statusCode`` its parts, or else the body of a 200."""
    answer = json.loads(payload)
    if not isinstance(answer, dict) or "statusCode" not in answer:
        body = answer if isinstance(answer, str) else json.dumps(answer)
        return Response(200, [("Content-Type", "application/json")], body.encode())
    try:
        return _parts(answer)
    except (AttributeError, TypeError, ValueError, binascii.Error):
        return INTERNAL_SERVER_ERROR


def _parts(answer: dict[str, Any]) -> Response:
    headers = [(name, _text(value)) for name, value in (answer.get("headers") or {}).items()]
    headers += [("Set-Cookie", cookie) for cookie in answer.get("cookies") or []]
    if not any(name.lower() == "content-type" for name, _ in headers):
        headers.append(("Content-Type", "text/plain;charset=UTF-8"))
    body = answer.get("body") or ""
    decoded = base64.b64decode(body, validate=True) if answer.get("isBase64Encoded") else body.encode()
    return Response(int(answer["statusCode"]), [h for h in headers if h[0].lower() != "content-length"], decoded)


def _text(value: object) -> str:
    """A header's value. Raises: ValueError: it cannot be one."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if "\r" in text or "\n" in text:
        raise ValueError(text)
    return text.encode("latin-1").decode("latin-1")


def _join(headers: Headers) -> tuple[dict[str, str], list[str]]:
    """Header names in lower case, repeated ones joined by commas; cookies apart."""
    joined: dict[str, str] = {}
    cookies: list[str] = []
    for name, value in headers:
        key = name.lower()
        if key == "cookie":
            cookies += [cookie.strip() for cookie in value.split(";") if cookie.strip()]
        else:
            joined[key] = f"{joined[key]},{value}" if key in joined else value
    return joined, cookies


def _query(raw: str) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in parse_qsl(raw, keep_blank_values=True):
        joined[name] = f"{joined[name]},{value}" if name in joined else value
    return joined


def _body(content_type: str, body: bytes) -> dict[str, Any]:
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type.startswith("text/") or media_type in TEXT_TYPES:
        try:
            return {"body": body.decode()}
        except UnicodeDecodeError:
            pass  # what is not text after all
    return {"body": base64.b64encode(body).decode(), "isBase64Encoded": bool(body)}


def _context(method: str, path: str, headers: dict[str, str], source_ip: str) -> dict[str, Any]:
    now = time.time()
    return {
        "accountId": ACCOUNT,
        "apiId": "local",
        "domainName": headers.get("host", "localhost"),
        "domainPrefix": "local",
        "http": {
            "method": method,
            "path": path,
            "protocol": "HTTP/1.1",
            "sourceIp": source_ip,
            "userAgent": headers.get("user-agent", ""),
        },
        "requestId": str(uuid.uuid4()),
        "routeKey": "$default",
        "stage": "$default",
        "time": f"{datetime.fromtimestamp(now, UTC):%d/%b/%Y:%H:%M:%S +0000}",
        "timeEpoch": int(now * 1000),
    }
