"""For an application's tests: handlers as plain functions, through the real engine, and through the whole stack.

`context` makes what a handler gets beside its payload. The pytest plugin (`dilamme.testing.plugin`, which pytest finds by
itself) gives the fixtures ``dilamme_db``, ``dilamme_worker`` and ``dilamme_stack``, of the types `Database`, `Worker` and
`Stack`. The PostgreSQL is embedded and real: nothing of the engine is imitated.
"""

from dilamme.testing.contexts import context
from dilamme.testing.database import Database
from dilamme.testing.stack import Stack
from dilamme.testing.worker import Worker

__all__ = ["Database", "Stack", "Worker", "context"]
