"""`dilamme.job`: the decorator of handlers, which stay the functions that they are, and can be submitted.

A handler says once what its payload is. So a type checker sees a wrong one wherever the job is stored; and at run time a wrong
one is refused where it is submitted, not where it fails to run.
"""

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, cast
from uuid import UUID

from dilamme.domain.errors import ConfigurationError, Fault, InvalidInput
from dilamme.domain.job_options import JobOptions
from dilamme.handlers.context import Context
from dilamme.handlers.misfit import Misfit
from dilamme.handlers.registry import JobType, Registry
from dilamme.handlers.registry import registry as of_this_process
from dilamme.handlers.shape import Upcast

if TYPE_CHECKING:
    import psycopg

P = TypeVar("P", contravariant=True)  # noqa: PLC0105
R = TypeVar("R", covariant=True)  # noqa: PLC0105
U = TypeVar("U", bound=Upcast)


class InBatch(JobOptions, total=False):
    """The fields of a job in a batch, beside type and payload, as `dilamme.submit_many` takes them."""

    ref: str | None
    dependency_refs: Sequence[str]


class Alone(JobOptions, total=False):
    """The arguments of `dilamme.submit`, beside connection, type and payload."""

    idempotency_key: str | None


class Submitting(Generic[P]):
    """Stores jobs for one handler. Its methods are the attributes that `job` gives to the handler's function."""

    def __init__(self, registry: Registry, handler: Any, type_: str) -> None:
        self.handler = handler
        self.types = [type_]
        self._registry = registry

    def submit(self, connection: "psycopg.Connection[Any]", payload: P, **options: Unpack[Alone]) -> UUID:
        """`dilamme.submit` for this handler's type: its id. The payload is checked here.

        Raises:
            dilamme.InvalidInput: the payload does not fit the handler's annotation, or a value is wrong.
            dilamme.DilammeError, TypeError, psycopg.Error: as `dilamme.submit`.
        """
        from dilamme import library  # noqa: PLC0415  a module of handlers needs no psycopg

        key = options.pop("idempotency_key", None)
        return library.submit_one(connection, self.job(payload, **cast(InBatch, options)), key)

    async def submit_async(
        self, connection: "psycopg.AsyncConnection[Any]", payload: P, **options: Unpack[Alone]
    ) -> UUID:
        """`submit` on an async connection, by `dilamme.submit_async`."""
        from dilamme import library  # noqa: PLC0415

        job_type = self._job_type()
        value = _written(job_type, payload)
        return await library.submit_async(connection, job_type.type, value, payload_version=job_type.version, **options)

    def job(self, payload: P, **options: Unpack[InBatch]) -> dict[str, Any]:
        """The arguments of a job for `dilamme.submit_many`: a mapping with ``type``, ``payload`` (as JSON) and the options.

        Raises:
            dilamme.InvalidInput: the payload does not fit the handler's annotation.
        """
        from dilamme import library  # noqa: PLC0415

        job_type = self._job_type()
        kind = dict if job_type.shape is None else library.Vouched
        value = _written(job_type, payload)
        return kind(type=job_type.type, payload=value, payload_version=job_type.version, **options)

    def upcast(self, *, from_version: int) -> Callable[[U], U]:
        """Registers the decorated function, which makes of a payload (as JSON) of one version that of the next.

        Raises:
            ConfigurationError: the type has no such older version, or it is brought up twice.
        """
        return self._registry.upcast(self._job_type().type, from_version)

    def _job_type(self) -> JobType:
        if len(self.types) > 1:
            raise ConfigurationError(
                f"{self.handler.__qualname__} runs jobs of the types {' and '.join(map(repr, self.types))}: say which, with"
                " dilamme.submit(connection, type, payload)"
            )
        return self._registry[self.types[0]]


class Job(Submitting[P], Generic[P, R]):
    """A decorated handler, to a type checker. At run time it is the function itself."""

    __name__: str
    __qualname__: str

    def __call__(self, payload: P, context: Context) -> R:
        """Calls the function as it stands, as a test does."""
        raise NotImplementedError


def job(
    type_: str,
    /,
    *,
    max_attempts: int | None = None,
    timeout_seconds: float | None = None,
    backoff_base_seconds: float | None = None,
    backoff_cap_seconds: float | None = None,
    version: int = 1,
    registry: Registry = of_this_process,
) -> Callable[[Callable[[P, Context], R]], Job[P, R]]:
    """Registers the decorated function, ``handler(payload, context) -> JSON or None``, sync or async.

    It stays a plain function, and gets the attributes ``submit``, ``submit_async``, ``job`` and ``upcast`` (`Submitting`).
    Arguments and errors are those of `dilamme.handlers.registry.Registry.job`; ``registry`` is for tests.
    """
    register = registry.job(
        type_,
        max_attempts=max_attempts,
        timeout_seconds=timeout_seconds,
        backoff_base_seconds=backoff_base_seconds,
        backoff_cap_seconds=backoff_cap_seconds,
        version=version,
    )

    def decorate(handler: Callable[[P, Context], R]) -> Job[P, R]:
        register(handler)
        if isinstance(handler, FunctionType):  # whatever else can be called may have attributes of these names
            of_before = getattr(getattr(handler, "submit", None), "__self__", None)
            if isinstance(of_before, Submitting) and of_before.handler is handler:
                of_before.types.append(type_)
            else:
                given: Submitting[P] = Submitting(registry, handler, type_)
                for name in ("submit", "submit_async", "job", "upcast"):
                    setattr(handler, name, getattr(given, name))
        return cast("Job[P, R]", handler)

    return decorate


def _written(job_type: JobType, payload: Any) -> Any:
    if job_type.shape is None:
        return payload
    try:
        return job_type.shape.write(payload)
    except Misfit as misfit:
        faults = [Fault(f"/payload{fault.pointer}", fault.detail) for fault in misfit.faults]
        raise InvalidInput(*faults) from None
