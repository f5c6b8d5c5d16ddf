"""The SQL function `dilamme.submit`, called as an application does: by names, on whatever is connected."""

import json
from typing import Any
from uuid import UUID

from dilamme.store.connection import Connection

CASTS = {"payload": "jsonb", "dependency_ids": "uuid[]", "scheduled_at": "timestamptz"}


def call(*names: str) -> str:
    """The statement, with psycopg's placeholders."""
    arguments = ", ".join(f"{name} => %({name})s" + (f"::{CASTS[name]}" if name in CASTS else "") for name in names)
    return f"SELECT dilamme.submit({arguments})"


def sql_submit(connection: Connection, *, is_text: bool = False, **arguments: Any) -> UUID:
    """Calls it; a payload is given as a value, or as JSON text if ``is_text``."""
    if not is_text and "payload" in arguments:
        arguments["payload"] = json.dumps(arguments["payload"])
    found = connection.execute(call(*arguments), arguments).fetchone()
    assert found is not None
    job_id: UUID = found[0]
    return job_id
