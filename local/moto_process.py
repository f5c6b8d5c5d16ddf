"""moto's server in a process of its own: ``python moto_process.py``. Prints its URL, ends with its stdin.

Apart, because moto reads the AWS settings of its process's environment (a user's AWS_PROFILE breaks it), and because its
import, most of a second, then runs beside the start of PostgreSQL.
"""

import logging
import os
import sys

from moto.server import ThreadedMotoServer


def main() -> None:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line per request otherwise
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    print(f"http://{host}:{port}", flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
