"""From a job's death to the queue: a message that says enough, at least once, whatever fails in between."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from dilamme.aws import queue
from dilamme.scheduler.outbox import send_outbox
from dilamme.settings import Settings, read
from dilamme.store import outbox as store
from dilamme.store.connection import Connection
from tests.support.jobs import bury, claim_one, put


@pytest.fixture
def sqs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        queue._client.cache_clear()
        client = boto3.client("sqs", region_name="us-east-1")
        client.create_queue(QueueName="dead-letters")
        yield client
    queue._client.cache_clear()


@pytest.fixture
def configured(sqs: Any) -> Settings:
    url = sqs.get_queue_url(QueueName="dead-letters")["QueueUrl"]
    return read({"DILAMME_DEAD_LETTER_QUEUE_URL": url})


def received(sqs: Any) -> list[dict[str, Any]]:
    url = sqs.get_queue_url(QueueName="dead-letters")["QueueUrl"]
    messages: list[Any] = []
    while found := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"]).get(
        "Messages"
    ):
        messages += found
    return messages


def test_a_letter_says_which_job_died_of_what_after_how_many_attempts(
    connection: Connection, sqs: Any, configured: Settings
) -> None:
    job_id = put(connection, type="test.mail", payload={"token": "secret"})
    bury(connection, claim_one(connection))
    assert send_outbox(connection, configured) == 1
    (message,) = received(sqs)
    body = json.loads(message["Body"])
    assert (body["jobId"], body["type"], body["attempts"]) == (str(job_id), "test.mail", 1)
    assert body["error"] == {"reason": "fail", "message": "as asked for"}
    assert message["MessageAttributes"]["type"]["StringValue"] == "test.mail"
    assert "secret" not in message["Body"]


def test_what_was_sent_is_not_sent_again(connection: Connection, sqs: Any, configured: Settings) -> None:
    put(connection)
    bury(connection, claim_one(connection))
    assert [send_outbox(connection, configured) for _ in range(2)] == [1, 0]


def test_more_letters_than_a_request_takes_all_arrive(connection: Connection, sqs: Any, configured: Settings) -> None:
    ids = {str(put(connection)) for _ in range(23)}
    for _ in ids:
        bury(connection, claim_one(connection))
    assert send_outbox(connection, configured) == 23
    assert {json.loads(message["Body"])["jobId"] for message in received(sqs)} == ids


def test_a_scheduler_that_dies_between_the_commit_and_the_send_loses_no_letter(
    connection: Connection, sqs: Any, configured: Settings
) -> None:
    put(connection)
    bury(connection, claim_one(connection))
    assert store.pick(connection, 10, hold_seconds=0.0), "picked, and then its process ends"
    assert send_outbox(connection, configured) == 1


def test_one_that_dies_between_the_send_and_its_note_sends_twice_and_the_reader_can_tell(
    connection: Connection, sqs: Any, configured: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = put(connection)
    bury(connection, claim_one(connection))
    with monkeypatch.context() as dying:
        dying.setattr("dilamme.scheduler.outbox.HOLD_SECONDS", 0.0)
        dying.setattr(store, "sent", lambda connection, ids: None)
        send_outbox(connection, configured)
    send_outbox(connection, configured)
    letters = [json.loads(message["Body"]) for message in received(sqs)]
    assert len(letters) == 2
    assert {letter["jobId"] for letter in letters} == {str(job_id)}
    assert letters[0] == letters[1]


def test_a_queue_that_is_away_keeps_the_letters_for_later(
    connection: Connection, sqs: Any, configured: Settings
) -> None:
    put(connection)
    bury(connection, claim_one(connection))
    nowhere = configured.model_copy(update={"dead_letter_queue_url": "https://sqs.us-east-1.amazonaws.com/1/none"})
    assert send_outbox(connection, nowhere) == 0
    connection.execute("UPDATE dilamme.outbox SET send_at = now()")
    assert send_outbox(connection, configured) == 1


def test_each_letter_is_a_line_in_the_log_of_which_the_dashboard_counts_by_type(
    connection: Connection,
    sqs: Any,
    configured: Settings,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logging.getLogger("dilamme"), "propagate", True)
    put(connection, type="test.mail")
    bury(connection, claim_one(connection))
    send_outbox(connection, configured)
    line = next(record for record in caplog.records if record.message == "job dead")
    assert (line.job_type, line.reason, line.attempts) == ("test.mail", "fail", 1)  # type: ignore[attr-defined]
