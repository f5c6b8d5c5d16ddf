"""A job, its states, and the table of the transitions between them.

`TRANSITIONS` lists every change of a status. A test reads each UPDATE in ``store/sql`` and checks that it is one of them.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID


class Status(StrEnum):
    """The state of a job."""

    PENDING = "pending"  # waits for its time, its dependencies, or a worker
    RUNNING = "running"  # claimed by a worker, under a lease
    COMPLETED = "completed"
    DEAD = "dead"  # out of attempts, or refused for good; can be replayed
    CANCELLED = "cancelled"


VERSION_MAX = 32_767  # of a payload: a smallint

TERMINAL = frozenset({Status.COMPLETED, Status.DEAD, Status.CANCELLED})

# verb -> (expected status, next status). The verb is also the name of the SQL block and of the store function.
TRANSITIONS: dict[str, tuple[Status, Status]] = {
    "claim": (Status.PENDING, Status.RUNNING),
    "complete": (Status.RUNNING, Status.COMPLETED),
    "retry": (Status.RUNNING, Status.PENDING),
    "return_claim": (Status.RUNNING, Status.PENDING),
    "bury": (Status.RUNNING, Status.DEAD),
    "cancel": (Status.PENDING, Status.CANCELLED),
    "replay": (Status.DEAD, Status.PENDING),
}


class OnDependencyFailure(StrEnum):
    """The effect of a dead or cancelled dependency on a job."""

    WAIT = "wait"  # stays pending, visibly; a replay of the dependency may free it
    CANCEL = "cancel"  # is cancelled too, and so are its own dependents with the same wish


class Reason(StrEnum):
    """Why an attempt, or a job, failed."""

    ERROR = "error"  # the handler raised
    TIMEOUT = "timeout"  # the handler ran past its time
    RETRY = "retry"  # the handler asked for another attempt
    FAIL = "fail"  # the handler said that no attempt will help
    RESULT = "result"  # the handler's result cannot be stored
    INVALID_PAYLOAD = "invalid_payload"  # the payload does not fit what the handler's annotation says of it
    WORKER_LOST = "worker_lost"  # the worker's process ended before the job did
    UNKNOWN_TYPE = "unknown_type"  # no worker knew its type for the whole grace
    DEPENDENCY_FAILED = "dependency_failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Head:
    """A ready job at the head of a lane, with the fields that the comparator and the scheduler need."""

    id: UUID
    priority: int
    ready_at: datetime
    created_at: datetime


@dataclass(frozen=True, slots=True)
class UnreadPayload:
    """A payload that is still text, and is read when its job runs: one of many large ones, or one of a shape."""

    text: str


class Claim(NamedTuple):
    """A job that a worker has claimed. (id, attempt, token) is the fence of every later statement.

    A tuple, since workers make hundreds at a time: a frozen dataclass would set each field by a call.
    """

    id: UUID
    type: str
    priority: int
    attempt: int
    max_attempts: int
    ready_at: datetime
    started_at: datetime
    series_id: UUID | None
    unknown_since: datetime | None
    last_attempt: bool
    payload_version: int | None  # None is 1
    payload: Any
    payload_characters: int  # of its JSON
    token: UUID


@dataclass(frozen=True, slots=True)
class Held:
    """A running job for the rescue, which knows no handler: its fence, and the values that decide on another attempt.

    ``overdue``: its worker is known to have been lost, and the job has had its time.
    """

    id: UUID
    type: str
    attempt: int
    token: UUID
    series_id: UUID | None
    max_attempts: int
    timeout_seconds: float
    backoff_base_seconds: float
    backoff_cap_seconds: float
    overdue: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that has just ended, as its update returned it."""

    id: UUID
    type: str
    attempt: int
    scheduled_at: datetime
    series_id: UUID | None
    replayed: bool
