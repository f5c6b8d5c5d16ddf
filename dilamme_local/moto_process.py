"""moto's server in a process of its own: ``python -m dilamme_local.moto_process``. Prints its URL, ends with its stdin.

Apart, because moto reads the AWS settings of its process's environment (a user's AWS_PROFILE breaks it), and because its
import, most of a second, then runs beside the start of PostgreSQL. Its own server would let every web page read the queue.
"""

import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

from dilamme_local.strangers import refusal

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class RequestHandler(WSGIRequestHandler):
    timeout = 30  # for a request that is never sent to its end


def guarded(application: Application) -> Application:
    """The application, for this machine alone."""

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        def header(name: str) -> str | None:
            return environ.get(f"HTTP_{name.upper().replace('-', '_')}")

        sentence = refusal(environ["REQUEST_METHOD"], header)
        if sentence is None:
            return application(environ, start_response)
        start_response("403 Forbidden", [("Content-Type", "application/json")])
        return [json.dumps({"message": sentence}).encode()]

    return answer


def main() -> None:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line per request otherwise
    moto = guarded(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, moto, threaded=True, request_handler=RequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
