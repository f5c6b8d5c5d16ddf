"""The types that workers have published: listed, and what a posted payload must fit."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from pydantic import BaseModel

from dilamme.handlers.registry import Registry
from dilamme.settings import Settings
from dilamme.store.connection import Connection, connect
from dilamme.store.job_types import upsert_types
from dilamme.usecases import published, read
from functions.api import handler as api
from tests.functions.door import get, post, submit
from tests.support.entrance import role_url

pytestmark = pytest.mark.usefixtures("door")

SECRET = "hunter2"
WELCOME = "mail.welcome"
RIGHT = {"to": "ada", "order": 7}
WRONG = {"order": SECRET}
FAULTS = [("/to", "is required"), ("/order", "must be a whole number")]


class Welcome(BaseModel):
    """A typed handler's payload."""

    to: str
    order: int


@pytest.fixture
def publish(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[Registry], None]:
    """Publishes types as a worker that starts does; the API then looks anew."""

    def publish(registry: Registry) -> None:
        registry.resolve_shapes()
        with closing(connect(role_url(database_url, "worker"))) as worker:
            upsert_types(worker, list(registry.values()))
        monkeypatch.setattr(published, "_known", {})

    return publish


@pytest.fixture
def welcome(publish: Callable[[Registry], None]) -> None:
    """A typed handler, published at its second version."""
    registry = Registry()

    @registry.job(WELCOME, version=2, max_attempts=5, timeout_seconds=1.5)
    def welcome(payload: Welcome, context: Any) -> None:
        """Does nothing."""

    registry.upcast(WELCOME, from_version=1)(lambda old: old)
    registry.job("mail.plain")(lambda payload, context: None)
    publish(registry)


def refused(answer: Any) -> list[tuple[str, str]]:
    assert answer.status == 422, answer.text
    assert answer.json["type"] == "urn:dilamme:problem:invalid-input"
    assert SECRET not in answer.text
    return [(error["pointer"], error["detail"]) for error in answer.json["errors"]]


@pytest.mark.usefixtures("welcome")
def test_types_are_listed_with_what_they_published(settings: Settings) -> None:
    answer = get("/types")
    assert answer.status == 200
    plain, typed = answer.json["types"]
    assert answer.json["nextCursor"] is None
    assert typed.pop("publishedAt").endswith("Z")
    assert typed == {
        "type": WELCOME,
        "maxAttempts": 5,
        "timeoutSeconds": 1.5,
        "backoffBaseSeconds": settings.backoff_base_seconds,
        "backoffCapSeconds": settings.backoff_cap_seconds,
        "version": 2,
        "schema": Welcome.model_json_schema(),
    }
    assert (plain["type"], plain["version"], plain["schema"]) == ("mail.plain", 1, None)
    assert plain["maxAttempts"] == settings.max_attempts


def test_a_list_of_types_is_bounded_and_goes_on(publish: Callable[[Registry], None]) -> None:
    registry = Registry()
    names = [f"type.{number:03}" for number in range(read.PAGE_TYPES_MAX + 5)]
    for name in names:
        registry.job(name)(lambda payload, context: None)
    publish(registry)
    first = get("/types").json
    rest = get("/types", cursor=first["nextCursor"]).json
    assert [one["type"] for one in first["types"] + rest["types"]] == names
    assert rest["nextCursor"] is None
    assert [one["type"] for one in get("/types", limit=2, cursor=names[0]).json["types"]] == names[1:3]


@pytest.mark.parametrize("query", [{"limit": 51}, {"limit": 0}, {"cursor": "A"}, {"type": "a"}])
def test_a_parameter_that_a_list_of_types_does_not_have_is_refused(query: dict[str, Any]) -> None:
    (name,) = query
    assert [pointer for pointer, _ in refused(get("/types", **query))] == [f"/{name}"]


@pytest.mark.usefixtures("welcome")
def test_a_payload_that_does_not_fit_is_refused_with_pointers_and_without_values(connection: Connection) -> None:
    assert refused(post("/jobs", {"type": WELCOME, "payload": WRONG})) == [
        (f"/payload{pointer}", detail) for pointer, detail in FAULTS
    ]
    assert refused(post("/jobs", {"type": WELCOME, "payload": [SECRET]})) == [("/payload", "must be a JSON object")]
    batch = {"jobs": [{"type": "mail.plain"}, {"type": WELCOME, "payload": WRONG}]}
    assert refused(post("/jobs/batch", batch)) == [(f"/jobs/1/payload{pointer}", detail) for pointer, detail in FAULTS]
    assert connection.execute("SELECT count(*) FROM dilamme.jobs").fetchone() == (0,)


@pytest.mark.usefixtures("welcome")
def test_a_payload_that_fits_has_the_published_version() -> None:
    assert submit(WELCOME, payload=RIGHT)["payloadVersion"] == 2
    assert submit("mail.plain")["payloadVersion"] is None
    assert submit("mail.unheard_of", payload=WRONG)["payloadVersion"] is None


@pytest.mark.usefixtures("welcome")
def test_a_payload_of_another_version_is_left_to_the_worker() -> None:
    assert submit(WELCOME, payload=WRONG, payloadVersion=1)["payloadVersion"] is None
    assert submit(WELCOME, payload=WRONG, payloadVersion=3)["payloadVersion"] == 3
    named = post("/jobs", {"type": WELCOME, "payload": WRONG, "payloadVersion": 2})
    assert [pointer for pointer, _ in refused(named)] == ["/payload/to", "/payload/order"]


@pytest.mark.parametrize("version", [0, -1, 32_768, "2", 1.5, True])
def test_a_version_that_no_payload_can_have_is_refused(version: Any) -> None:
    wrong = post("/jobs", {"type": "mail.plain", "payloadVersion": version})
    assert [pointer for pointer, _ in refused(wrong)] == ["/payloadVersion"]


@pytest.mark.usefixtures("welcome")
def test_a_setting_turns_the_check_off(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "configuration", settings.model_copy(update={"check_payloads": False}))
    assert submit(WELCOME, payload=WRONG)["payloadVersion"] == 2


@pytest.mark.usefixtures("welcome")
def test_a_repetition_under_its_key_is_answered_with_the_job_whatever_is_published_since(
    publish: Callable[[Registry], None],
) -> None:
    job = {"type": "mail.plain", "payload": WRONG}
    first = post("/jobs", job, key="k")
    registry = Registry()

    @registry.job("mail.plain")
    def plain(payload: Welcome, context: Any) -> None:
        """Has come to have a shape."""

    publish(registry)
    again = post("/jobs", job, key="k")
    assert (first.status, again.status) == (201, 200)
    assert again.json["id"] == first.json["id"]
    refused(post("/jobs", job, key="another"))
