"""Run one handler and say how its attempt ended."""

import json
import logging
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from dilamme.domain.job import Claim, Reason, UnreadPayload
from dilamme.domain.outcome import Bury, Complete, Outcome, Return, after_failure, shorten
from dilamme.domain.policy import Policy
from dilamme.domain.retry import Backoff
from dilamme.handlers import fork
from dilamme.handlers.context import Context
from dilamme.handlers.misfit import Misfit
from dilamme.handlers.registry import JobType
from dilamme.handlers.shape import Shape
from dilamme.handlers.signals import Fail, Retry, Signal, Snooze, seconds_in
from dilamme.settings import Settings
from dilamme.wire.canonical_json import json_text
from dilamme.worker.resolver import NoEventLoop

RESULT_BYTES_MAX = 256 * 1024
SNOOZE_SECONDS_MIN = 1.0  # a snooze costs no attempt: with no wait a job would come back at once, for ever
SNOOZE_SECONDS_MAX = 365 * 86_400.0

CHANCE = random.SystemRandom().random  # not the module's own, which a handler may seed for every worker alike

logger = logging.getLogger("dilamme.job")

_NOTHING = Complete(None)


def execute(
    claim: Claim,
    job_type: JobType,
    context: Context,
    resolve: Callable[[Any], Any],
    policy: Policy,
    rand: Callable[[], float] = CHANCE,
) -> Outcome:
    """Runs the handler; ``resolve`` awaits an async one's result. A child process that it forks ends here.

    Raises:
        NoEventLoop: the handler is async, and this process cannot run it.
    """
    born = fork.generation
    try:
        payload, shape = claim.payload, job_type.shape
        if shape is not None and shape.reads_payloads:
            text = payload.text if payload.__class__ is UnreadPayload else json_text(payload)
            payload = shape.read(text, claim.payload_version)
        elif payload.__class__ is UnreadPayload:
            payload = json.loads(payload.text)
        result = resolve(job_type.handler(payload, context))
        if fork.generation != born:
            fork.end_child()
        if shape is not None:
            result = _fitted(shape, result)
        return _NOTHING if result is None else Complete(_result_text(result))
    except NoEventLoop:
        raise
    except BaseException as error:
        if fork.generation != born:
            fork.end_child(error)
        raised = _signal_in(error)
        outcome = _end_of(claim, raised, policy.backoff(job_type), rand)
        if not isinstance(raised, Signal | _ResultRefused | Misfit) or _cause_of(raised) is not None:
            level, words = (
                (logging.INFO, "snoozed") if isinstance(outcome, Return) else (logging.WARNING, "attempt failed")
            )
            with suppress(Exception):  # the handler may have broken the logging; its own error is what counts
                context.logger.log(level, words, exc_info=raised)
        return outcome


def _end_of(claim: Claim, raised: BaseException, backoff: Backoff, rand: Callable[[], float]) -> Outcome:
    """The end of an attempt whose handler raised."""
    match raised:
        case _ResultRefused():
            return after_failure(claim, Reason.RESULT, str(raised), backoff, rand())
        case Misfit():
            version = "" if (now := claim.payload_version or 1) == 1 else f" of version {now}"
            return Bury(
                Reason.INVALID_PAYLOAD, shorten(f"the payload{version} does not fit the type '{claim.type}': {raised}")
            )
        case Fail():
            return Bury(Reason.FAIL, shorten(_words(raised)))
        case Snooze() | Retry() if wrong := _wrong_time(raised):
            return after_failure(claim, Reason.ERROR, f"{type(raised).__name__}: {wrong}", backoff, rand())
        case Snooze(seconds=seconds):
            return Return(min(max(SNOOZE_SECONDS_MIN, float(seconds)), SNOOZE_SECONDS_MAX))
        case Retry(after_seconds=after):
            after = None if after is None else min(float(after), SNOOZE_SECONDS_MAX)
            return after_failure(claim, Reason.RETRY, _words(raised), backoff, rand(), after)
        case _:
            return after_failure(claim, Reason.ERROR, _message(raised), backoff, rand())


def failed(claim: Claim, error: BaseException, policy: Policy) -> Outcome:
    """The end of an attempt in which `execute` itself failed, as by an exception whose attributes raise."""
    with suppress(Exception):  # logging may have failed before
        logger.warning("attempt failed", exc_info=error, extra={"job_id": str(claim.id)})
    return after_failure(claim, Reason.ERROR, _message(error), policy.backoff(), CHANCE())


class _ResultRefused(Exception):
    pass


def _signal_in(error: BaseException) -> BaseException:
    """The error; or the only one within a task group's exception, if that is a handler's signal."""
    within = error
    while isinstance(within, BaseExceptionGroup) and len(within.exceptions) == 1:
        within = within.exceptions[0]
    return within if isinstance(within, Signal) else error


def _wrong_time(signal: Snooze | Retry) -> str | None:
    """The fault in a signal's time, if it has one: a subclass may set it past `__init__`, or not at all."""
    try:
        if isinstance(signal, Retry):
            if signal.after_seconds is not None:
                seconds_in("Retry", signal.after_seconds)
        elif not hasattr(signal, "seconds"):
            return "it has no seconds; its __init__ must call super().__init__(seconds)"
        else:
            seconds_in("Snooze", signal.seconds)
    except (TypeError, ValueError) as wrong:
        return str(wrong)
    return None


def _cause_of(error: BaseException) -> BaseException | None:
    return error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _words(signal: Signal) -> str:
    """A signal's text, and the error that led to it: without it nobody could tell why a job was retried."""
    cause = _cause_of(signal)
    return _text(signal) if cause is None else f"{_text(signal)} (caused by {_message(cause)})"


def _message(error: BaseException) -> str:
    return f"{type(error).__name__}: {_text(error)}"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # whatever its __str__ raises: the error itself is what counts
        return "(its text could not be made)"


def _fitted(shape: Shape, result: Any) -> Any:
    try:
        return shape.fit_result(result)
    except Misfit as misfit:
        raise _ResultRefused(f"the handler's result does not fit its annotation: {misfit}") from None


def _result_text(result: Any) -> str:
    try:
        text = json_text(result)
    except ValueError as error:
        raise _ResultRefused(f"the handler's result {error}") from None
    size = len(text.encode())
    if size > RESULT_BYTES_MAX:
        raise _ResultRefused(
            f"the handler's result is {size} bytes of JSON; at most {RESULT_BYTES_MAX} are stored: return a reference instead"
        )
    return text


def unknown_type(claim: Claim, settings: Settings, now: datetime, what: str = "") -> Bury | Return:
    """The end of a claim of an unknown type: it is kept for a deployment that knows the type, and dead after the grace.

    So is one whose payload is newer than the handler; ``what`` of the type is unknown then.
    """
    grace = timedelta(seconds=settings.unknown_type_grace_seconds)
    if claim.unknown_since is not None and now - claim.unknown_since >= grace:
        return Bury(
            Reason.UNKNOWN_TYPE,
            f"no worker has known {what}the type '{claim.type}' since {claim.unknown_since.isoformat()}",
        )
    return Return(settings.unknown_type_delay_seconds, unknown=True)
