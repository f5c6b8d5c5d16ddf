"""Answers: the one description of them for the API, its checks and its OpenAPI document.

Names are camelCase in JSON, times RFC 3339 in UTC with Z.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, WithJsonSchema
from pydantic.alias_generators import to_camel

from dilamme.domain.job import Status
from dilamme.domain.priority import effective_priority
from dilamme.wire.strict_json import loads_kept


def rfc_3339(moment: datetime) -> str:
    """``moment`` in UTC, with Z, and with its microseconds where it has any."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


Time = Annotated[
    datetime, PlainSerializer(rfc_3339, return_type=str), WithJsonSchema({"type": "string", "format": "date-time"})
]


class View(BaseModel):
    """The base: read from a row, written in camelCase."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, hide_input_in_errors=True)


class ErrorView(View):
    """A failed attempt."""

    # A plain string: a newer worker may know a reason that this code does not.
    reason: str = Field(description="Such as error, timeout, worker_lost, unknown_type, dependency_failed, cancelled.")
    message: str
    attempt: int
    at: Time


class JobSummary(View):
    """A job in a list: without payload, result, dependencies and past errors, so that 200 of them fit in an answer."""

    id: UUID
    type: str
    priority: int = Field(description="As given: 1 is high, 2 medium, 3 low.")
    effective_priority: int | None = Field(
        description="After ageing; null unless the job is ready and waits for a worker."
    )
    status: Status
    scheduled_at: Time = Field(description="As given, or the time of creation; for a recurring job, its slot.")
    ready_at: Time = Field(description="From when on it may run, dependencies aside; a retry moves it.")
    created_at: Time
    started_at: Time | None = Field(description="When the latest attempt started.")
    finished_at: Time | None
    attempt: int = Field(description="Attempts started since the job was created or replayed.")
    max_attempts: int = Field(description="The job's own, else its type's, else the setting.")
    interval_seconds: int | None
    series_id: UUID | None = Field(description="The series of a recurring job.")
    on_dependency_failure: str
    unmet_dependencies: int = Field(description="How many of its dependencies have not completed.")
    last_error: ErrorView | None

    @classmethod
    def of(cls, row: dict[str, Any], ageing_seconds: float) -> Self:
        """The view of a row of ``sql/reads.sql``, as of the row's ``now``."""
        return cls.model_validate({**row, "effective_priority": effective_priority_of(row, ageing_seconds)})


class JobView(JobSummary):
    """A job in full."""

    payload: Any
    payload_version: int | None = Field(description="Of its type's payloads; null is the first.")
    result: Any = Field(description="What its handler returned; null unless completed.")
    dependency_ids: list[UUID]
    errors: list[ErrorView] = Field(description="Of past attempts, oldest first; a replay keeps them.")

    @classmethod
    def of(cls, row: dict[str, Any], ageing_seconds: float) -> Self:
        """As for a summary. The row has payload and result as text."""
        kept = {name: row[name] and loads_kept(row[name]) for name in ("payload", "result")}
        return super().of({**row, **kept}, ageing_seconds)


class ReplayedJob(JobView):
    """A job after a replay."""

    replayed: bool = Field(description="Did this call revive it?")
    detail: str


class JobPage(View):
    """A page of a list."""

    jobs: list[JobSummary]
    next_cursor: str | None = Field(
        description="For the next page; null on the last. A page before it may be short, or empty."
    )


@dataclass(slots=True)
class BatchedJob:
    """A job of a batch, in the order in which it was sent."""

    # Neither a model nor frozen: an answer has a thousand of these, and models are slow to make.
    id: UUID
    ref: str | None
    status: Annotated[
        Status | None, Field(description="At present; null if the job has ended and its retention is over.")
    ]


class BatchView(View):
    """A stored batch."""

    jobs: list[BatchedJob]


class TypeView(View):
    """A type of jobs, as the worker that started last has published it."""

    type: str
    max_attempts: int = Field(description="The type's own, else the setting; so are the next three.")
    timeout_seconds: float
    backoff_base_seconds: float
    backoff_cap_seconds: float
    version: int = Field(description="Of its payloads: a job that names none has this one.")
    payload_schema: dict[str, Any] | bool | None = Field(
        alias="schema",
        description="The JSON Schema that a payload must fit; null if its handler says nothing, or it has over 64 KiB.",
    )
    published_at: Time = Field(description="When a worker last published something new of it.")


class TypePage(View):
    """A page of the types, by name."""

    types: list[TypeView]
    next_cursor: str | None = Field(description="For the next page; null on the last.")


class CancelledSeries(View):
    """A series after its cancellation."""

    id: UUID
    cancelled: bool = Field(description="Did this call end it?")
    detail: str


class ReplayedDead(View):
    """The result of a replay of dead letters."""

    replayed: int
    ids: list[UUID]
    more: bool = Field(description="Are there more of them? Then call again.")


class Count(View):
    """A number of jobs."""

    count: int
    capped: bool = Field(description="There are at least this many; counting stopped here.")


class Tally(Count):
    """A number of jobs, in total and by priority."""

    by_priority: dict[str, Count]


class JobCounts(View):
    """By status; `pending` is the sum of `ready`, `scheduled` and `blocked`."""

    pending: Tally
    running: Tally
    completed: Tally
    dead: Tally
    cancelled: Tally
    ready: Tally = Field(description="Pending, and waits for nothing but a worker.")
    scheduled: Tally = Field(description="Pending, and not due yet.")
    blocked: Tally = Field(description="Pending, and waits for its dependencies.")


class Workers(View):
    """The worker slots."""

    slots: int
    active: int = Field(description="Workers at work.")
    invited: int = Field(description="Workers that were invoked and have yet to start.")
    free: int


class SchedulerView(View):
    """The scheduler's pulse."""

    alive: bool = Field(description="Is there a leader whose lease has not run out?")
    last_tick_at: Time | None


class Stats(View):
    """The system at a glance."""

    at: Time
    jobs: JobCounts
    oldest_ready_seconds: float | None = Field(
        description="How long the job that waits longest for a worker has waited."
    )
    workers: Workers
    scheduler: SchedulerView


class Health(View):
    """The database answers, at a schema that this code knows."""

    status: str = "ok"


class FaultView(View):
    """One thing that is wrong with a request."""

    pointer: str = Field(description="JSON pointer into the body; for a query parameter or a header, / and its name.")
    detail: str


class Problem(View):
    """An error, after RFC 9457."""

    type: str = Field(description="Which problem it is, for programs to compare: docs/problems.md lists them.")
    title: str
    status: int
    detail: str
    errors: list[FaultView] = Field(default_factory=list, description="One entry a fault, the first hundred.")


def is_ready(row: dict[str, Any]) -> bool:
    """Does the job wait only for a worker?"""
    return bool(row["status"] == Status.PENDING and row["unmet_dependencies"] == 0 and row["ready_at"] <= row["now"])


def effective_priority_of(row: dict[str, Any], ageing_seconds: float) -> int | None:
    """The priority after ageing of a job that is ready, or None."""
    if not is_ready(row):
        return None
    return effective_priority(row["priority"], row["ready_at"], row["now"], ageing_seconds)
