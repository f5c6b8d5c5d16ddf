"""How our functions are called: over one connection, which on AWS is a TLS handshake spared for each call."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dilamme.aws import invoke


class Lambda(ThreadingHTTPServer):
    """Takes every event."""

    connections = 0

    def process_request(self, *arguments: object) -> None:
        self.connections += 1
        super().process_request(*arguments)  # type: ignore[arg-type]


class Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(202)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lambda]:
    """In AWS's place, for a client of this test's own."""
    with Lambda(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL_LAMBDA", f"http://127.0.0.1:{server.server_port}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "test")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        invoke._client.cache_clear()
        yield server
        invoke._client.cache_clear()
        server.shutdown()


def test_a_second_call_goes_over_the_connection_of_the_first(service: Lambda) -> None:
    for _ in range(3):
        invoke.invoke("worker", {"slot": 1})
    assert service.connections == 1
