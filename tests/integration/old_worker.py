"""A worker that was started before an upgrade and works on while it happens: `test_upgrade` runs this file as a process.

Arguments: the database's URL as the worker's role. It runs until its standard input is closed.
"""

import select
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from types import SimpleNamespace
from typing import Any, cast

from dilamme.domain.errors import DatabaseUnavailable
from dilamme.settings import read
from dilamme.store.connection import connect
from dilamme.usecases import wake
from dilamme.usecases.migrate import check
from tests.integration.workshop import Workshop
from tests.support.entrance import Entrance
from tests.support.invocations import Invocations
from tests.support.jobs import ECHO


def work(url: str, stopped: Callable[[], bool]) -> None:
    """One invocation after the other, each of which looks at the schema, as one in a new process does."""
    vars(wake)["invoke"] = Invocations()  # takes the place of AWS
    workshop = Workshop(cast("Entrance", SimpleNamespace(url=lambda function: url)), read({}))
    workshop.adjust(ageing_seconds=0)  # so that the order of the jobs does not depend on how long this takes
    workshop.registry = type(workshop.registry)()
    workshop.registry.job(ECHO)(echo)
    stop = False
    while not stop:
        stop = stopped()  # and once more, so that it has seen whatever there was before
        with suppress(DatabaseUnavailable):  # its next invocation comes through
            with closing(connect(url)) as connection:
                check(connection)
            workshop.work()
        time.sleep(0.05)


def echo(payload: Any, context: Any) -> Any:
    """Says which job it ran, to whoever started this process."""
    sys.stdout.write(f"{context.job_id}\n")
    sys.stdout.flush()
    time.sleep(0.05)
    return payload


if __name__ == "__main__":
    work(sys.argv[1], lambda: bool(select.select([sys.stdin], [], [], 0)[0]))
