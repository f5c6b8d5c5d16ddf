"""Whatever clients leave half done, and whatever the system refuses for a while, the local stack comes back by itself."""

import contextlib
import errno
import http.client
import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from dilamme_local.dispatcher import Dispatcher
from dilamme_local.environment import Environment
from dilamme_local.functions import Function
from dilamme_local.gateway import Gateway
from dilamme_local.http_server import Handler
from dilamme_local.invocation import Invocation
from tests.local.puppet_service import PuppetService, puppet
from tests.support.checkout import CHECKOUT
from tests.support.waiting import wait_until

HALVES = [
    b"",
    b"POST /jobs HTT",
    b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-",
    b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
    b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n{",
]
HANDLER = "import os\ndef handler(event, context): return os.getpid()\n"
RUN = """
import sys
from pathlib import Path
from dilamme_cli.dev import run_stack
from dilamme_local.options import Options
from dilamme_local.stack import Stack
run_stack(Stack(Options(0, Path(sys.argv[1]) / "data", functions_folder=Path(sys.argv[1]))))
"""


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[tuple[str, int]]:
    """The URL and the pid of a stack that may open 1,024 files."""
    for name in ("api", "scheduler", "worker", "rescue", "migrate"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "handler.py").write_text(HANDLER)
    with subprocess.Popen(
        ["prlimit", "--nofile=1024:1024", sys.executable, "-c", RUN, str(tmp_path)],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": "shared"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[4], process.pid
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


@contextlib.contextmanager
def half_sent(url: str, number: int) -> Iterator[None]:
    """So many clients that have begun to speak, and wait."""
    port = urlsplit(url).port
    with contextlib.ExitStack() as stack:
        for place in range(number):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            with contextlib.suppress(ConnectionError):  # hung up on already
                client.sendall(HALVES[place % len(HALVES)])
        yield


def ask(url: str, seconds: float = 10) -> Any:
    """The answer; None without one."""
    client = http.client.HTTPConnection("127.0.0.1", urlsplit(url).port or 0, timeout=seconds)
    try:
        client.request("GET", "/")
        response = client.getresponse()
        return json.loads(response.read()) if response.status == 200 else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        client.close()


@pytest.mark.case("W8")
def test_twelve_hundred_half_sent_requests_and_killed_functions_are_survived(narrow: tuple[str, int]) -> None:
    url, pid = narrow
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 1500, "this test itself opens 1,200 files: ulimit -n 4096"
    with half_sent(url, 1200):
        for turn in range(3):
            functions = [child for child in _children(pid) if b"runtime.py" in _command(child)]
            assert functions or turn
            for child in functions:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            wait_until(lambda: ask(url))
        assert ask(url) == ask(url)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            found += map(int, (task / "children").read_text().split())
    return found


def _command(pid: int) -> bytes:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


@pytest.fixture
def gateway(start: Callable[..., PuppetService], tmp_path: Path) -> Iterator[Gateway]:
    (tmp_path / "handler.py").write_text(
        "import time\ndef handler(event, context): time.sleep(event['rawPath'] == '/slow')"
    )
    gateway = Gateway(0)
    gateway.dispatcher = start(Function("api", tmp_path, timeout_seconds=29)).dispatcher
    gateway.start()
    yield gateway
    gateway.stop()


@pytest.mark.case("W8")
@pytest.mark.parametrize("half", HALVES)
def test_a_client_that_falls_silent_is_hung_up_on(
    gateway: Gateway, half: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 0 < Handler.timeout <= 60
    monkeypatch.setattr(Handler, "timeout", 0.3)
    with socket.create_connection(("127.0.0.1", gateway.server_address[1]), timeout=10) as client:
        client.sendall(half)
        assert client.recv(1000) == b""


@pytest.mark.case("W8")
def test_who_waits_longest_makes_room_and_who_is_being_answered_does_not(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "connections_max", 3)
    address = ("127.0.0.1", gateway.server_address[1])
    with contextlib.ExitStack() as stack:
        slow, first, second = (stack.enter_context(socket.create_connection(address, timeout=10)) for _ in range(3))
        slow.sendall(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_until(gateway.dispatcher.running)
        fourth = stack.enter_context(socket.create_connection(address, timeout=10))
        assert first.recv(10) == b""
        assert slow.recv(1000).startswith(b"HTTP/1.1 200 ")
        for client in (second, fourth):
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert client.recv(1000).startswith(b"HTTP/1.1 200 ")


@pytest.mark.case("W8")
def test_where_everybody_is_being_answered_the_next_one_is_told_to_come_back(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "connections_max", 1)
    address = ("127.0.0.1", gateway.server_address[1])
    with socket.create_connection(address, timeout=10) as slow:
        slow.sendall(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_until(gateway.dispatcher.running)
        with socket.create_connection(address, timeout=10) as late:
            assert late.recv(1000).startswith(b"HTTP/1.1 503 ")
        assert slow.recv(1000).startswith(b"HTTP/1.1 200 ")


@pytest.mark.case("W8")
def test_a_process_that_could_not_be_started_is_started_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = [
        OSError(errno.EMFILE, "Too many open files"),
        BlockingIOError(errno.EAGAIN, "no process"),
        MemoryError(),
    ]
    make = Environment.__init__

    def fail_at_first(self: Environment, function: Function, log: Path) -> None:
        if failures:
            raise failures.pop(0)
        make(self, function, log)

    monkeypatch.setattr("dilamme_local.pool.START_AGAIN_SECONDS", 0.05)
    monkeypatch.setattr(Environment, "__init__", fail_at_first)
    dispatcher = Dispatcher([puppet("worker", reserved_concurrency=1)], tmp_path)
    monkeypatch.setenv("JOURNAL", str(tmp_path / "journal"))
    try:
        outcome = dispatcher.run(Invocation("worker", b"{}"))
        assert failures == []
        assert b"Too many" not in outcome.payload
    finally:
        dispatcher.close(["worker"])
