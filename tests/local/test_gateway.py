"""The gateway answers HTTP clients by invoking a function, many at once, whatever they send."""

import http.client
import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dilamme_local.errors import StackError
from dilamme_local.functions import Function
from dilamme_local.gateway import Gateway
from tests.local.puppet_service import PuppetService

HANDLER = """
import json, os

def handler(event, context):
    if event["rawPath"] == "/raise":
        raise RuntimeError("a secret")
    if event["rawPath"] == "/exit":
        os._exit(1)
    if event["rawPath"] == "/empty":
        return {"statusCode": 204}
    if event["rawPath"] == "/long":
        return {"statusCode": 200, "body": "x" * 2_000_000}
    return {"statusCode": 200, "headers": {"Content-Type": "application/json"}, "body": json.dumps(event)}
"""


@pytest.fixture
def gateway(start: Callable[..., PuppetService], tmp_path: Path) -> Iterator[Gateway]:
    (tmp_path / "handler.py").write_text(HANDLER)
    gateway = Gateway(0)
    gateway.dispatcher = start(Function("api", tmp_path, timeout_seconds=29)).dispatcher
    gateway.start()
    yield gateway
    gateway.stop()


def connect(gateway: Gateway) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", gateway.server_address[1], timeout=30)


def ask(client: http.client.HTTPConnection, *request: Any, **more: Any) -> tuple[int, bytes]:
    client.request(*request, **more)
    response = client.getresponse()
    return response.status, response.read()


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PURGE"])
def test_every_method_and_path_reaches_the_function(gateway: Gateway, method: str) -> None:
    status, body = ask(connect(gateway), method, "/a/b?c=d")
    event = json.loads(body)
    assert (status, event["requestContext"]["http"]["method"], event["rawPath"]) == (200, method, "/a/b")


def test_a_body_arrives_whole(gateway: Gateway) -> None:
    sent = json.dumps({"text": "ü" * 300_000})
    status, body = ask(connect(gateway), "POST", "/", sent.encode(), {"Content-Type": "application/json"})
    assert (status, json.loads(body)["body"]) == (200, sent)


def test_a_chunked_body_arrives_whole(gateway: Gateway) -> None:
    chunks = iter([b'{"a"', b": 1", b"}"])
    client = connect(gateway)
    _, body = ask(client, "POST", "/", chunks, headers={"Content-Type": "application/json"}, encode_chunked=True)
    assert json.loads(body)["body"] == '{"a": 1}'
    assert ask(client, "GET", "/")[0] == 200


def test_a_head_request_has_no_body_and_the_connection_goes_on(gateway: Gateway) -> None:
    client = connect(gateway)
    assert ask(client, "HEAD", "/") == (200, b"")
    assert ask(client, "GET", "/empty") == (204, b"")
    assert ask(client, "GET", "/")[0] == 200


def test_a_long_answer_arrives_whole(gateway: Gateway) -> None:
    assert len(ask(connect(gateway), "GET", "/long")[1]) == 2_000_000


@pytest.mark.parametrize("path", ["/raise", "/exit"])
def test_a_failing_function_is_a_500_that_tells_nothing(gateway: Gateway, path: str) -> None:
    status, body = ask(connect(gateway), "GET", path)
    assert (status, json.loads(body)) == (500, {"message": "Internal Server Error"})


@pytest.mark.parametrize("size", [11 * 1024 * 1024, 200 * 1024 * 1024])
def test_a_body_over_ten_megabytes_is_refused(gateway: Gateway, size: int) -> None:
    client = connect(gateway)
    client.putrequest("POST", "/")
    client.putheader("Content-Length", str(size))
    client.endheaders(b"x" * min(size, 11 * 1024 * 1024))
    if size > 11 * 1024 * 1024:
        client.sock.shutdown(socket.SHUT_WR)
    response = client.getresponse()
    assert (response.status, json.loads(response.read())) == (413, {"message": "Request Entity Too Large"})


def test_a_body_that_outgrows_an_invocation_on_its_way_is_refused(gateway: Gateway) -> None:
    body = b'"' * (4 * 1024 * 1024)
    assert ask(connect(gateway), "POST", "/", body, {"Content-Type": "application/json"})[0] == 413


@pytest.mark.parametrize(
    "headers", ["Content-Length: -1", "Content-Length: many", "Transfer-Encoding: chunked\r\n\r\nzz", "no colon here"]
)
def test_a_malformed_request_is_answered_and_the_connection_ended(gateway: Gateway, headers: str) -> None:
    with socket.create_connection(("127.0.0.1", gateway.server_address[1]), timeout=30) as client:
        client.sendall(f"POST / HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n\r\n".encode())
        client.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.endswith(b'{"message": "Bad Request"}')


def test_fifty_clients_at_once_are_served_over_kept_connections(gateway: Gateway) -> None:
    def ask_ten_times(number: int) -> list[str]:
        client = connect(gateway)
        answers = [json.loads(ask(client, "GET", f"/{number}/{turn}")[1]) for turn in range(10)]
        return [answer["rawPath"] for answer in answers]

    with ThreadPoolExecutor(50) as clients:
        answers = list(clients.map(ask_ten_times, range(50)))
    assert answers == [[f"/{number}/{turn}" for turn in range(10)] for number in range(50)]


def test_a_stopped_gateway_answers_no_kept_connection(gateway: Gateway) -> None:
    client = connect(gateway)
    ask(client, "GET", "/")
    gateway.stop()
    client.auto_open = 0
    with pytest.raises((OSError, http.client.HTTPException)):
        ask(client, "GET", "/")


def test_a_port_in_use_is_told_at_once(gateway: Gateway) -> None:
    port = gateway.server_address[1]
    with pytest.raises(StackError, match=f"port {port}"):
        Gateway(port)
