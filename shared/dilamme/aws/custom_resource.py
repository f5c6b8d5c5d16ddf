"""CloudFormation's custom resources: a function runs as a step of a deployment, and must answer in every case.

https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/crpg-ref.html
"""

import hashlib
import json
import logging
import time
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from dilamme.domain.errors import DatabaseUnavailable, DilammeError

REASON_BYTES_MAX = 2_000  # the whole answer may have 4,096
ANSWER_TRIES = 3
ANSWER_PAUSE_SECONDS = 1
# In a network that is one minute old a name may not resolve yet, or may lead outside. A failure here costs a quarter of an
# hour.
WORK_TRIES = 8
WORK_PAUSE_SECONDS = 15

logger = logging.getLogger("dilamme.custom_resource")


def is_request(event: Mapping[str, Any]) -> bool:
    """Does CloudFormation wait for our answer?"""
    return "ResponseURL" in event


def handle(event: Mapping[str, Any], work: Callable[[], object], outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Does the ``work`` of a Create or an Update, sends the answer and returns it. The template reads ``outputs`` by GetAtt.

    A Delete has nothing to undo, and a roll-back returns to properties that have worked. Both succeed without any work:
    else a stack whose database is gone, or whose new version failed, would be stuck.
    """
    identity = physical_id(event["ResourceProperties"])
    if event["RequestType"] == "Delete":
        return answer(event, event["PhysicalResourceId"])
    if _rolls_back(event, identity):
        return answer(event, identity, outputs=outputs)
    try:
        _repeated(work, DatabaseUnavailable, WORK_TRIES, WORK_PAUSE_SECONDS)
    except DilammeError as error:
        logger.error("deployment step failed", extra={"error": str(error)})
        return answer(event, event.get("PhysicalResourceId", "never-created"), failure=str(error))
    except Exception as error:
        logger.exception("deployment step failed")
        reason = f"{type(error).__name__}: {error}; the function's log has more"
        return answer(event, event.get("PhysicalResourceId", "never-created"), failure=reason)
    return answer(event, identity, outputs=outputs)


def _repeated(work: Callable[[], object], passing: type[Exception], tries: int, pause_seconds: float) -> None:
    """Does ``work``, and repeats it after a pause as long as it raises ``passing``; raises the last error."""
    for tries_left in reversed(range(tries)):
        try:
            work()
        except passing as error:
            if not tries_left:
                raise
            logger.warning("not yet", extra={"error": str(error), "tries_left": tries_left})
            time.sleep(pause_seconds)
        else:
            return


def physical_id(properties: Mapping[str, Any]) -> str:
    """The resource's id: a hash of the applied properties, so that a roll-back differs from a new attempt."""
    return "applied-" + hashlib.sha256(json.dumps(properties, sort_keys=True).encode()).hexdigest()[:16]


def _rolls_back(event: Mapping[str, Any], identity: str) -> bool:
    """Is this the Update that undoes another one?

    After a failed Update the id is still the one that worked before. An Update that worked, in a deployment that failed
    later, shows only in the layer's version: it never falls otherwise.
    """
    before, after = event.get("OldResourceProperties", {}).get("Layer"), event["ResourceProperties"].get("Layer")
    older = before is not None and after is not None and _version(after) < _version(before)
    return event.get("PhysicalResourceId") == identity or older


def _version(layer_arn: str) -> int:
    return int(layer_arn.rpartition(":")[2])


def answer(
    event: Mapping[str, Any], identity: str, *, outputs: Mapping[str, Any] | None = None, failure: str | None = None
) -> dict[str, Any]:
    """Sends the outcome to CloudFormation and returns it; raises the last error if it cannot be sent."""
    body = {
        "Status": "SUCCESS" if failure is None else "FAILED",
        "Reason": (failure or "").encode()[:REASON_BYTES_MAX].decode(errors="ignore"),
        "PhysicalResourceId": identity,
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
        "Data": dict(outputs or {}),
    }
    # The address is signed for an empty content type; urllib would add one of its own.
    request = urllib.request.Request(  # noqa: S310
        event["ResponseURL"], data=json.dumps(body).encode(), method="PUT", headers={"Content-Type": ""}
    )

    def send() -> None:
        urllib.request.urlopen(request, timeout=10).close()  # noqa: S310  CloudFormation's own address

    _repeated(send, OSError, ANSWER_TRIES, ANSWER_PAUSE_SECONDS)
    return body
