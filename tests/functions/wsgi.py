"""The API's handler as a WSGI application: each request becomes API Gateway's event, as the local gateway makes it."""

from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from typing import Any

from dilamme_local import payload
from tests.functions.door import send


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answers in this process, from whichever database the test's door leads to."""
    body = environ["wsgi.input"].read()
    event = payload.event(environ["REQUEST_METHOD"], _target(environ), _headers(environ), body, "127.0.0.1")
    answer = send(event)
    # A status as a phrase, since WSGI wants one.
    start_response(f"{answer.status} {HTTPStatus(answer.status).phrase}", list(answer.headers.items()))
    return [answer.body]


def _target(environ: dict[str, Any]) -> str:
    path = environ["REQUEST_URI"].partition("?")[0]  # as sent, still percent-encoded
    return f"{path}?{environ['QUERY_STRING']}"


def _headers(environ: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in environ.items():
        if name.startswith("HTTP_"):
            yield name.removeprefix("HTTP_").replace("_", "-").lower(), value
    if environ.get("CONTENT_TYPE"):
        yield "content-type", environ["CONTENT_TYPE"]
