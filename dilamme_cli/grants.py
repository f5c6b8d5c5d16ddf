"""The rights that an application's own role needs; a test holds docs/aws.md and these equal, and another one tries them."""

from psycopg.sql import SQL, Composable, Identifier

_SCHEMA = "GRANT USAGE ON SCHEMA dilamme TO {role};\n"
_SQL = "GRANT EXECUTE ON FUNCTION dilamme.submit TO {role};  -- dilamme.submit in SQL, dilamme.submit_async\n"
_LIBRARY = """\
GRANT SELECT, INSERT, UPDATE ON dilamme.jobs TO {role};  -- UPDATE, to hold still what a new job waits for
GRANT INSERT ON dilamme.job_dependencies, dilamme.series TO {role};
GRANT SELECT, INSERT ON dilamme.idempotency_keys TO {role};
GRANT SELECT ON dilamme.job_types TO {role};  -- without it, payloads are stored unchecked
"""
_WAKE = """\
GRANT SELECT, UPDATE ON dilamme.worker_slots, dilamme.scheduler_lease TO {role};  -- dilamme.wake
GRANT SELECT ON dilamme.outbox, dilamme.cascades TO {role};
"""


def grants_for(role: str, *, only_sql: bool, wake: bool) -> str:
    """The statements for a role, whatever its name is."""
    text = _SCHEMA + _SQL + ("" if only_sql else _LIBRARY) + (_WAKE if wake else "")
    statements: Composable = SQL(text).format(role=Identifier(role))
    return statements.as_string(None).rstrip()
