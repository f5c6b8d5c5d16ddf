"""The ports of a stack's inner servers: remembered in the data folder, so that a psql's or an IDE's address stays right."""

import json
import socket
from pathlib import Path


class Ports:
    """The ports that the last run in this folder had."""

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            self._known = {name: port for name, port in content.items() if type(port) is int and 0 < port < 65536}
        except (OSError, ValueError, AttributeError):
            self._known = {}

    def free(self, name: str) -> int:
        """The port of the last time if it is free, or else 0, which stands for any."""
        port = self._known.get(name, 0)
        return port if is_free(port) else 0

    def keep(self, **ports: int | None) -> None:
        """Remembers them for the next run; None leaves what was known."""
        self._known |= {name: port for name, port in ports.items() if port}
        self._file.touch(mode=0o600)
        self._file.write_text(json.dumps(self._known) + "\n", encoding="utf-8")


def is_free(port: int) -> bool:
    """Does nobody listen on this port? Not on 0, which is none."""
    if not port:
        return False
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # what a server of before left in TIME_WAIT is free
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def free_port() -> int:
    """A port that nobody listened on a moment ago; somebody may since."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
