"""TLS in front of a PostgreSQL that was built without: a proxy that answers libpq's request for it."""

import contextlib
import socket
import ssl
import struct
import threading
from pathlib import Path

SSL_REQUEST = struct.pack("!ii", 8, 80877103)  # https://www.postgresql.org/docs/current/protocol-message-formats.html


class TlsProxy:
    """Listens on ``port`` of 127.0.0.1 with a certificate; ``encrypted`` counts the connections that came by TLS."""

    def __init__(self, upstream_port: int, certificate: Path, key: Path) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self._upstream_port = upstream_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.encrypted = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            if client.recv(8, socket.MSG_WAITALL) != SSL_REQUEST:
                return  # in the clear: hang up
            client.sendall(b"S")
            with self._context.wrap_socket(client, server_side=True) as inside:
                self.encrypted += 1
                with socket.create_connection(("127.0.0.1", self._upstream_port)) as server:
                    threading.Thread(target=_copy, args=(server, inside), daemon=True).start()
                    _copy(inside, server)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
