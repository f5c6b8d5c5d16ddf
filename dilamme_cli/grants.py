"""The rights that an application's own role needs; docs/library.md has the same lines, and a test holds them together."""

from psycopg.sql import SQL, Composable, Identifier

_SUBMIT = """\
GRANT USAGE ON SCHEMA dilamme TO {role};
-- dilamme.submit, dilamme.submit_many. UPDATE, to hold still what a new job waits for.
GRANT SELECT, INSERT, UPDATE ON dilamme.jobs TO {role};
GRANT SELECT ON dilamme.job_types TO {role};
GRANT INSERT ON dilamme.job_dependencies, dilamme.series TO {role};
GRANT SELECT, INSERT ON dilamme.idempotency_keys TO {role};"""
_WAKE = """
-- dilamme.wake
GRANT SELECT, UPDATE ON dilamme.worker_slots, dilamme.scheduler_lease TO {role};
GRANT SELECT ON dilamme.outbox, dilamme.cascades TO {role};"""


def grants_for(role: str, *, wake: bool) -> str:
    """The statements for a role, whatever its name is."""
    statements: Composable = SQL(_SUBMIT + (_WAKE if wake else "")).format(role=Identifier(role))
    return statements.as_string(None)
