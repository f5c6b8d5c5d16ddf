"""The job types that a worker knows.

A handler is looked up here and nowhere else: a type in a request never names a module or a function, or a caller could run
any code.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any, TypeVar

from dilamme.domain.errors import ConfigurationError
from dilamme.domain.patterns import IN_WORDS, TYPE_PATTERN, follows
from dilamme.domain.retry import SECONDS_MAX

Handler = Callable[[Any, Any], Any]
H = TypeVar("H", bound=Handler)


@dataclass(frozen=True, slots=True)
class JobType:
    """A registered handler and its type's own values; None leaves a value to the settings."""

    type: str
    handler: Handler
    max_attempts: int | None = None
    timeout_seconds: float | None = None
    backoff_base_seconds: float | None = None
    backoff_cap_seconds: float | None = None


class Registry(Mapping[str, JobType]):
    """Job types by name; a name is given once."""

    def __init__(self) -> None:
        self._types: dict[str, JobType] = {}

    def __getitem__(self, type_: str) -> JobType:
        return self._types[type_]

    def find(self, type_: str) -> JobType | None:
        """A type, or None if it is not registered. Called for every claim: `Mapping.get` would need two calls more."""
        return self._types.get(type_)

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)

    def job(
        self,
        type_: str,
        /,
        *,
        max_attempts: int | None = None,
        timeout_seconds: float | None = None,
        backoff_base_seconds: float | None = None,
        backoff_cap_seconds: float | None = None,
    ) -> Callable[[H], H]:
        """Registers the decorated function, ``handler(payload, context) -> JSON or None``, sync or async.

        Args:
            type_: as in ``POST /jobs``: ``[a-z][a-z0-9_.-]{0,99}``.
            max_attempts: 1 to 25. A job's own value goes before it; it goes before the setting.
            timeout_seconds: of one attempt. Past it the worker's process ends.
            backoff_base_seconds: of the first retry; it doubles.
            backoff_cap_seconds: of any retry.

        Raises:
            ConfigurationError: a value cannot work, or the type is registered already.
        """
        if not isinstance(type_, str):
            raise ConfigurationError('@job needs the job\'s type: @job("email.send")')

        def register(handler: H) -> H:
            self.add(JobType(type_, handler, max_attempts, timeout_seconds, backoff_base_seconds, backoff_cap_seconds))
            return handler

        return register

    def add(self, job_type: JobType) -> None:
        """Registers a type; see `job`."""
        if not follows(TYPE_PATTERN, job_type.type):
            raise ConfigurationError(f"job type {job_type.type!r} must be {IN_WORDS[TYPE_PATTERN]}")
        if (rival := self._types.get(job_type.type)) is not None:
            raise ConfigurationError(
                f"job type '{job_type.type}' is registered twice: by {_place(rival.handler)} and {_place(job_type.handler)}"
            )
        if wrong := _wrong_with(job_type.handler):
            raise ConfigurationError(f"job type '{job_type.type}': {_place(job_type.handler)} {wrong}")
        attempts = job_type.max_attempts
        if attempts is not None:
            if isinstance(attempts, bool) or not isinstance(attempts, int) or not 1 <= attempts <= 25:
                raise ConfigurationError(
                    f"job type '{job_type.type}': max_attempts must be a whole number from 1 to 25, not {attempts!r}"
                )
            attempts = int(attempts)
        self._types[job_type.type] = replace(
            job_type,
            max_attempts=attempts,
            timeout_seconds=_seconds(job_type, "timeout_seconds"),
            backoff_base_seconds=_seconds(job_type, "backoff_base_seconds"),
            backoff_cap_seconds=_seconds(job_type, "backoff_cap_seconds"),
        )

    def refuse_timeouts_over(self, limit_seconds: float) -> None:
        """Checks that every type's timeout fits into the worker's own time.

        Raises:
            ConfigurationError: a type's timeout does not fit.
        """
        for job_type in self._types.values():
            if job_type.timeout_seconds is not None and job_type.timeout_seconds > limit_seconds:
                raise ConfigurationError(
                    f"job type '{job_type.type}' asks for a timeout of {job_type.timeout_seconds:g} s, but the worker has"
                    f" {limit_seconds:g} s: lower it, or raise DILAMME_WORKER_TIMEOUT_SECONDS and the function's own timeout"
                )


def _seconds(job_type: JobType, name: str) -> float | None:
    value = getattr(job_type, name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= SECONDS_MAX:
        raise ConfigurationError(
            f"job type '{job_type.type}': {name} must be a number of seconds, greater than 0 and at most a century,"
            f" not {value!r}"
        )
    return float(value)


def _wrong_with(handler: Any) -> str | None:
    if not callable(handler):
        return "cannot be called; decorate handler(payload, context)"
    for function in (handler, type(handler).__call__):
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            return "is a generator, of which a call runs nothing: return its result instead"
    if hasattr(handler, "__signature__") or (hasattr(handler, "__wrapped__") and type(handler) is not FunctionType):
        return None  # a decorator may show the signature of the wrapped function, and add arguments itself
    try:
        signature = inspect.signature(handler, follow_wrapped=False)
    except Exception:
        return None  # built-in functions have none; from Python 3.14 on, an annotation that fails to evaluate hides it
    try:
        signature.bind(None, None)
    except TypeError as error:
        return f"cannot be called as handler(payload, context): {error}"
    return None


def _place(handler: Any) -> str:
    name = getattr(handler, "__qualname__", None) or repr(handler)
    return f"{module}.{name}" if (module := getattr(handler, "__module__", None)) else name


registry = Registry()
job = registry.job
