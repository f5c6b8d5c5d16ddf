"""Dilamme: background jobs on AWS Lambda and PostgreSQL.

In an application: `submit` and `submit_many` store jobs on a psycopg connection, in whatever transaction it is in, and
`wake` starts them after the commit. In a worker's module: `job` registers a handler, which gets its payload and a
`Context`, and may raise `Retry`, `Snooze` or `Fail`. Every error that these functions raise on purpose is a
`DilammeError`.
"""

from typing import TYPE_CHECKING, Any

from dilamme.domain.errors import (
    ConfigurationError,
    Conflict,
    DilammeError,
    Fault,
    InvalidInput,
    SchemaError,
    TooLarge,
)
from dilamme.handlers.context import Context
from dilamme.handlers.signals import Fail, Retry, Snooze
from dilamme.typed import job

if TYPE_CHECKING:
    from dilamme.library import submit, submit_many, wake

__version__ = "0.1.0"

__all__ = [
    "ConfigurationError",
    "Conflict",
    "Context",
    "DilammeError",
    "Fail",
    "Fault",
    "InvalidInput",
    "Retry",
    "SchemaError",
    "Snooze",
    "TooLarge",
    "__version__",
    "job",
    "submit",
    "submit_many",
    "wake",
]

if not TYPE_CHECKING:  # a type checker that saw this would take every misspelt name for one of ours

    def __getattr__(name: str) -> Any:
        """Imports the library when it is first asked for: a client of the API, or a module of handlers, needs no psycopg."""
        if name in ("submit", "submit_many", "wake"):
            from dilamme import library  # noqa: PLC0415

            return getattr(library, name)
        raise AttributeError(f"module 'dilamme' has no attribute '{name}'")
