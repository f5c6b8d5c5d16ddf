"""`dilamme migrate`: the migrate function's work, from a shell."""

import sys
from contextlib import closing

from dilamme import settings
from dilamme.domain.errors import SchemaError
from dilamme.store.connection import connect
from dilamme.usecases import migrate as usecase


def migrate(url: str, *, check: bool) -> int:
    """Migrates the database at ``url``, or with ``check`` only says whether that is needed; the exit status.

    Raises:
        DilammeError: the database does not answer, or cannot be migrated.
    """
    with closing(connect(url)) as connection:
        if check:
            try:
                usecase.check(connection)
            except SchemaError as error:
                print(f"dilamme: {error}", file=sys.stderr)
                return 1
            print("up to date")
            return 0
        done = usecase.migrate(connection, settings.load())
    applied = f"applied {', '.join(map(str, done.applied))}" if done.applied else "nothing was to be done"
    roles = "" if done.roles else "; this login may not create roles, so the functions' roles were left as they are"
    print(f"{applied}: the schema is at version {done.version}{roles}")
    return 0
