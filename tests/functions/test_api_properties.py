"""Whatever is sent, the answer is never a mistake of ours, and what is taken comes back as it was."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.functions.door import event, get, post, send
from tests.support.answers import PROBLEM, Answer

pytestmark = pytest.mark.usefixtures("door")
# The database is the same for all examples: none depends on what another has stored.
quick = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])

texts = st.text(st.characters(codec=None), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=10,
)
characters = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
storable = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | characters,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(characters, inner, max_size=4),
    max_leaves=10,
)
FIELDS = [
    "type",
    "payload",
    "priority",
    "scheduledAt",
    "intervalSeconds",
    "dependencyIds",
    "maxAttempts",
    "onDependencyFailure",
]
jobs = st.dictionaries(st.sampled_from([*FIELDS, "ref", "dependencyRefs"]) | texts, values, max_size=5)


def assert_no_mistake_of_ours(answer: Answer) -> None:
    assert answer.status < 500, answer.text
    if answer.status >= 400:
        assert answer.headers["content-type"] == PROBLEM
        assert isinstance(answer.pointers, list)


@quick
@given(jobs, st.none() | texts)
def test_any_job(job: dict[str, Any], key: str | None) -> None:
    assert_no_mistake_of_ours(post("/jobs", {"type": "demo.echo", **job}, key=key))


@quick
@given(st.lists(jobs, max_size=3))
def test_any_batch(batch: list[dict[str, Any]]) -> None:
    assert_no_mistake_of_ours(post("/jobs/batch", {"jobs": [{"type": "demo.echo", **job} for job in batch]}))


@quick
@given(texts | values.map(json.dumps))
def test_any_body(body: str) -> None:
    for path in ("/jobs", "/jobs/batch", "/dead-letters/replay"):
        assert_no_mistake_of_ours(post(path, body))


@quick
@given(st.sampled_from(["GET", "POST", "PUT"]), texts, st.dictionaries(texts, texts, max_size=3))
def test_any_path_and_parameters(method: str, path: str, query: dict[str, str]) -> None:
    for target in (f"/{path}", f"/jobs/{path}", f"/jobs/{path}/why", f"/series/{path}/cancel", "/jobs"):
        assert_no_mistake_of_ours(send(event(method, target, query=query)))


@quick
@given(storable)
def test_a_payload_comes_back_as_it_was(payload: Any) -> None:
    stored = post("/jobs", {"type": "demo.echo", "payload": payload})
    assert stored.status == 201
    assert numbers_exact(get(stored.headers["location"]).text)["payload"] == numbers_exact(json.dumps(payload))


def numbers_exact(text: str) -> Any:
    return json.loads(text, parse_int=Decimal, parse_float=Decimal)
