"""Dilamme: background jobs on AWS Lambda and PostgreSQL.

In an application: `submit` and `submit_many` store jobs on a psycopg connection, in whatever transaction it is in, and
`wake` starts them after the commit. In a worker's module: `job` registers a handler, which may raise `Retry`, `Snooze`
or `Fail`.
"""

from dilamme.client import submit, submit_many, wake
from dilamme.domain.errors import Conflict, InvalidInput
from dilamme.handlers.context import Context
from dilamme.handlers.registry import job
from dilamme.handlers.signals import Fail, Retry, Snooze

__all__ = ["Conflict", "Context", "Fail", "InvalidInput", "Retry", "Snooze", "job", "submit", "submit_many", "wake"]
