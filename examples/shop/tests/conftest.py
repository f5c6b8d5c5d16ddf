"""The shop's tables, a mail server, and a provider of payments that fails when it is told to."""

import io
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from PIL import Image
from shop.tables import metadata
from sqlalchemy import create_engine, text

from dilamme.testing import Database

GRANTS = "GRANT SELECT, UPDATE ON orders TO dilamme_worker; GRANT SELECT ON products TO dilamme_worker; \
GRANT SELECT, INSERT, UPDATE ON pictures TO dilamme_worker"


@pytest.fixture(scope="session")
def dilamme_prepare() -> Callable[[str], object]:
    def prepare(url: str) -> None:
        engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://", 1))
        metadata.create_all(engine)
        with engine.begin() as connection:  # what the handlers need on AWS, and in `dilamme dev`
            connection.execute(text(GRANTS))
        engine.dispose()

    return prepare


@pytest.fixture
def products(dilamme_db: Database) -> None:
    """One with a photo, one without."""
    photo = io.BytesIO()
    Image.new("RGB", (800, 600), "navy").save(photo, "PNG")
    dilamme_db.connection.execute("INSERT INTO products VALUES (1, 10, 1250, %s), (2, 1, 99, NULL)", [photo.getvalue()])


class Mailbox:
    """A mail server: what arrived, and the answers that it gives before it takes a mail."""

    def __init__(self) -> None:
        self.mails: list[str] = []
        self.refusals: list[str] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        if self.refusals:
            return self.refusals.pop(0)
        self.mails.append(envelope.content.decode())
        return "250 OK"


@pytest.fixture(scope="session")
def _mailbox() -> Iterator[Mailbox]:
    box = Mailbox()
    with socket.socket() as probe:  # aiosmtpd asks itself for an answer, and so must know its port
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    controller = Controller(box, hostname="127.0.0.1", port=port)
    controller.start()
    os.environ["SMTP_PORT"] = str(port)
    yield box
    controller.stop()


@pytest.fixture
def mailbox(_mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch) -> Mailbox:
    _mailbox.mails.clear()
    _mailbox.refusals.clear()
    return _mailbox


class Provider:
    """Charges cards: ``answers`` are the statuses of the next calls, then 200; ``charged`` has each key once."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.charged: dict[str, int] = {}
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                status = provider.answers.pop(0) if provider.answers else 200
                if status == 200:
                    provider.charged[self.headers["idempotency-key"]] = body["totalCents"]
                self.send_response(status)
                self.end_headers()
                self.wfile.write(b'{"reference": "ref-1"}')

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture(scope="session")
def _provider() -> Iterator[Provider]:
    provider = Provider()
    os.environ["PAYMENT_URL"] = f"http://127.0.0.1:{provider.server.server_port}"
    yield provider
    provider.server.shutdown()


@pytest.fixture
def provider(_provider: Provider) -> Provider:
    _provider.answers.clear()
    _provider.charged.clear()
    return _provider
