"""Asynchronous invocations of our own functions."""

import json
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config

from dilamme.aws import environment

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient


class InvokeFailed(Exception):
    """AWS did not take the event, or did not say that it had."""


@cache
def _client() -> "LambdaClient":
    # A slow Invoke must not delay a tick. A doubled event is the lesser evil: the slot's compare-and-set drops it.
    config = Config(
        connect_timeout=1,
        read_timeout=2,
        retries={"mode": "standard", "total_max_attempts": 2},
        max_pool_connections=32,
    )
    with environment.as_kept():
        return boto3.client("lambda", config=config)


def prepare() -> None:
    """Makes the client at the cold start, so that the first job does not wait the tenth of a second for it."""
    _client()


def invoke(function: str, event: Mapping[str, Any]) -> None:
    """Invokes a function with ``event`` and does not wait for its end.

    Raises:
        InvokeFailed: throttled, refused, or no answer in time. The event may have been taken all the same.
    """
    try:
        answer = _client().invoke(FunctionName=function, InvocationType="Event", Payload=json.dumps(event).encode())
        # It is empty, but must be read: else the next call cannot use its connection, and makes a TLS handshake more.
        answer["Payload"].read()
    except Exception as error:  # not only boto3's own: handlers share this process, and may make every warning an error
        raise InvokeFailed(f"{function} could not be invoked: {error}") from error
