"""Why a job is not running: the question that every scheduler is asked, answered in sentences and in fields."""

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
    """What a job waits for, or why it no longer does."""

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
    """What is known: ``job``, a row of ``explain_job``; what it waits on; how many are before it; the worker slots."""

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
    reasons = list(_TELL[job["status"]](facts))
    fields = _waiting_fields(facts) if job["status"] == Status.PENDING else {}
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


def _why_pending(facts: Facts) -> Iterator[Because]:
    job = facts.job
    if job["unmet_dependencies"]:
        yield Because(cause=Cause.DEPENDENCIES, detail=_dependencies(facts))
    if job["ready_at"] > facts.now:
        yield Because(cause=Cause.NOT_DUE, detail=_not_due(facts))
    if is_ready(job):
        yield Because(cause=Cause.IN_LINE, detail=_in_line(facts))
        yield from _why_not_at_once(facts)


def _why_not_at_once(facts: Facts) -> Iterator[Because]:
    if not facts.job["type_is_known"]:
        detail = f"No worker that has started so far knows the type {facts.job['type']}: deploy a handler for it."
        yield Because(cause=Cause.UNKNOWN_TYPE, detail=detail)
    if not facts.free:
        yield Because(cause=Cause.WORKERS_BUSY, detail=f"All workers ({facts.slots}) are busy.")
    if not facts.job["scheduler_alive"]:
        yield Because(cause=Cause.NO_SCHEDULER, detail=_no_scheduler(facts))


def _dependencies(facts: Facts) -> str:
    named = [f"{parent['id']} ({parent['status']})" for parent in facts.waits_on]
    more = facts.job["unmet_dependencies"] - len(named)
    sentence = f"It waits on {', '.join(named)}{f' and {more:,} more' if more > 0 else ''}."
    if any(parent["status"] in (Status.DEAD, Status.CANCELLED) for parent in facts.waits_on):
        sentence += " A dead one has to be replayed first; a cancelled one never completes."
    return sentence


def _not_due(facts: Facts) -> str:
    job = facts.job
    sentence = f"It is due in {span(_seconds(job['ready_at'], facts.now))}"
    if job["unknown_since"] is not None:
        return f"{sentence}: the worker that met it does not know the type {job['type']}, so it is tried again later."
    if job["attempt"]:
        return f"{sentence}, for attempt {job['attempt'] + 1} of {job['max_attempts']}."
    return f"{sentence}."


def _in_line(facts: Facts) -> str:
    place = f"behind at least {RANK_MAX:,} others" if facts.ahead >= RANK_MAX else f"{ordinal(facts.ahead + 1)} in line"
    effective = effective_priority_of(facts.job, facts.ageing_seconds)
    waited = span(_seconds(facts.now, facts.job["ready_at"]))
    if effective == facts.job["priority"]:
        return f"It is {place}, priority {effective}, and has waited {waited}."
    return f"It is {place}, effective priority {effective} (was {facts.job['priority']}, waited {waited})."


def _no_scheduler(facts: Facts) -> str:
    ticked = facts.job["last_tick_at"]
    how_long = f"for {span(_seconds(facts.now, ticked))}" if ticked else "yet"
    return f"No scheduler has ticked {how_long}: the trigger of the next minute starts one, if it is enabled."


def _why_running(facts: Facts) -> Iterator[Because]:
    job = facts.job
    where = f"on worker slot {job['slot']}" if job["slot"] else "on a worker that has let go of its slot"
    detail = f"It has been running for {span(_seconds(facts.now, job['started_at']))}, attempt {job['attempt']} of {job['max_attempts']}, {where}."
    if job["lease_expires_at"] <= facts.now:
        detail += " Its lease has run out: the next tick frees it."
    yield Because(cause=Cause.RUNNING, detail=detail)


def _why_completed(facts: Facts) -> Iterator[Because]:
    job = facts.job
    took = f" after {span(_seconds(job['finished_at'], job['started_at']))}" if job["started_at"] else ""
    ago = span(_seconds(facts.now, job["finished_at"]))
    yield Because(cause=Cause.COMPLETED, detail=f"It completed {ago} ago, in attempt {job['attempt']}{took}.")


def _why_dead(facts: Facts) -> Iterator[Because]:
    job = facts.job
    detail = f"It died {span(_seconds(facts.now, job['finished_at']))} ago, in attempt {job['attempt']} of {job['max_attempts']}"
    yield Because(cause=Cause.DEAD, detail=f"{detail}{_last_words(job)}. Replay it to try again.")


def _why_cancelled(facts: Facts) -> Iterator[Because]:
    ago = span(_seconds(facts.now, facts.job["finished_at"]))
    yield Because(cause=Cause.CANCELLED, detail=f"It was cancelled {ago} ago{_last_words(facts.job)}.")


_TELL = {
    Status.PENDING: _why_pending,
    Status.RUNNING: _why_running,
    Status.COMPLETED: _why_completed,
    Status.DEAD: _why_dead,
    Status.CANCELLED: _why_cancelled,
}


def _last_words(job: dict[str, Any]) -> str:
    error = job["last_error"]
    return f": {error['reason']}, {error['message']}" if error else ""


def _seconds(later: datetime, earlier: datetime) -> float:
    return (later - earlier).total_seconds()


def span(seconds: float) -> str:
    """A length of time as one says it: two digits or so, in one unit."""
    for unit, length, upto in (("ms", 0.001, 1), ("s", 1, 120), ("min", 60, 7_200), ("h", 3_600, 172_800)):
        if seconds < upto:
            return f"{max(0, seconds) / length:.0f} {unit}"
    return f"{seconds / 86_400:,.0f} days"


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, … 11th, … 341st."""
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{suffix}"
