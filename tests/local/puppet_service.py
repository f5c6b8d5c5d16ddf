"""A Lambda service whose functions are puppets: each does what its event says."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from dilamme_local.dispatcher import Dispatcher
from dilamme_local.events import Events
from dilamme_local.faults import Fault, Faults, Kind
from dilamme_local.functions import Function
from dilamme_local.lambda_service import LambdaService
from tests.support.waiting import wait_until

PUPPET = Path(__file__).parent / "puppet"


class PuppetService:
    """A running Lambda service with its client; `stop` ends it and what it runs."""

    def __init__(self, folder: Path, *functions: Function) -> None:
        self.folder = folder
        self.faults = Faults()
        self.dispatcher = Dispatcher([self._journalled(function) for function in functions], folder)
        self.events = Events(self.dispatcher, self.faults)
        self.service = LambdaService(self.faults)
        self.service.dispatcher, self.service.events = self.dispatcher, self.events
        self.service.start()
        self.client = client(self.service.url)

    def stop(self) -> None:
        self.events.stop()
        self.service.stop()

    def invoke(self, name: str, **event: Any) -> Any:
        """A synchronous invocation's payload; a function error has the key ``errorType``."""
        answer = self.client.invoke(FunctionName=name, Payload=json.dumps(event))
        return json.loads(answer["Payload"].read())

    def send(self, name: str, **event: Any) -> str:
        """An event's request id."""
        answer = self.client.invoke(FunctionName=name, InvocationType="Event", Payload=json.dumps(event))
        assert answer["StatusCode"] == 202
        request_id: str = answer["ResponseMetadata"]["RequestId"]
        return request_id

    def arm(self, name: str, kind: Kind, **more: Any) -> None:
        self.faults.arm(Fault(name, kind, **more))

    def journal(self, name: str) -> list[dict[str, Any]]:
        """What the function was called with, in order."""
        file = self.folder / f"{name}.journal"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def wait_for_calls(self, name: str, number: int) -> list[dict[str, Any]]:
        wait_until(lambda: len(self.journal(name)) >= number)
        return self.journal(name)

    def _journalled(self, function: Function) -> Function:
        variables = {**os.environ, "JOURNAL": str(self.folder / f"{function.name}.journal")}
        return replace(function, environment=variables)


def client(url: str) -> Any:
    return boto3.client(
        "lambda",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",
        config=Config(retries={"total_max_attempts": 1}, read_timeout=30),
    )


def puppet(name: str, timeout_seconds: float = 20, **more: Any) -> Function:
    return Function(name, PUPPET, timeout_seconds, **{"retries": 0, "spares": 0, **more})
