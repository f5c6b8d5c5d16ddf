"""What is wrong with a connection string, in words that quote none of it: libpq's own may quote the password.

An ``@``, ``/`` or ``?`` in a password that is not percent-encoded ends it: what follows is then part of the host, the port or
the database's name, and PostgreSQL's errors name these.
"""

from psycopg.conninfo import conninfo_to_dict

NOT_POSTGRESQLS = (
    "DATABASE_URL is not PostgreSQL's: give postgresql://user:password@host:5432/database, with no driver in it, and special "
    "characters of the password percent-encoded"
)


def misspelling(conninfo: str) -> str | None:
    """A sentence for a string that libpq could read, but not as it was meant; None if nothing is strange about it."""
    parts = {name: str(value or "") for name, value in conninfo_to_dict(conninfo).items()}
    if any("@" in parts.get(name, "") for name in ("host", "hostaddr", "port", "dbname")):
        return "DATABASE_URL has an @ too many: the special characters of a password must be percent-encoded (@ is %40, / is %2F)"
    ports = parts.get("port", "").split(",")
    if not all(port.isdigit() or not port for port in ports):
        return "DATABASE_URL's port is no number"
    return None
