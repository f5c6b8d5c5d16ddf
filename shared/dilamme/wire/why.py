"""Why a job is not running, in sentences for people and in fields for programs."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from pydantic import Field

from dilamme.domain.job import Status
from dilamme.wire.answers import Time, View, effective_priority_of, is_ready

RANK_MAX = 10_000
WAITS_ON_MAX = 20


class Cause(StrEnum):
    """A reason why a job waits, or why it no longer does."""

    DEPENDENCIES = "dependencies"
    NOT_DUE = "not_due"
    IN_LINE = "in_line"
    WORKERS_BUSY = "workers_busy"
    UNKNOWN_TYPE = "unknown_type"
    NO_SCHEDULER = "no_scheduler"
    RUNNING = "running"
    COMPLETED = "completed"
    DEAD = "dead"
    CANCELLED = "cancelled"


class Because(View):
    """One reason, in a sentence."""

    cause: Cause
    detail: str


class Dependency(View):
    """A job that is waited for."""

    id: UUID
    status: Status


class Why(View):
    """The answer. Fields that do not apply are null."""

    id: UUID
    status: Status
    detail: str = Field(description="The reasons' sentences in one.")
    reasons: list[Because]
    due_in_seconds: float | None = None
    waits_on: list[Dependency] | None = Field(
        None, description=f"The first {WAITS_ON_MAX}, dead and cancelled ones in front."
    )
    waits_on_count: int | None = None
    rank: int | None = Field(None, description="Its place in line, from 1.")
    rank_capped: bool | None = Field(None, description="It is at least this far behind.")
    priority: int
    effective_priority: int | None = None
    waited_seconds: float | None = None
    workers_free: int | None = None
    worker_slots: int | None = None
    worker: UUID | None = Field(None, description="The token of the worker that runs it.")
    started_at: Time | None = None
    finished_at: Time | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """The known facts: ``job``, a row of ``explain_job``; its unmet dependencies; the jobs ahead of it; the worker slots."""

    job: dict[str, Any]
    waits_on: list[dict[str, Any]]
    ahead: int
    free: int
    slots: int
    ageing_seconds: float

    @property
    def now(self) -> datetime:
        now: datetime = self.job["now"]
        return now


def explain(facts: Facts) -> Why:
    """The reasons, the weightiest first."""
    job = facts.job
    fields: dict[str, Any] = {}
    if job["status"] != Status.PENDING:
        reasons = [_state(facts)]
    else:
        fields = _waiting_fields(facts)
        reasons = list(_why_in_line(facts) if is_ready(job) else _why_not_ready(facts))
    return Why(
        id=job["id"],
        status=job["status"],
        priority=job["priority"],
        detail=" ".join(reason.detail for reason in reasons),
        reasons=reasons,
        worker=job["worker"],
        started_at=job["started_at"],
        finished_at=job["finished_at"],
        **fields,
    )


def _waiting_fields(facts: Facts) -> dict[str, Any]:
    job = facts.job
    fields: dict[str, Any] = {"workers_free": facts.free, "worker_slots": facts.slots}
    if job["unmet_dependencies"]:
        fields |= {"waits_on": facts.waits_on, "waits_on_count": job["unmet_dependencies"]}
    if job["ready_at"] > facts.now:
        fields |= {"due_in_seconds": _seconds(job["ready_at"], facts.now)}
    if is_ready(job):
        fields |= {
            "rank": min(facts.ahead, RANK_MAX - 1) + 1,
            "rank_capped": facts.ahead >= RANK_MAX,
            "effective_priority": effective_priority_of(job, facts.ageing_seconds),
            "waited_seconds": _seconds(facts.now, job["ready_at"]),
        }
    return fields


def _why_not_ready(facts: Facts) -> Iterator[Because]:
    job = facts.job
    if job["unmet_dependencies"]:
        named = [f"{parent['id']} ({parent['status']})" for parent in facts.waits_on]
        more = job["unmet_dependencies"] - len(named)
        sentence = f"It waits on {', '.join(named)}{f' and {more:,} more' if more > 0 else ''}."
        if any(parent["status"] in (Status.DEAD, Status.CANCELLED) for parent in facts.waits_on):
            sentence += " A dead one has to be replayed first; a cancelled one never completes."
        yield Because(cause=Cause.DEPENDENCIES, detail=sentence)
    if job["ready_at"] > facts.now:
        sentence = f"It is due in {span(_seconds(job['ready_at'], facts.now))}"
        if job["unknown_since"] is not None:
            sentence += f": the worker that met it does not know {_unknown(job)}, so it is tried again later"
        elif job["attempt"]:
            sentence += f", for attempt {job['attempt'] + 1} of {job['max_attempts']}"
        yield Because(cause=Cause.NOT_DUE, detail=f"{sentence}.")


def _why_in_line(facts: Facts) -> Iterator[Because]:
    """The position in line of a job that is ready, and what keeps the workers from it."""
    job, ahead = facts.job, facts.ahead
    position = f"behind at least {RANK_MAX:,} others" if ahead >= RANK_MAX else f"{ordinal(ahead + 1)} in line"
    effective = effective_priority_of(job, facts.ageing_seconds)
    waited = span(_seconds(facts.now, job["ready_at"]))
    if effective == job["priority"]:
        sentence = f"It is {position}, priority {effective}, and has waited {waited}."
    else:
        sentence = f"It is {position}, effective priority {effective} (was {job['priority']}, waited {waited})."
    yield Because(cause=Cause.IN_LINE, detail=sentence)
    if not job["type_is_known"] or _is_newer(job):
        sentence = f"No worker that has started so far knows {_unknown(job)}: deploy a handler for it."
        yield Because(cause=Cause.UNKNOWN_TYPE, detail=sentence)
    if not facts.free:
        yield Because(cause=Cause.WORKERS_BUSY, detail=f"All workers ({facts.slots}) are busy.")
    if not job["scheduler_alive"]:
        ticked = job["last_tick_at"]
        how_long = f"for {span(_seconds(facts.now, ticked))}" if ticked else "yet"
        sentence = f"No scheduler has ticked {how_long}: the trigger of the next minute starts one, if it is enabled."
        yield Because(cause=Cause.NO_SCHEDULER, detail=sentence)


def _is_newer(job: dict[str, Any]) -> bool:
    newer: bool = (job["payload_version"] or 1) > job["version_known"]
    return newer


def _unknown(job: dict[str, Any]) -> str:
    if job["type_is_known"] and (_is_newer(job) or job["payload_version"]):
        return f"version {job['payload_version']} of the type {job['type']}"
    return f"the type {job['type']}"


def _state(facts: Facts) -> Because:
    """The state of a job that waits no longer."""
    job = facts.job
    if job["status"] == Status.RUNNING:
        where = f"on worker slot {job['slot']}" if job["slot"] else "on a worker that has let go of its slot"
        running = span(_seconds(facts.now, job["started_at"]))
        detail = f"It has been running for {running}, attempt {job['attempt']} of {job['max_attempts']}, {where}."
        if job["lease_expires_at"] <= facts.now:
            detail += " Its lease has run out: the next tick frees it."
        return Because(cause=Cause.RUNNING, detail=detail)
    ago = span(_seconds(facts.now, job["finished_at"]))
    if job["status"] == Status.COMPLETED:
        took = f" after {span(_seconds(job['finished_at'], job['started_at']))}" if job["started_at"] else ""
        return Because(cause=Cause.COMPLETED, detail=f"It completed {ago} ago, in attempt {job['attempt']}{took}.")
    error = job["last_error"]
    last_words = f": {error['reason']}, {error['message']}" if error else ""
    if job["status"] == Status.CANCELLED:
        return Because(cause=Cause.CANCELLED, detail=f"It was cancelled {ago} ago{last_words}.")
    attempts = f"in attempt {job['attempt']} of {job['max_attempts']}"
    return Because(cause=Cause.DEAD, detail=f"It died {ago} ago, {attempts}{last_words}. Replay it to try again.")


def _seconds(later: datetime, earlier: datetime) -> float:
    return (later - earlier).total_seconds()


def span(seconds: float) -> str:
    """A length of time as people say it: two digits or so, in one unit."""
    for unit, length, upto in (("ms", 0.001, 1), ("s", 1, 120), ("min", 60, 7_200), ("h", 3_600, 172_800)):
        if seconds < upto:
            return f"{max(0, seconds) / length:.0f} {unit}"
    return f"{seconds / 86_400:,.0f} days"


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, … 11th, … 341st."""
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{suffix}"
