"""The events in ``events/api-*.json``, which SAM invokes the function with as well."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.functions.door import send
from tests.support.answers import Answer

pytestmark = pytest.mark.usefixtures("door")

EVENTS = Path(__file__).parents[2] / "events"
STATUSES = {
    "api-post-job": 201,
    "api-post-job-base64": 201,
    "api-post-batch": 201,
    "api-get-job": 404,
    "api-list-jobs": 200,
    "api-stats": 200,
    "api-health": 200,
}


def load(name: str) -> dict[str, Any]:
    event: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text(encoding="utf-8"))
    return event


def sent(name: str) -> Answer:
    return send(load(name))


def test_every_event_has_its_answer() -> None:
    assert {file.stem for file in EVENTS.glob("api-*.json")} == STATUSES.keys()
    assert {name: sent(name).status for name in STATUSES} == STATUSES


def test_a_posted_job_can_be_got() -> None:
    posted = sent("api-post-job")
    event = load("api-get-job")
    event["rawPath"] = event["requestContext"]["http"]["path"] = posted.headers["location"]
    assert send(event).json == posted.json
    assert sent("api-post-job").status == 200  # it carries a key


def test_a_base64_body_is_read_as_usual() -> None:
    assert sent("api-post-job-base64").json["payload"] == {"grüße": "€"}
