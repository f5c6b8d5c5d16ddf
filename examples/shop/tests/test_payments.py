"""Payments: retries, refusals, and one charge however often a job runs."""

from uuid import UUID

import pytest
from conftest import Mailbox, Provider
from jobs.payments import ask_provider, charge
from shop.payloads import Charge

from dilamme import Fail
from dilamme.testing import Database, Worker, context

ORDER = UUID(int=7)


@pytest.fixture
def order(dilamme_db: Database, products: None) -> Charge:
    dilamme_db.connection.execute("INSERT INTO orders VALUES (%s, 'ada@example.com', 1, 2500)", [ORDER])
    return Charge(order=ORDER, card="4242")


def state(database: Database) -> str:
    (found,) = database.connection.execute("SELECT state FROM orders").fetchone() or ("",)
    return str(found)


def test_a_charge_marks_the_order_and_sends_a_receipt(
    dilamme_db: Database, dilamme_worker: Worker, order: Charge, provider: Provider, mailbox: Mailbox
) -> None:
    job_id = charge.submit(dilamme_db.connection, order)
    assert [job.type for job in dilamme_worker.run_due()] == ["payment.charge", "mail.receipt"]
    assert (state(dilamme_db), dilamme_worker.job(job_id).result) == ("paid", "ref-1")
    assert provider.charged == {str(job_id): 2500}
    assert "We have received 25.00." in mailbox.mails[0]


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_a_provider_that_fails_is_asked_again_and_charges_once(
    dilamme_db: Database, dilamme_worker: Worker, order: Charge, provider: Provider, mailbox: Mailbox, failures: int
) -> None:
    provider.answers += [503] * failures
    job_id = charge.submit(dilamme_db.connection, order)
    dilamme_worker.drain_to_idle()
    job = dilamme_worker.job(job_id)
    assert (job.status, job.attempt, len(job.errors)) == ("completed", failures + 1, failures)
    assert provider.charged == {str(job_id): 2500}
    assert len(mailbox.mails) == 1


def test_after_four_failures_it_is_dead_and_a_replay_brings_it_back(
    dilamme_db: Database, dilamme_worker: Worker, order: Charge, provider: Provider, mailbox: Mailbox
) -> None:
    provider.answers += [500] * 4
    job_id = charge.submit(dilamme_db.connection, order)
    dilamme_worker.drain_to_idle()
    assert (dilamme_worker.job(job_id).status, state(dilamme_db)) == ("dead", "placed")
    dilamme_worker.replay(job_id)
    dilamme_worker.run_due()
    assert (dilamme_worker.job(job_id).status, state(dilamme_db)) == ("completed", "paid")
    assert len(mailbox.mails) == 1


def test_a_refused_card_is_not_tried_again(
    dilamme_db: Database, dilamme_worker: Worker, order: Charge, provider: Provider
) -> None:
    provider.answers += [402]
    job_id = charge.submit(dilamme_db.connection, order)
    dilamme_worker.run_due()
    job = dilamme_worker.job(job_id)
    assert (job.status, job.attempt) == ("dead", 1)
    assert job.last_error is not None
    assert "the card was refused" in job.last_error.message


def test_an_order_that_was_paid_is_not_charged_again(
    dilamme_db: Database, dilamme_worker: Worker, order: Charge, provider: Provider
) -> None:
    dilamme_db.connection.execute("UPDATE orders SET state = 'paid'")
    charge.submit(dilamme_db.connection, order)
    assert [job.result for job in dilamme_worker.run_due()] == ["was paid before"]
    assert provider.charged == {}


def test_an_order_that_is_not_there_is_dead(dilamme_db: Database, provider: Provider) -> None:
    with pytest.raises(Fail, match="there is no order"):
        charge(Charge(order=ORDER, card="4242"), context())


def test_the_provider_gets_the_jobs_id_as_its_key(provider: Provider) -> None:
    assert ask_provider("4242", 1, "key") == "ref-1"
    assert provider.charged == {"key": 1}
