"""Asynchronous invocations of our own functions."""

import json
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient


class InvokeFailed(Exception):
    """AWS did not take the event, or did not say that it had."""


@cache
def _client() -> "LambdaClient":
    # A slow Invoke must not stall a tick: better a doubled event (the slot's compare-and-set drops it) than a wait.
    config = Config(
        connect_timeout=1,
        read_timeout=2,
        retries={"mode": "standard", "total_max_attempts": 2},
        max_pool_connections=32,
    )
    return boto3.client("lambda", config=config)


def prepare() -> None:
    """Makes the client at the cold start, where its tenth of a second is not the first job's."""
    _client()


def invoke(function: str, event: Mapping[str, Any]) -> None:
    """Hands ``event`` to a function and does not wait for it.

    Raises:
        InvokeFailed: throttled, refused, or no answer in time. The event may have been taken all the same.
    """
    try:
        answer = _client().invoke(FunctionName=function, InvocationType="Event", Payload=json.dumps(event).encode())
        # Empty, but unread it keeps its connection from the next call, which then has a TLS handshake more to make.
        answer["Payload"].read()
    except (BotoCoreError, ClientError, ValueError) as error:  # the last: an endpoint that is no URL
        raise InvokeFailed(f"{function} could not be invoked: {error}") from error
