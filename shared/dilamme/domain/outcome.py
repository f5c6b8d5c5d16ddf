"""The ways in which a claim ends, and the one to which a failure leads."""

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

    Without a delay the job keeps its ready time, and so its position in line.
    """

    delay_seconds: float | None = None
    unknown: bool = False


Outcome = Complete | RetryLater | Bury | Return


class Attempted(Protocol):
    """The fields that the decision needs."""

    @property
    def attempt(self) -> int: ...
    @property
    def max_attempts(self) -> int: ...


def after_failure(
    job: Attempted, reason: Reason, message: str, backoff: Backoff, rand: float, after_seconds: float | None = None
) -> RetryLater | Bury:
    """Another attempt, after ``after_seconds`` or else the backoff; or the dead letters, after the last attempt."""
    message = shorten(message)
    if job.attempt >= job.max_attempts:
        return Bury(reason, message)
    delay = backoff.delay_seconds(job.attempt, rand) if after_seconds is None else after_seconds
    return RetryLater(reason, message, delay)


class Lost(Attempted, Protocol):
    """The fields that the decision on a lost job needs."""

    @property
    def timeout_seconds(self) -> float: ...
    @property
    def overdue(self) -> bool: ...


def after_loss(job: Lost, backoff: Backoff, rand: float) -> RetryLater | Bury:
    """The end of a job whose worker's process ended.

    The first time it runs again at once: most likely it is not at fault. One whose time was over may be: a handler that holds
    the interpreter past its timeout ends its process.
    """
    if job.overdue:
        message = f"its worker's process ended, and its {job.timeout_seconds:g} s were over"
        return after_failure(job, Reason.TIMEOUT, message, backoff, rand)
    after_seconds = 0.0 if job.attempt == 1 else None
    return after_failure(
        job, Reason.WORKER_LOST, "the worker's process ended before the job did", backoff, rand, after_seconds
    )


def shorten(message: str) -> str:
    """``message`` in a form that PostgreSQL can hold: no NUL, no half surrogate pair, `MESSAGE_CHARACTERS_MAX` at most."""
    # Cut first: a text may have fifty million characters, and each step copies it.
    cut = message if len(message) <= MESSAGE_CHARACTERS_MAX else message[:MESSAGE_CHARACTERS_MAX]
    clean = cut.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()
    if cut is message:
        return clean
    end = f" … ({len(message)} characters)"
    return clean[: MESSAGE_CHARACTERS_MAX - len(end)] + end
