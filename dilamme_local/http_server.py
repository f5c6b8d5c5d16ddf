"""The HTTP server under the gateway and the Lambda service: the standard library's, made quick and stoppable.

A thread per connection serves fifty clients with ease, and a framework would only stand between a handler of thirty lines
and its socket. What is changed: no Nagle delay, head and body leave in one write, a backlog longer than five, no look-up
of the machine's name, a stop that also ends the connections kept alive, chunked bodies, JSON for the server's own errors,
a bound on connections: a client that has yet to send its request whole makes room for one that has come.
"""

import contextlib
import json
import logging
import resource
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from dilamme_local.errors import StackError
from dilamme_local.strangers import refusal

logger = logging.getLogger("dilamme_local")

SILENCE_SECONDS = 60  # of a client between two requests, or in the midst of one
# A quarter of the files that a process may open: there are two servers, and the functions' processes need some too.
FILES_MAX = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
CONNECTIONS_MAX = 1024 if FILES_MAX == resource.RLIM_INFINITY else min(FILES_MAX // 4, 1024)
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class BodyTooLargeError(Exception):
    """The request's body is over the limit."""


class RequestMalformedError(Exception):
    """The request's parts cannot be told from each other."""


class Server(socketserver.ThreadingTCPServer):
    """Binds at once, so that a port in use is known before anything is started; listens from `start` on.

    Raises:
        StackError: the port is in use or not ours to use.
    """

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 256
    connections_max = CONNECTIONS_MAX

    def __init__(self, port: int, handler: type["Handler"]) -> None:
        super().__init__(("127.0.0.1", port), handler, bind_and_activate=False)
        self._port = port
        self._open: set[socket.socket] = set()
        self._waited_for: dict[socket.socket, None] = {}  # whose next request is not there yet, in order
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        with self._told_plainly():
            self.server_bind()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def start(self) -> None:
        with self._told_plainly():
            self.server_activate()
        self._thread.start()

    def stop(self) -> None:
        if self._thread.is_alive():
            self.shutdown()
        self.server_close()
        for connection in list(self._open):
            _hang_up(connection)

    def wait_for(self, connection: socket.socket) -> None:
        """Notes that this client's next request has yet to come; its place in the order is that of the first note."""
        self._waited_for.setdefault(connection, None)

    def answers(self, connection: socket.socket) -> None:
        """Notes that its request has come whole."""
        self._waited_for.pop(connection, None)

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError:  # no file is left to open: the client stays in the queue, and is asked for again
            self._hang_up_on_the_slowest()
            time.sleep(0.05)
            raise

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002 (the base's signature)
        if len(self._open) < self.connections_max or self._hang_up_on_the_slowest():
            return True
        with contextlib.suppress(OSError):
            request.sendall(BUSY)
        return False

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        self.wait_for(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        self.answers(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 (the base's signature)
        if not isinstance(sys.exception(), ConnectionError):  # a client that left is its own affair
            logger.exception("a request failed")  # noqa: LOG004 (called from one)

    def _hang_up_on_the_slowest(self) -> bool:
        """Makes room; False if every client is being answered."""
        slowest = next(iter(list(self._waited_for)), None)
        if slowest is None:
            return False
        self._open.discard(slowest)
        self.answers(slowest)
        _hang_up(slowest)
        return True

    @contextlib.contextmanager
    def _told_plainly(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.server_close()
            raise StackError(f"port {self._port} cannot be used ({error.strerror}): choose another PORT") from None


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the client was faster
        connection.shutdown(socket.SHUT_RDWR)


class Handler(BaseHTTPRequestHandler):
    """One connection. A subclass defines `handle_request`, for all methods."""

    server: Server
    timeout = SILENCE_SECONDS
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # flushed once, when the answer is complete

    def handle_one_request(self) -> None:
        self.server.wait_for(self.connection)
        super().handle_one_request()

    def handle_request(self) -> None:
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        """Any method goes to `handle_request`: which are allowed is not for this server to say."""
        if name.startswith("do_"):
            return self._handle_or_refuse
        raise AttributeError(name)

    def refuse(self, sentence: str) -> None:
        """Answers a stranger with 403."""
        self.answer_json(403, {"message": sentence})

    def read_body(self, bytes_max: int) -> bytes:
        """Raises: BodyTooLargeError, RequestMalformedError; the connection ends with the answer then."""
        try:
            self._refuse_defects()
            body = self._read_chunked(bytes_max) if self._is_chunked() else self._read_sized(bytes_max)
        except (BodyTooLargeError, RequestMalformedError):
            self.close_connection = True
            raise
        self.server.answers(self.connection)
        return body

    def answer(self, status: int, headers: Iterable[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Date", self.date_time_string())
        bodiless = status in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
        if not bodiless:
            self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD" and not bodiless:
            self.wfile.write(body)

    def answer_json(self, status: int, content: object, headers: Iterable[tuple[str, str]] = ()) -> None:
        self.answer(status, [("Content-Type", "application/json"), *headers], json.dumps(content).encode())

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """What the base class says of a request it cannot parse."""
        self.close_connection = True
        self.answer_json(code, {"message": message or HTTPStatus(code).phrase})

    def handle_expect_100(self) -> bool:
        super().handle_expect_100()
        self.wfile.flush()
        return True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base's name)
        """Access logs would bury what matters on the console."""

    def _handle_or_refuse(self) -> None:
        sentence = refusal(self.command, self.headers.get)
        if sentence is None:
            self.handle_request()
            return
        self.close_connection = True
        length = self.headers.get("Content-Length", "")
        if length.isascii() and length.isdigit():
            self._skip(int(length))
        self.refuse(sentence)

    def _refuse_defects(self) -> None:
        """The parser takes a malformed header line for the end of the head, and goes on."""
        if self.headers.defects:
            raise RequestMalformedError

    def _is_chunked(self) -> bool:
        return self.headers.get("Transfer-Encoding", "").strip().lower() == "chunked"

    def _read_sized(self, bytes_max: int) -> bytes:
        length = self.headers.get("Content-Length", "0").strip()
        if not (length.isascii() and length.isdigit()):
            raise RequestMalformedError
        if int(length) > bytes_max:
            self._skip(int(length))
            raise BodyTooLargeError
        return self._read_exactly(int(length))

    def _read_chunked(self, bytes_max: int) -> bytes:
        body = bytearray()
        while size := self._read_chunk_size():
            if len(body) + size > bytes_max:
                raise BodyTooLargeError
            body += self._read_exactly(size)
            self.rfile.readline(3)
        while self.rfile.readline(65537).strip():
            pass  # trailers
        return bytes(body)

    def _read_chunk_size(self) -> int:
        try:
            size = int(self.rfile.readline(65537).split(b";")[0], 16)
        except ValueError:
            raise RequestMalformedError from None
        if size < 0:
            raise RequestMalformedError
        return size

    def _read_exactly(self, size: int) -> bytes:
        data = self.rfile.read(size)
        if len(data) < size:
            raise ConnectionAbortedError
        return data

    def _skip(self, size: int) -> None:
        """Reads on for a while: a client that is still sending would see a reset instead of the answer."""
        left = min(size, 64 * 1024 * 1024)
        while left > 0 and (data := self.rfile.read(min(left, 65536))):
            left -= len(data)
