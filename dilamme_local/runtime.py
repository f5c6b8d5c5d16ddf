"""The program inside an execution environment: ``python runtime.py FD``, started by `environment`.

It is Lambda's Python runtime as far as a handler can tell: the working directory and the first entry of the path are the
function's folder, the handler is imported once (the cold start), runs in the main thread, and gets a `LambdaContext`
whose deadline is real. It imports nothing of `local`, so that a handler finds here what it finds when deployed.

Messages on the pipe, each one frame. In: a line of JSON ``{"requestId", "deadline"}`` (deadline: `time.monotonic`, one
clock for all processes of a machine), then the event; an empty frame leaves a running invocation no time. Out: ``+`` and the result, or ``-`` and Lambda's error object; the
first frame answers for the import.

When the pipe ends, the stack is gone or has given this environment up, so the process ends at once with all its children,
whatever the handler is doing.
"""

import importlib
import json
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

Handler = Callable[[Any, "LambdaContext"], Any]

IMPORT_FAILED = "----- the handler cannot be imported -----"
VARIABLES = dict(os.environ)  # as Lambda set them; what runs here may change them


_retired = threading.Event()


class LambdaContext:
    """What Lambda gives a handler beside the event."""

    client_context = None
    identity = None

    def __init__(self, request_id: str, deadline: float) -> None:
        environment = VARIABLES
        self.aws_request_id = request_id
        self.function_name = environment["AWS_LAMBDA_FUNCTION_NAME"]
        self.function_version = environment["AWS_LAMBDA_FUNCTION_VERSION"]
        self.memory_limit_in_mb = environment["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]
        self.log_group_name = environment["AWS_LAMBDA_LOG_GROUP_NAME"]
        self.log_stream_name = environment["AWS_LAMBDA_LOG_STREAM_NAME"]
        self.invoked_function_arn = (
            f"arn:aws:lambda:{environment['AWS_REGION']}:123456789012:function:{self.function_name}"
        )
        self._deadline = deadline

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until the environment is killed; 0 past it, and once a newer version waits to take over."""
        if _retired.is_set():
            return 0
        return max(0, int((self._deadline - time.monotonic()) * 1000))


def main() -> None:
    descriptor = int(sys.argv[1])
    os.set_inheritable(descriptor, False)  # a handler's child must not hold it open past our end
    pipe: Connection[Any, Any] = Connection(descriptor)
    logging.basicConfig(format="[%(levelname)s]\t%(asctime)s\t%(name)s\t%(message)s")
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    frames = SimpleQueue[bytes]()
    threading.Thread(target=_receive, args=(pipe, frames), daemon=True).start()
    handler = _import_handler(pipe)
    while True:
        pipe.send_bytes(_answer(handler, frames.get()))


def _receive(pipe: "Connection[Any, Any]", frames: "SimpleQueue[bytes]") -> None:
    try:
        while True:
            if frame := pipe.recv_bytes():
                frames.put(frame)
            else:
                _retired.set()
    except (EOFError, OSError):
        os.killpg(os.getpgid(0), signal.SIGKILL)


def _import_handler(pipe: "Connection[Any, Any]") -> Handler:
    module_name, _, function_name = os.environ["_HANDLER"].rpartition(".")
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 (the entry that Lambda puts there, as it spells it)
    try:
        handler: Handler = getattr(importlib.import_module(module_name), function_name)
    except BaseException as error:
        print(IMPORT_FAILED, traceback.format_exc(), IMPORT_FAILED, sep="\n", file=sys.stderr)
        pipe.send_bytes(b"-" + json.dumps(_import_error(module_name, error)).encode())
        sys.exit(1)
    pipe.send_bytes(b"+")
    return handler


def _import_error(module_name: str, error: BaseException) -> dict[str, Any]:
    description = _describe(error, "")
    if isinstance(error, ImportError):
        description["errorType"] = "Runtime.ImportModuleError"
        description["errorMessage"] = f"Unable to import module '{module_name}': {error}"
    return description


def _answer(handler: Handler, frame: bytes) -> bytes:
    head, _, event = frame.partition(b"\n")
    about = json.loads(head)
    try:
        result = handler(json.loads(event), LambdaContext(about["requestId"], about["deadline"]))
    except Exception as error:
        print("[ERROR]", traceback.format_exc(), file=sys.stderr)
        return b"-" + json.dumps(_describe(error, about["requestId"])).encode()
    try:
        return b"+" + json.dumps(result, ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        description = {"errorType": "Runtime.MarshalError", "errorMessage": f"Unable to marshal response: {error}"}
        return b"-" + json.dumps({**description, "requestId": about["requestId"], "stackTrace": []}).encode()


def _describe(error: BaseException, request_id: str) -> dict[str, Any]:
    """Lambda's error object."""
    return {
        "errorMessage": str(error),
        "errorType": type(error).__name__,
        "requestId": request_id,
        "stackTrace": traceback.format_list(traceback.extract_tb(error.__traceback__)[1:]),
    }


if __name__ == "__main__":
    main()
