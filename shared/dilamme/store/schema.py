"""Forward-only migrations: ``migrations/NNNN_name.sql``, each recorded with its checksum (``sql/schema.sql``).

A migration's first line is ``-- compatible-from: N``: functions that know version N or later may keep running on it. During
a deployment the schema is newer than the code for a while.
"""

import hashlib
import re
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files

import psycopg

from dilamme.store.connection import Connection, fetch, run
from dilamme.store.session_settings import IN_A_MIGRATION, ON_ROLES, ROLE_PREFIX
from dilamme.store.sql_blocks import expand

ROLES = {ROLE_PREFIX + function: settings for function, settings in ON_ROLES.items()}

_NAME = re.compile(r"(\d{4})_(\w+)\.sql")
_COMPATIBLE = re.compile(r"-- compatible-from: (\d+)\n")


@dataclass(frozen=True, slots=True)
class Step:
    """One applied or applicable migration."""

    version: int
    name: str
    checksum: str
    compatible_from: int


@cache
def steps() -> tuple[tuple[Step, str], ...]:
    """All migrations with their text, in order."""
    found = []
    for file in (files("dilamme.store") / "migrations").iterdir():
        if match := _NAME.fullmatch(file.name):
            text = file.read_text(encoding="utf-8")
            compatible = _COMPATIBLE.match(text)
            if compatible is None:
                raise ValueError(f"{file.name} does not begin with '-- compatible-from: N'")
            checksum = hashlib.sha256(text.encode()).hexdigest()
            found.append((Step(int(match[1]), match[2], checksum, int(compatible[1])), text))
    return tuple(sorted(found, key=lambda pair: pair[0].version))


def known_version() -> int:
    """The version of the schema that this code was written for."""
    return steps()[-1][0].version


def lock_migrations(connection: Connection) -> None:
    """Waits until a rival migrator's transaction ends."""
    run(connection, "lock_migrations")


def fix_settings(connection: Connection) -> None:
    """Sets what a migration rests on, for this transaction; a setting that this PostgreSQL does not know is left out."""
    names = list(IN_A_MIGRATION)
    fetch(connection, "fix_settings", {"names": names, "values": [IN_A_MIGRATION[name] for name in names]})


def prepare(connection: Connection) -> None:
    """Creates the schema and the record of applied migrations."""
    run(connection, "create_schema")
    run(connection, "create_record")


def applied(connection: Connection) -> list[Step]:
    """The applied migrations, in order; none if the schema does not exist yet."""
    prepared = fetch(connection, "is_prepared")[0]["prepared"]
    return recorded(connection) if prepared else []


def recorded(connection: Connection) -> list[Step]:
    """`applied` in one statement, outside a transaction, which its failure would end."""
    try:
        return [Step(**row) for row in fetch(connection, "applied")]
    except psycopg.errors.UndefinedTable:
        return []


def apply(connection: Connection, step: Step, text: str) -> None:
    """Runs one migration and records it."""
    connection.execute(text)
    run(connection, "record", asdict(step))


def takes_writes(connection: Connection) -> bool:
    """Can this session write? A standby's cannot, nor one that its owner has made read-only."""
    return bool(fetch(connection, "takes_writes")[0]["writable"])


def may_create_roles(connection: Connection) -> bool:
    """May the migrator's database user create roles?"""
    return bool(fetch(connection, "may_create_roles")[0]["allowed"])


def create_roles(connection: Connection) -> None:
    """Creates the functions' roles that are missing."""
    existing = {row["name"] for row in fetch(connection, "existing_roles", {"names": list(ROLES)})}
    for role in ROLES:
        if role not in existing:
            connection.execute(f"CREATE ROLE {role} LOGIN")


def alter_role(connection: Connection, role: str) -> None:
    """Sets a role's settings anew.

    Raises:
        psycopg.errors.InsufficientPrivilege: another user has made it; only who made a role may alter it, since PostgreSQL 16.
    """
    for name, value in ROLES[role].items():
        connection.execute(f"ALTER ROLE {role} SET {name} = '{value}'")


def grant(connection: Connection) -> None:
    """Sets the roles' privileges anew."""
    connection.execute(expand((files("dilamme.store") / "roles.sql").read_text(encoding="utf-8")))
