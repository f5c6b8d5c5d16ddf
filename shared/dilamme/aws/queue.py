"""The dead-letter queue."""

import json
import logging
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

logger = logging.getLogger("dilamme.queue")

BATCH_MESSAGES_MAX = 10  # SendMessageBatch takes no more


class SendFailed(Exception):
    """AWS did not take the messages."""


@cache
def _client() -> "SQSClient":
    return boto3.client(
        "sqs", config=Config(connect_timeout=1, read_timeout=3, retries={"mode": "standard", "total_max_attempts": 2})
    )


def send(queue_url: str, messages: Sequence[tuple[UUID, Mapping[str, Any]]]) -> list[UUID]:
    """Sends up to `BATCH_MESSAGES_MAX` messages; the ids of those that the queue took.

    Raises:
        SendFailed: it took none, or did not answer.
    """
    entries: Any = [
        {
            "Id": str(place),
            "MessageBody": json.dumps(message, ensure_ascii=False),
            "MessageAttributes": {"type": {"DataType": "String", "StringValue": str(message["type"])}},
        }
        for place, (_, message) in enumerate(messages)
    ]
    try:
        answer = _client().send_message_batch(QueueUrl=queue_url, Entries=entries)
    except (BotoCoreError, ClientError) as error:
        raise SendFailed(f"the dead-letter queue did not take the messages: {error}") from error
    taken = [messages[int(entry["Id"])] for entry in answer.get("Successful", [])]
    for _, message in taken:
        _tell(message)
    return [letter_id for letter_id, _ in taken]


def _tell(message: Mapping[str, Any]) -> None:
    """A line a dead letter, of which the dashboard makes "dead, by type": whatever killed the job, its letter comes by here."""
    error = message["error"]
    told = {
        "job_id": message["jobId"],
        "job_type": message["type"],
        "attempts": message["attempts"],
        "reason": error["reason"],
    }
    logger.error("job dead", extra=told)
