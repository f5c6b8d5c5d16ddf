"""Run one handler and say how its attempt ended."""

import logging
import random
import time
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any
from uuid import UUID

from dilamme.domain.job import Claim, Reason
from dilamme.domain.outcome import Bury, Complete, HandBack, Outcome, after_failure, shorten
from dilamme.domain.retry import Backoff
from dilamme.handlers.registry import Fail, JobType, Retry, Snooze, Word
from dilamme.settings import Settings
from dilamme.wire.requests import json_text

RESULT_BYTES_MAX = 256 * 1024
SNOOZE_SECONDS_MAX = 365 * 86_400.0

logger = logging.getLogger("dilamme.job")


class _JobLogger(logging.LoggerAdapter[logging.Logger]):
    """Adds the job's id, type and attempt to each line, beside what the caller adds."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs


class JobContext:
    """What a handler gets beside its payload. Made for every job, so what few handlers ask for is made when asked for."""

    def __init__(self, claim: Claim, ends_by: float, ask: Callable[[UUID], dict[UUID, Any]]) -> None:
        self._claim = claim
        self._ends_by = ends_by  # monotonic seconds
        self._ask = ask

    @property
    def job_id(self) -> UUID:
        """The job's id: the same for each attempt, so a good key to make a handler's work idempotent by."""
        return self._claim.id

    @property
    def type(self) -> str:
        """The job's type."""
        return self._claim.type

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self._claim.attempt

    @property
    def max_attempts(self) -> int:
        """With how many failed attempts the job is dead."""
        return self._claim.max_attempts

    @cached_property
    def deadline(self) -> datetime:
        """When this attempt is out of time (UTC)."""
        return datetime.now(UTC) + timedelta(seconds=self.remaining_seconds())

    def remaining_seconds(self) -> float:
        """How much of this attempt's time is left."""
        return self._ends_by - time.monotonic()

    @cached_property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose lines carry the job's id."""
        return _JobLogger(logger, {"job_id": str(self.job_id), "job_type": self.type, "attempt": self.attempt})

    @cached_property
    def dependency_results(self) -> dict[UUID, Any]:
        """What the jobs that this one waited for returned, by their ids; fetched when first asked for."""
        return self._ask(self.job_id)


def timeout_seconds(job_type: JobType, settings: Settings) -> float:
    """The time that one attempt has."""
    return job_type.timeout_seconds or settings.job_timeout_seconds


def backoff(job_type: JobType, settings: Settings) -> Backoff:
    """The backoff of a type."""
    return Backoff(
        job_type.backoff_base_seconds or settings.backoff_base_seconds,
        job_type.backoff_cap_seconds or settings.backoff_cap_seconds,
    )


def execute(
    claim: Claim,
    job_type: JobType,
    job_context: JobContext,
    resolve: Callable[[Any], Any],
    settings: Settings,
    rand: Callable[[], float] = random.random,
) -> Outcome:
    """Runs the handler; ``resolve`` awaits what an async one returns."""
    try:
        return _complete(resolve(job_type.handler(claim.payload, job_context)))
    except BaseException as error:
        wait = backoff(job_type, settings)
        match _said(error):
            case Snooze(seconds=seconds):
                return HandBack(_held(seconds))
            case Fail() as fail:
                return Bury(Reason.FAIL, shorten(_text(fail)))
            case Retry(after_seconds=after) as retry:
                after = None if after is None else _held(after)
                return after_failure(claim, Reason.RETRY, _text(retry), wait, rand(), after)
            case _ResultRefused() as refused:
                return after_failure(claim, Reason.RESULT, str(refused), wait, rand())
            case said:
                job_context.logger.warning("attempt failed", exc_info=said)
                return after_failure(claim, Reason.ERROR, _message(said), wait, rand())


def failed(claim: Claim, error: BaseException, settings: Settings) -> Outcome:
    """How an attempt ends of which `execute` itself made an error, as of an exception that cannot be looked at."""
    with suppress(Exception):  # logging may be what failed
        logger.warning("attempt failed", exc_info=error, extra={"job_id": str(claim.id)})
    wait = Backoff(settings.backoff_base_seconds, settings.backoff_cap_seconds)
    return after_failure(claim, Reason.ERROR, _message(error), wait, random.random())


class _ResultRefused(Exception):
    pass


def _said(error: BaseException) -> BaseException:
    """What a handler raised; of a task group's exception the only one within, if that is a word of a handler's."""
    within = error
    while isinstance(within, BaseExceptionGroup) and len(within.exceptions) == 1:
        within = within.exceptions[0]
    return within if isinstance(within, Word) else error


def _held(seconds: float) -> float:
    return min(max(0.0, seconds), SNOOZE_SECONDS_MAX)


def _message(error: BaseException) -> str:
    if isinstance(error, Snooze):  # one that has them is no failure
        return f"{type(error).__name__}: it has no seconds; its __init__ must call super().__init__(seconds)"
    return f"{type(error).__name__}: {_text(error)}"


_NOTHING = Complete(None)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(its text could not be made)"


def _complete(result: Any) -> Complete:
    if result is None:
        return _NOTHING
    try:
        text = json_text(result)
    except ValueError as error:
        raise _ResultRefused(f"the handler's result {error}") from None
    size = len(text.encode())
    if size > RESULT_BYTES_MAX:
        raise _ResultRefused(
            f"the handler's result is {size} bytes of JSON; at most {RESULT_BYTES_MAX} are stored: return a reference instead"
        )
    return Complete(text)


def unknown_type(claim: Claim, settings: Settings, now: datetime) -> Bury | HandBack:
    """A job whose type this worker does not know: kept for a deployment that does, and dead after the grace."""
    if claim.unknown_since is not None and now - claim.unknown_since >= timedelta(
        seconds=settings.unknown_type_grace_seconds
    ):
        return Bury(
            Reason.UNKNOWN_TYPE, f"no worker has known the type '{claim.type}' since {claim.unknown_since.isoformat()}"
        )
    return HandBack(settings.unknown_type_delay_seconds, unknown=True)
