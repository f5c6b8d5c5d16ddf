"""Mails, as plain functions and through the engine."""

from uuid import UUID

import pytest
from conftest import Mailbox
from jobs.mail import order_placed, receipt
from shop.payloads import OrderPlaced

from dilamme import Retry
from dilamme.testing import Worker, context

ORDER = UUID(int=1)
PLACED = OrderPlaced(to="ada@example.com", order=ORDER, total_cents=2500)


@pytest.fixture(autouse=True)
def _from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMTP_HOST", "127.0.0.1")
    monkeypatch.setenv("MAIL_FROM", "shop@example.com")


def test_a_mail_names_the_sum(mailbox: Mailbox) -> None:
    order_placed(PLACED, context())
    assert "It comes to 25.00." in mailbox.mails[0]


@pytest.mark.parametrize(("cents", "text"), [(1, "0.01"), (99, "0.99"), (100, "1.00"), (123456, "1234.56")])
def test_a_receipt_names_every_sum(mailbox: Mailbox, cents: int, text: str) -> None:
    receipt(PLACED.model_copy(update={"total_cents": cents}), context())
    assert f"We have received {text}." in mailbox.mails[0]


def test_a_mail_that_is_sent_again_is_known_by_its_id(mailbox: Mailbox) -> None:
    same = context()
    order_placed(PLACED, same)
    order_placed(PLACED, same)
    ids = {line for mail in mailbox.mails for line in mail.splitlines() if line.startswith("Message-ID")}
    assert ids == {f"Message-ID: <{same.job_id}@shop.example.com>"}


def test_a_busy_server_is_asked_again_in_a_minute(mailbox: Mailbox) -> None:
    mailbox.refusals.append("451 later")
    with pytest.raises(Retry) as raised:
        order_placed(PLACED, context())
    assert raised.value.after_seconds == 60


def test_a_server_that_comes_back_gets_the_mail(mailbox: Mailbox, dilamme_worker: Worker) -> None:
    mailbox.refusals += ["451 later", "451 later"]
    order_placed.submit(dilamme_worker.database.connection, PLACED)
    (ended, *_) = dilamme_worker.drain_to_idle()[::-1]
    assert (ended.status, ended.attempt) == ("completed", 3)
    assert len(mailbox.mails) == 1


def test_a_server_that_refuses_for_good_makes_a_dead_letter(mailbox: Mailbox, dilamme_worker: Worker) -> None:
    mailbox.refusals += ["554 no"] * 9
    job_id = order_placed.submit(dilamme_worker.database.connection, PLACED)
    dilamme_worker.drain_to_idle()
    job = dilamme_worker.job(job_id)
    assert (job.status, job.attempt) == ("dead", 5)
    assert job.last_error is not None
    assert "554" in job.last_error.message


@pytest.mark.parametrize(
    ("payload", "pointer"),
    [
        ({"to": "nobody", "order": str(ORDER), "total_cents": 1}, "/to"),
        ({"to": "a@b", "order": "seven", "total_cents": 1}, "/order"),
        ({"to": "a@b", "order": str(ORDER), "total_cents": 0}, "/total_cents"),
        ({"to": "a@b", "order": str(ORDER)}, "/total_cents"),
    ],
)
def test_a_payload_that_does_not_fit_is_dead_at_once(
    mailbox: Mailbox, dilamme_worker: Worker, payload: dict[str, object], pointer: str
) -> None:
    job_id = dilamme_worker.submit("mail.order_placed", payload)  # before any worker has published its schema
    dilamme_worker.run_due()
    job = dilamme_worker.job(job_id)
    assert (job.status, job.attempt) == ("dead", 1)
    assert job.last_error is not None
    assert (job.last_error.reason, pointer in job.last_error.message) == ("invalid_payload", True)
    assert mailbox.mails == []
