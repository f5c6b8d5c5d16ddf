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
    """Sends up to `BATCH_MESSAGES_MAX` messages; the ids of those that the queue accepted.

    Each accepted message is logged as a dead job. The dashboard counts these lines as "dead, by type", and every dead
    letter passes here, whatever ended its job.

    Raises:
        SendFailed: the queue accepted no message, or did not answer.
    """
    entries: Any = [
        {
            "Id": str(index),
            "MessageBody": json.dumps(message, ensure_ascii=False),
            "MessageAttributes": {"type": {"DataType": "String", "StringValue": str(message["type"])}},
        }
        for index, (_, message) in enumerate(messages)
    ]
    try:
        answer = _client().send_message_batch(QueueUrl=queue_url, Entries=entries)
    except (BotoCoreError, ClientError) as error:
        raise SendFailed(f"the dead-letter queue did not take the messages: {error}") from error
    accepted = [messages[int(entry["Id"])] for entry in answer.get("Successful", [])]
    for _, message in accepted:
        logger.error(
            "job dead",
            extra={
                "job_id": message["jobId"],
                "job_type": message["type"],
                "attempts": message["attempts"],
                "reason": message["error"]["reason"],
            },
        )
    return [letter_id for letter_id, _ in accepted]
