"""The web application: an order, its mail and its payment are stored together, or not at all."""

from collections.abc import Iterator
from typing import Any

import pytest
from conftest import Mailbox, Provider
from fastapi.testclient import TestClient
from shop.web import app

from dilamme.testing import Database, Stack, Worker

ORDER: dict[str, Any] = {"email": "ada@example.com", "product": 1, "quantity": 2, "card": "4242"}
pytestmark = pytest.mark.usefixtures("products")


@pytest.fixture
def web(dilamme_db: Database) -> Iterator[TestClient]:
    with TestClient(app) as client:
        yield client


def test_an_order_is_stored_with_its_mail_and_its_payment(web: TestClient, dilamme_worker: Worker) -> None:
    order = web.post("/orders", json=ORDER).json()["id"]
    payload = {"to": "ada@example.com", "order": order, "total_cents": 2500}
    dilamme_worker.assert_enqueued("mail.order_placed", payload=payload, count=1)
    dilamme_worker.assert_enqueued("payment.charge", payload={"order": order, "card": "4242"}, count=1)


def test_a_sold_out_product_leaves_nothing_behind(
    web: TestClient, dilamme_db: Database, dilamme_worker: Worker
) -> None:
    assert web.post("/orders", json={**ORDER, "quantity": 11}).status_code == 409
    assert dilamme_worker.submitted() == []
    assert dilamme_db.connection.execute("SELECT count(*) FROM orders").fetchone() == (0,)
    assert dilamme_db.connection.execute("SELECT stock FROM products WHERE id = 1").fetchone() == (10,)


def test_an_unknown_product_is_404(web: TestClient, dilamme_worker: Worker) -> None:
    assert web.post("/orders", json={**ORDER, "product": 9}).status_code == 404
    assert dilamme_worker.submitted() == []


def test_an_order_goes_all_the_way(
    web: TestClient, dilamme_db: Database, dilamme_worker: Worker, mailbox: Mailbox, provider: Provider
) -> None:
    provider.answers.append(503)
    web.post("/orders", json=ORDER)
    dilamme_worker.drain_to_idle()
    subjects = [line for mail in mailbox.mails for line in mail.splitlines() if line.startswith("Subject: ")]
    assert [subject.split()[1] for subject in subjects] == ["Your", "Paid:"]
    assert dilamme_db.connection.execute("SELECT state FROM orders").fetchone() == ("paid",)


def test_the_whole_stack_refuses_what_does_not_fit_and_sends_what_does(dilamme_stack: Stack) -> None:
    types = {one.type: one for one in dilamme_stack.client.types()}
    schema = types["mail.order_placed"].payload_schema
    assert isinstance(schema, dict)
    assert schema["required"] == ["to", "order", "total_cents"]
    job = dilamme_stack.client.submit("payment.charge", {"order": "00000000-0000-0000-0000-000000000009", "card": "1"})
    ended = dilamme_stack.client.wait(job.id)
    assert ended.status == "dead"
    assert ended.last_error is not None
