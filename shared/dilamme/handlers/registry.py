"""The job types that a worker knows.

A handler is looked up here and nowhere else: a type in a request never names a module or a function, or a caller could run
any code.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any, TypeVar

from dilamme.domain.errors import ConfigurationError
from dilamme.domain.job import VERSION_MAX
from dilamme.domain.patterns import IN_WORDS, TYPE_PATTERN, follows
from dilamme.domain.retry import SECONDS_MAX
from dilamme.handlers.shape import Shape, Upcast

Handler = Callable[[Any, Any], Any]
H = TypeVar("H", bound=Handler)
U = TypeVar("U", bound=Upcast)


@dataclass(frozen=True, slots=True)
class JobType:
    """A registered handler and its type's own values; None leaves a value to the settings.

    ``version`` is that of its payloads; ``shape`` what the handler's annotations say of them, None if they say nothing.
    """

    type: str
    handler: Handler
    max_attempts: int | None = None
    timeout_seconds: float | None = None
    backoff_base_seconds: float | None = None
    backoff_cap_seconds: float | None = None
    version: int = 1
    shape: Shape | None = field(default=None, compare=False)

    @property
    def schema(self) -> str | None:
        """The JSON Schema of its payloads, as text; None if none is to be published."""
        return None if self.shape is None else self.shape.schema()


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
        version: int = 1,
    ) -> Callable[[H], H]:
        """Registers the decorated function, ``handler(payload, context) -> JSON or None``, sync or async.

        The annotations of its payload and its result, if they are types, are what a payload and a result must fit.

        Args:
            type_: as in ``POST /jobs``: ``[a-z][a-z0-9_.-]{0,99}``.
            max_attempts: 1 to 25. A job's own value goes before it; it goes before the setting.
            timeout_seconds: of one attempt. Past it the worker's process ends.
            backoff_base_seconds: of the first retry; it doubles.
            backoff_cap_seconds: of any retry.
            version: of its payloads, from 1. A job of a newer one waits for a worker that knows it; `upcast` brings those of
                an older one up.

        Raises:
            ConfigurationError: a value cannot work, or the type is registered already.
        """
        if not isinstance(type_, str):
            raise ConfigurationError('@job needs the job\'s type: @job("email.send")')

        def register(handler: H) -> H:
            policy = (max_attempts, timeout_seconds, backoff_base_seconds, backoff_cap_seconds)
            self.add(JobType(type_, handler, *policy, version))
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
        version = job_type.version
        if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version <= VERSION_MAX:
            raise ConfigurationError(
                f"job type '{job_type.type}': version must be a whole number from 1 to {VERSION_MAX:,}, not {version!r}"
            )
        shape = Shape(job_type.type, job_type.handler, _place(job_type.handler), version)
        self._types[job_type.type] = replace(
            job_type,
            max_attempts=attempts,
            timeout_seconds=_seconds(job_type, "timeout_seconds"),
            backoff_base_seconds=_seconds(job_type, "backoff_base_seconds"),
            backoff_cap_seconds=_seconds(job_type, "backoff_cap_seconds"),
            shape=None if shape.says_nothing else shape,
        )

    def upcast(self, type_: str, from_version: int) -> Callable[[U], U]:
        """Registers the decorated function, which makes of a payload of one version (as JSON) that of the next.

        Raises:
            ConfigurationError: the type has no such older version, or it is brought up twice.
        """
        job_type = self._types[type_]

        def register(upcast: U) -> U:
            if not isinstance(from_version, int) or not 1 <= from_version < job_type.version or job_type.shape is None:
                raise ConfigurationError(
                    f"job type '{type_}' is at version {job_type.version}: an upcast from version {from_version!r} leads"
                    " nowhere; give @job the version that the payloads have now"
                )
            if (rival := job_type.shape.upcasts.setdefault(from_version, upcast)) is not upcast:
                raise ConfigurationError(
                    f"job type '{type_}' has two upcasts from version {from_version}: {_place(rival)} and {_place(upcast)}"
                )
            return upcast

        return register

    def resolve_shapes(self) -> None:
        """Resolves the annotations that could not be before, now that all modules have been imported.

        Raises:
            ConfigurationError: one cannot be resolved, or there is no way up to a type's version.
        """
        for job_type in list(self._types.values()):
            if job_type.shape is not None:
                job_type.shape.resolve()
                if job_type.shape.says_nothing:
                    self._types[job_type.type] = replace(job_type, shape=None)

    @property
    def unread(self) -> frozenset[str]:
        """The types whose payloads stay text until their handlers' shapes read them."""
        return frozenset(
            name for name, one in self._types.items() if one.shape is not None and one.shape.reads_payloads
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
