"""Dilamme: background jobs on AWS Lambda and PostgreSQL.

In an application: `submit`, `submit_many` and `submit_async` store jobs on a psycopg connection, in whatever transaction it is
in, and `wake` starts them after the commit; `connect` opens a connection; `Client` and `AsyncClient` call the HTTP API. In a
worker's module: `job` registers a handler, which gets its payload and a
`Context`, and may raise `Retry`, `Snooze` or `Fail`. Every error that these functions raise on purpose is a
`DilammeError`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dilamme.domain.errors import (
    ConfigurationError,
    Conflict,
    DatabaseUnavailable,
    DilammeError,
    Fault,
    InvalidInput,
    NotFound,
    SchemaError,
    TooLarge,
)
from dilamme.handlers.context import Context
from dilamme.handlers.signals import Fail, Retry, Snooze
from dilamme.typed import job

if TYPE_CHECKING:
    from dilamme.client import AsyncClient, Client
    from dilamme.library import connect, submit, submit_async, submit_many, wake

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "Client",
    "ConfigurationError",
    "Conflict",
    "Context",
    "DatabaseUnavailable",
    "DilammeError",
    "Fail",
    "Fault",
    "InvalidInput",
    "NotFound",
    "Retry",
    "SchemaError",
    "Snooze",
    "TooLarge",
    "__version__",
    "connect",
    "job",
    "submit",
    "submit_async",
    "submit_many",
    "wake",
]

_LATE = {
    **dict.fromkeys(("connect", "submit", "submit_async", "submit_many", "wake"), "dilamme.library"),  # needs psycopg
    **dict.fromkeys(("AsyncClient", "Client"), "dilamme.client"),  # needs httpx
}

if not TYPE_CHECKING:  # a type checker that saw this would take every misspelt name for one of ours

    def __getattr__(name: str) -> Any:
        """Imports a part when it is first asked for: a client of the API needs no psycopg, and a handler no HTTP."""
        if name not in _LATE:
            raise AttributeError(f"module 'dilamme' has no attribute '{name}'")
        try:
            return getattr(import_module(_LATE[name]), name)
        except ModuleNotFoundError as error:
            if error.name != "httpx":
                raise
            raise ConfigurationError(f"dilamme.{name} needs httpx: pip install 'dilamme[client]'") from error
