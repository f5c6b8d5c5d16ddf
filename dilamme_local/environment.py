"""One execution environment: a process of `runtime` that runs one invocation at a time and is reused while it lives."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from dilamme_local.functions import Function
from dilamme_local.invocation import REGION, Invocation, Outcome, failure
from dilamme_local.private import append_to
from dilamme_local.product import PACKAGES

RUNTIME = Path(__file__).with_name("runtime.py")
INIT_SECONDS_MAX = 60  # Lambda allows 10; a busy laptop may need more
RESPONSE_BYTES_MAX = 6_291_556


class Environment:
    """Starts a process; `wait_until_ready` waits for its import, `run` runs an invocation in it.

    A process that could not import its handler answers its first invocation with that error, as on Lambda.
    """

    def __init__(self, function: Function, log: Path) -> None:
        self.function = function
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._killed = False
        self._import_error: Outcome | None = None
        self._error_told = False
        ours, theirs = Pipe()
        self._pipe: Connection[Any, Any] = ours
        with theirs, append_to(log) as output:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(RUNTIME), str(theirs.fileno())],
                cwd=function.folder,
                env=_variables(function),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # out of Ctrl-C's reach, and killed as a group
            )
        self.pid = self._process.pid

    def wait_until_ready(self) -> None:
        try:
            answer = self._receive(INIT_SECONDS_MAX)
        except (EOFError, TimeoutError) as error:
            self._import_error = self._explain(Invocation(self.function.name, b"{}"), error)
        else:
            if answer.startswith(b"-"):
                self._import_error = Outcome(succeeded=False, payload=answer[1:])

    @property
    def import_error(self) -> Outcome | None:
        """Why the handler could not be imported, if so."""
        return self._import_error

    @property
    def usable(self) -> bool:
        """Whether an idle environment can take an invocation: an idle process says nothing, so a frame is its end."""
        if self._import_error is not None:
            return not self._error_told
        return not self._killed and not self._pipe.poll()

    def run(self, invocation: Invocation) -> Outcome:
        """Runs the invocation to its end, which may be this process's own."""
        if self._import_error is not None:
            self._error_told = True
            self.kill()
            return self._import_error
        seconds = self.function.timeout_seconds
        head = {"requestId": invocation.request_id, "deadline": time.monotonic() + seconds}
        try:
            with self._sending:
                self._pipe.send_bytes(json.dumps(head).encode() + b"\n" + invocation.event)
            answer = self._receive(seconds)
        except (OSError, EOFError) as error:  # a TimeoutError is an OSError
            return self._explain(invocation, error)
        if len(answer) > RESPONSE_BYTES_MAX:
            message = f"Response payload size exceeded maximum allowed payload size ({RESPONSE_BYTES_MAX} bytes)."
            return failure(invocation, "Function.ResponseSizeTooLarge", message)
        return Outcome(succeeded=answer.startswith(b"+"), payload=answer[1:])

    def retire(self) -> None:
        """Asks the process to end its work soon: its invocation sees no time left. Idle, it does nothing."""
        with self._sending, contextlib.suppress(OSError):
            self._pipe.send_bytes(b"")

    def kill(self, *, after_seconds: float = 0) -> int:
        """Kills the process and its children; `run`, if it waits, returns. Gives the exit status (-9: by a signal)."""
        with self._lock:
            if not self._killed:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(after_seconds)
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, signal.SIGKILL)
                self._killed = True
            return self._process.wait()

    def _receive(self, seconds: float) -> bytes:
        if not self._pipe.poll(seconds):
            raise TimeoutError
        try:
            return self._pipe.recv_bytes()
        except ConnectionResetError as error:
            raise EOFError from error

    def _explain(self, invocation: Invocation, silence: Exception) -> Outcome:
        """Ends the process, and says as Lambda does why it gave no answer."""
        if isinstance(silence, TimeoutError):
            self.kill()
            seconds = self.function.timeout_seconds
            return failure(invocation, "Sandbox.Timedout", f"Task timed out after {seconds:.2f} seconds")
        status = self.kill(after_seconds=1)
        return failure(invocation, "Runtime.ExitError", f"Runtime exited {_how(status)}")


def _how(status: int) -> str:
    if status == 0:
        return "without providing a reason"
    if status > 0:
        return f"with error: exit status {status}"
    return f"with error: signal: {'killed' if status == -signal.SIGKILL else signal.strsignal(-status)}"


def _variables(function: Function) -> Mapping[str, str]:
    """The environment variables: the function's own, and those that Lambda defines."""
    stream = f"{datetime.now(UTC):%Y/%m/%d}/[$LATEST]{uuid.uuid4().hex}"
    return {
        **function.environment,
        "AWS_EXECUTION_ENV": f"AWS_Lambda_python{sys.version_info.major}.{sys.version_info.minor}",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_mb),
        "AWS_LAMBDA_FUNCTION_NAME": function.name,
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{function.name}",
        "AWS_LAMBDA_LOG_STREAM_NAME": stream,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "LAMBDA_TASK_ROOT": str(function.folder),
        "PYTHONPATH": os.pathsep.join(PACKAGES[1:]),  # the layer, and nothing else of ours
        "TZ": ":UTC",
        "_HANDLER": function.handler,
    }
