"""Which installation a command talks to: ``--url``, ``--database``, or the stack that `dilamme dev` runs here."""

import importlib.util
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx

from dilamme.client import Client
from dilamme_local import payload
from dilamme_local.application import find
from dilamme_local.errors import StackError
from dilamme_local.options import DATA_DIR
from dilamme_local.product import FUNCTIONS


def client_for(url: str, database: str) -> Client:
    """A client of the API at ``url``, or of the API's own code on ``database``, or of the local stack.

    Raises:
        StackError: neither is given, and no local stack runs; or both are.
    """
    if url and database:
        raise StackError("--url and --database name two places: give one of them")
    if database:
        return Client("http://api.local", transport=_InThisProcess(database))
    return Client(url or _local_url())


def _local_url() -> str:
    application = find(Path.cwd())
    note = application.root / os.environ.get("DATA_DIR", DATA_DIR) / "stack.json"
    try:
        told = json.loads(note.read_text(encoding="utf-8"))
        os.kill(told["pid"], 0)  # a stack that was killed leaves its note behind
    except PermissionError:
        pass
    except (OSError, ValueError, KeyError, TypeError):
        raise StackError(
            "no local stack runs for this application: start `dilamme dev` in another terminal, or give --url or --database"
        ) from None
    return str(told["url"])


class _InThisProcess(httpx.BaseTransport):
    """The API function without Lambda: what it refuses, and how, is written once."""

    def __init__(self, database: str) -> None:
        os.environ.update(DATABASE_URL=database, POWERTOOLS_LOG_LEVEL="ERROR", POWERTOOLS_METRICS_DISABLED="true")
        spec = importlib.util.spec_from_file_location("dilamme_api_handler", FUNCTIONS / "api" / "handler.py")
        if spec is None or spec.loader is None:
            raise StackError(f"{FUNCTIONS} holds no API function: install dilamme anew")
        self._module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self._module)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answers as API Gateway and the function would."""
        target = request.url.raw_path.decode("ascii")
        event = payload.event(request.method, target, request.headers.items(), request.read(), "127.0.0.1")
        context: Any = SimpleNamespace(
            function_name="api",
            memory_limit_in_mb=512,
            invoked_function_arn="",
            aws_request_id="",
            get_remaining_time_in_millis=lambda: 29_000,
        )
        answer = payload.response(json.dumps(self._module.handler(event, context)).encode())
        return httpx.Response(answer.status, headers=list(answer.headers), content=answer.body)
