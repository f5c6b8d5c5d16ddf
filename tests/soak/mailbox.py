"""Takes dead letters off the queue while they come, as an application would: moto is slow with a queue that is long."""

import json
import threading
from pathlib import Path
from typing import Any

import boto3

from tests.soak.journals import Journal
from tests.soak.threads import LoudThread

PAUSE_SECONDS = 0.3


class Mailbox:
    """Lines of ``letters.jsonl``: the messages' bodies, each noted before it is deleted from the queue."""

    def __init__(self, aws_url: str, queue_url: str, folder: Path) -> None:
        self._sqs = boto3.Session("local", "local", None, "us-east-1").client("sqs", endpoint_url=aws_url)
        self._queue_url = queue_url
        self._journal = Journal(folder / "letters.jsonl")
        self._stopping = threading.Event()
        self._thread = LoudThread(self._work)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends with an empty queue."""
        self._stopping.set()
        self._thread.finish()
        self._journal.close()

    def _work(self) -> None:
        while not self._stopping.wait(PAUSE_SECONDS):
            self._empty()
        self._empty()

    def _empty(self) -> None:
        while messages := self._sqs.receive_message(QueueUrl=self._queue_url, MaxNumberOfMessages=10).get("Messages"):
            for message in messages:
                self._journal.write(**json.loads(message["Body"]))
            entries: Any = [{"Id": str(n), "ReceiptHandle": one["ReceiptHandle"]} for n, one in enumerate(messages)]
            self._sqs.delete_message_batch(QueueUrl=self._queue_url, Entries=entries)
