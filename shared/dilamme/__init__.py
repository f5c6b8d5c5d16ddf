"""Dilamme: background jobs on AWS Lambda and PostgreSQL.

In an application: `submit` and `submit_many` store jobs on a psycopg connection, in whatever transaction it is in, and
`wake` starts them after the commit. In a worker's module: `job` registers a handler, which may raise `Retry`, `Snooze`
or `Fail`.
"""

from dilamme.domain.errors import Conflict, InvalidInput
from dilamme.handlers.registry import Fail, Retry, Snooze, job
from dilamme.library import submit, submit_many, wake

__all__ = ["Conflict", "Fail", "InvalidInput", "Retry", "Snooze", "job", "submit", "submit_many", "wake"]
