"""The wire between psycopg and PostgreSQL, which a test can cut where it hurts."""

import contextlib
import re
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Wire:
    """A TCP proxy on loopback. ``down`` refuses new connections; `lose_reply` loses one answer and hangs up."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.down = False
        self.lost = 0
        self._doomed: re.Pattern[bytes] | None = None
        self._pass_over = 0
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def over(self, url: str) -> str:
        """The server's address, by way of here."""
        return url.replace(f":{self._server[1]}/", f":{self.port}/")

    def lose_reply(self, to: bytes, *, after: int = 0) -> None:
        """The server gets the next message that holds ``to`` and carries it out; the client never hears of it.

        ``after`` lets so many such messages through first. A word counts whole: each BEGIN speaks of READ COMMITTED.
        """
        self._doomed, self._pass_over = re.compile(re.escape(to) + rb"(?![A-Z])"), after

    def cut(self) -> None:
        """Hangs up on everybody."""
        for pair in self._pairs:
            _hang_up(*pair)
        self._pairs.clear()

    def close(self) -> None:
        self.down = True
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                if self.down:
                    _hang_up(client)
                    continue
                server = socket.create_connection(self._server)
                self._pairs.append((client, server))
                threading.Thread(target=self._carry, args=(client, server), daemon=True).start()

    def _carry(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError):  # hung up
            while True:
                for source in select.select([client, server], [], [])[0]:
                    data = source.recv(1 << 16)
                    if not data or (source is client and self._loses(data, server)):
                        return _hang_up(client, server)
                    (server if source is client else client).sendall(data)

    def _loses(self, data: bytes, server: socket.socket) -> bool:
        if self._doomed is None or not self._doomed.search(data):
            return False
        if self._pass_over:
            self._pass_over -= 1
            return False
        self._doomed = None
        server.sendall(data)
        server.recv(1 << 16)  # it has answered, so it has committed
        self.lost += 1
        return True


def _hang_up(*sockets: socket.socket) -> None:
    for one in sockets:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()


@contextmanager
def wire(host: str, port: int) -> Iterator[Wire]:
    """A wire for the length of a block."""
    laid = Wire(host, port)
    try:
        yield laid
    finally:
        laid.close()
