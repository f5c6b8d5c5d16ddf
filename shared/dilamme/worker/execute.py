"""Run one handler and say how its attempt ended."""

import logging
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from dilamme.domain.job import Claim, Reason
from dilamme.domain.outcome import Bury, Complete, Outcome, Return, after_failure, shorten
from dilamme.domain.policy import Policy
from dilamme.handlers.context import Context
from dilamme.handlers.registry import JobType
from dilamme.handlers.signals import Fail, Retry, Signal, Snooze
from dilamme.settings import Settings
from dilamme.wire.canonical_json import json_text

RESULT_BYTES_MAX = 256 * 1024
SNOOZE_SECONDS_MAX = 365 * 86_400.0

logger = logging.getLogger("dilamme.job")

_NOTHING = Complete(None)


def execute(
    claim: Claim,
    job_type: JobType,
    context: Context,
    resolve: Callable[[Any], Any],
    policy: Policy,
    rand: Callable[[], float] = random.random,
) -> Outcome:
    """Runs the handler; ``resolve`` awaits an async one's result."""
    try:
        result = resolve(job_type.handler(claim.payload, context))
        return _NOTHING if result is None else Complete(_result_text(result))
    except BaseException as error:
        backoff = policy.backoff(job_type)
        match _signal_in(error):
            case Snooze(seconds=seconds):
                return Return(_bounded(seconds))
            case Fail() as fail:
                return Bury(Reason.FAIL, shorten(_text(fail)))
            case Retry(after_seconds=after) as retry:
                after = None if after is None else _bounded(after)
                return after_failure(claim, Reason.RETRY, _text(retry), backoff, rand(), after)
            case _ResultRefused() as refused:
                return after_failure(claim, Reason.RESULT, str(refused), backoff, rand())
            case raised:
                context.logger.warning("attempt failed", exc_info=raised)
                return after_failure(claim, Reason.ERROR, _message(raised), backoff, rand())


def failed(claim: Claim, error: BaseException, policy: Policy) -> Outcome:
    """The end of an attempt in which `execute` itself failed, as by an exception whose attributes raise."""
    with suppress(Exception):  # logging may have failed before
        logger.warning("attempt failed", exc_info=error, extra={"job_id": str(claim.id)})
    return after_failure(claim, Reason.ERROR, _message(error), policy.backoff(), random.random())


class _ResultRefused(Exception):
    pass


def _signal_in(error: BaseException) -> BaseException:
    """The error; or the only one within a task group's exception, if that is a handler's signal."""
    within = error
    while isinstance(within, BaseExceptionGroup) and len(within.exceptions) == 1:
        within = within.exceptions[0]
    return within if isinstance(within, Signal) else error


def _bounded(seconds: float) -> float:
    return min(max(0.0, seconds), SNOOZE_SECONDS_MAX)


def _message(error: BaseException) -> str:
    if isinstance(error, Snooze):  # its seconds are missing, else it would be no failure
        return f"{type(error).__name__}: it has no seconds; its __init__ must call super().__init__(seconds)"
    return f"{type(error).__name__}: {_text(error)}"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(its text could not be made)"


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


def unknown_type(claim: Claim, settings: Settings, now: datetime) -> Bury | Return:
    """The end of a claim of an unknown type: it is kept for a deployment that knows the type, and dead after the grace."""
    grace = timedelta(seconds=settings.unknown_type_grace_seconds)
    if claim.unknown_since is not None and now - claim.unknown_since >= grace:
        return Bury(
            Reason.UNKNOWN_TYPE, f"no worker has known the type '{claim.type}' since {claim.unknown_since.isoformat()}"
        )
    return Return(settings.unknown_type_delay_seconds, unknown=True)
