"""How a claim may end, and which end a failure leads to."""

from dataclasses import dataclass
from typing import Protocol

from dilamme.domain.job import Reason
from dilamme.domain.retry import Backoff

MESSAGE_CHARACTERS_MAX = 4_000


@dataclass(frozen=True, slots=True)
class Complete:
    """The handler returned; ``result`` is its JSON, or None for nothing."""

    result: str | None


@dataclass(frozen=True, slots=True)
class RetryLater:
    """The attempt failed and there is another."""

    reason: Reason
    message: str
    delay_seconds: float


@dataclass(frozen=True, slots=True)
class Bury:
    """The attempt failed and there is none left, or none would help."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Return:
    """The claim costs no attempt: never started, snoozed, or of an unknown type.

    Without a delay the job keeps its ready time, and so its place in line.
    """

    delay_seconds: float | None = None
    unknown: bool = False


Outcome = Complete | RetryLater | Bury | Return


class Attempted(Protocol):
    """What the decision looks at."""

    @property
    def attempt(self) -> int: ...
    @property
    def max_attempts(self) -> int: ...


def after_failure(
    job: Attempted, reason: Reason, message: str, backoff: Backoff, rand: float, after_seconds: float | None = None
) -> RetryLater | Bury:
    """Another attempt, after its backoff or ``after_seconds`` if the handler named a time; or the dead letters."""
    message = shorten(message)
    if job.attempt >= job.max_attempts:
        return Bury(reason, message)
    delay = backoff.delay_seconds(job.attempt, rand) if after_seconds is None else after_seconds
    return RetryLater(reason, message, delay)


def after_loss(job: Attempted, backoff: Backoff, rand: float) -> RetryLater | Bury:
    """The worker's process ended under the job. The first time it runs again at once: most likely it was not its fault."""
    after_seconds = 0.0 if job.attempt == 1 else None
    return after_failure(
        job, Reason.WORKER_LOST, "the worker's process ended before the job did", backoff, rand, after_seconds
    )


def shorten(message: str) -> str:
    """``message`` as PostgreSQL can hold it: no NUL, no half surrogate pair, at most `MESSAGE_CHARACTERS_MAX`."""
    clean = message.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()
    if len(clean) <= MESSAGE_CHARACTERS_MAX:
        return clean
    cut = f" … ({len(clean)} characters)"
    return clean[: MESSAGE_CHARACTERS_MAX - len(cut)] + cut
