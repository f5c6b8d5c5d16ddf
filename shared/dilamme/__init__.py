"""Dilamme: background jobs on AWS Lambda and PostgreSQL.

In an application: `submit` and `submit_many` store jobs on a psycopg connection, in whatever transaction it is in, and
`wake` starts them after the commit. In a worker's module: `job` registers a handler, which gets its payload and a
`Context`, and may raise `Retry`, `Snooze` or `Fail`. Every error that these functions raise on purpose is a
`DilammeError`.
"""

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
from dilamme.handlers.registry import job
from dilamme.handlers.signals import Fail, Retry, Snooze
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
