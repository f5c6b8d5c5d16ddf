"""Each route as a value: what to send, and how to read the answer. The two clients send it, one of them asynchronously."""

import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Protocol, TypedDict, TypeVar
from urllib.parse import quote
from uuid import UUID

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from dilamme.client.problems import problem_in
from dilamme.domain.errors import Fault, InvalidInput
from dilamme.domain.job import Status
from dilamme.domain.job_options import JobOptions
from dilamme.wire.answers import (
    BatchedJob,
    BatchView,
    CancelledSeries,
    Health,
    JobPage,
    JobView,
    ReplayedDead,
    ReplayedJob,
    Stats,
    TypePage,
    rfc_3339,
)
from dilamme.wire.canonical_json import json_text
from dilamme.wire.why import Why

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
RETRIED = {429, 500, 502, 503, 504}
PAUSES_SECONDS = (0.2, 0.5, 1.0, 2.0)  # before each repetition, unless Retry-After says more


class Page(Protocol):
    """A page of a list."""

    @property
    def next_cursor(self) -> str | None: ...


class Options(JobOptions, total=False):
    """The fields of a job beside its type and payload, as the API takes them."""

    payload_version: int | None


class Filters(TypedDict, total=False):
    """What to list."""

    status: Status | str
    type: str
    priority: int
    series_id: UUID


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A request. ``key`` is its idempotency key: with one, or with a method that changes nothing, it may be repeated."""

    method: str
    path: str
    read: Callable[[Any], T]
    body: Any = None
    query: Mapping[str, str] | None = None
    key: str | None = None
    repeatable: bool = True

    @property
    def sent(self) -> dict[str, Any]:
        """The arguments of httpx's ``request``."""
        named = {"content-type": "application/json"} if self.method == "POST" else {}
        return {
            "method": self.method,
            "url": self.path,
            "content": None if self.body is None else json.dumps(self.body, ensure_ascii=False).encode(),
            "params": self.query,
            "headers": named | ({"idempotency-key": self.key} if self.key else {}),
        }

    def answer(self, status: int, content: bytes) -> T:
        """The answer.

        Raises:
            DilammeError: the answer is a problem; the class says which.
        """
        if status >= 400:
            raise problem_in(status, content)
        return self.read(json.loads(content))


def submit(type_: str, payload: Any, key: str | None, options: Options) -> Call[JobView]:
    """``POST /jobs``. Without a key it gets one of its own, so that a repetition after a lost answer stores nothing twice."""
    return Call("POST", "/jobs", _as(JobView), job(type_, payload, options), key=key or str(uuid.uuid4()))


def submit_many(jobs: Iterable[Mapping[str, Any]], key: str | None) -> Call[list[BatchedJob]]:
    """``POST /jobs/batch``; each job as in `dilamme.submit_many`."""
    bodies = []
    for place, one in enumerate(jobs):
        if not isinstance(one, Mapping) or "type" not in one:
            raise InvalidInput(Fault(f"/jobs/{place}", "must be a mapping of the arguments of submit, with a type"))
        rest = {name: value for name, value in one.items() if name not in {"type", "payload"}}
        bodies.append(job(one["type"], one.get("payload"), rest))

    def read(content: Any) -> list[BatchedJob]:
        return BatchView.model_validate(content).jobs

    return Call("POST", "/jobs/batch", read, {"jobs": bodies}, key=key or str(uuid.uuid4()))


def job(type_: str, payload: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """A job as the API takes it."""
    body: dict[str, Any] = {"type": type_}
    if payload is not None:
        try:
            body["payload"] = json.loads(json_text(payload))
        except ValueError as error:
            raise InvalidInput(Fault("/payload", str(error))) from None
    for name, value in options.items():
        if value is not None:
            body[to_camel(name)] = _plain(value)
    return body


def find(job_id: UUID | str) -> Call[JobView]:
    """``GET /jobs/{id}``."""
    return Call("GET", f"/jobs/{_segment(job_id)}", _as(JobView))


def why(job_id: UUID | str) -> Call[Why]:
    """``GET /jobs/{id}/why``."""
    return Call("GET", f"/jobs/{_segment(job_id)}/why", _as(Why))


def page(filters: Filters, limit: int, cursor: str | None) -> Call[JobPage]:
    """``GET /jobs``: one page."""
    query = {"limit": str(limit), **({"cursor": cursor} if cursor else {})}
    for name, value in filters.items():
        if value is not None:
            query[to_camel(name)] = str(value)
    return Call("GET", "/jobs", _as(JobPage), query=query)


def cancel(job_id: UUID | str) -> Call[JobView]:
    """``POST /jobs/{id}/cancel``."""
    return Call("POST", f"/jobs/{_segment(job_id)}/cancel", _as(JobView))


def cancel_series(series_id: UUID | str) -> Call[CancelledSeries]:
    """``POST /series/{id}/cancel``."""
    return Call("POST", f"/series/{_segment(series_id)}/cancel", _as(CancelledSeries))


def replay(job_id: UUID | str) -> Call[ReplayedJob]:
    """``POST /jobs/{id}/replay``."""
    return Call("POST", f"/jobs/{_segment(job_id)}/replay", _as(ReplayedJob))


def replay_dead(wanted: Mapping[str, Any]) -> Call[ReplayedDead]:
    """Not repeated: a second call would revive further jobs."""
    body = {name: _plain(value) for name, value in wanted.items() if value is not None}
    return Call("POST", "/dead-letters/replay", _as(ReplayedDead), body, repeatable=False)


def stats() -> Call[Stats]:
    """``GET /stats``."""
    return Call("GET", "/stats", _as(Stats))


def types(cursor: str | None) -> Call[TypePage]:
    """``GET /types``: one page."""
    return Call("GET", "/types", _as(TypePage), query={"cursor": cursor} if cursor else None)


def health() -> Call[Health]:
    """``GET /health``."""
    return Call("GET", "/health", _as(Health))


def _as(model: type[M]) -> Callable[[Any], M]:
    return model.model_validate


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise InvalidInput(Fault("/scheduled_at", "has no time zone: give one"))
        return rfc_3339(value)
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        return [_plain(one) for one in value]
    return value


def _segment(value: UUID | str) -> str:
    return quote(str(value), safe="")
