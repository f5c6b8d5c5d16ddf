"""Bring the schema up to date, and refuse a schema that the functions do not know."""

import logging
from dataclasses import dataclass

import psycopg

from dilamme.domain.errors import DatabaseReadOnly, SchemaError
from dilamme.settings import Settings
from dilamme.store import schema, slots
from dilamme.store.connection import Connection

logger = logging.getLogger("dilamme.migrate")


@dataclass(frozen=True, slots=True)
class Migrated:
    """A run's result: the versions it applied, and whether the functions have roles of their own."""

    applied: list[int]
    version: int
    roles: bool


def migrate(connection: Connection, settings: Settings) -> Migrated:
    """Applies the missing migrations in one transaction: all or none. A second run changes nothing.

    Raises:
        SchemaError: an applied migration has been changed since, the schema is newer than this code, or the database
            cannot hold every text.
    """
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise SchemaError(
            f"the database's encoding is {encoding}, which cannot hold every payload: give one made with ENCODING 'UTF8'"
        )
    with connection.transaction():
        schema.fix_settings(connection)
        schema.lock_migrations(connection)
        schema.prepare(connection)
        done = {step.version: step for step in schema.applied(connection)}
        _refuse_foreign(done)
        missing = [(step, text) for step, text in schema.steps() if step.version not in done]
        for step, text in missing:
            schema.apply(connection, step, text)
        roles = schema.may_create_roles(connection)
        if roles:
            schema.create_roles(connection)
            _alter_roles(connection)
            schema.grant(connection)
        slots.provide_slots(connection, settings.worker_slots)
    return Migrated([step.version for step, _ in missing], schema.known_version(), roles)


def _alter_roles(connection: Connection) -> None:
    """A server has one set of roles for all its databases: another installation's owner may have made them."""
    kept = []
    for role in schema.ROLES:
        try:
            with connection.transaction():
                schema.alter_role(connection, role)
        except psycopg.errors.InsufficientPrivilege:
            kept.append(role)
    if kept:
        logger.warning("another has made these roles, whose settings are left as they are: %s", ", ".join(kept))


def _refuse_foreign(done: dict[int, schema.Step]) -> None:
    known = {step.version: step for step, _ in schema.steps()}
    for version, step in done.items():
        if version not in known:
            raise SchemaError(
                f"the database has migration {version} ({step.name}), which this version of Dilamme does not know: "
                "deploy a newer version; migrations only go forward"
            )
        if known[version].checksum != step.checksum:
            raise SchemaError(
                f"migration {version} ({step.name}) was changed after it had been applied: add a new one instead"
            )


def check(connection: Connection) -> None:
    """Refuses a schema that this code does not know.

    Raises:
        SchemaError: it is not migrated, too old, or newer and not compatible. The message names the remedy.
    """
    applied = schema.recorded(connection)
    known = schema.known_version()
    if not applied or applied[-1].version < known:
        have = applied[-1].version if applied else 0
        raise SchemaError(
            f"the database is at schema version {have} and this code needs {known}: run the migrate function"
        )
    if applied[-1].compatible_from > known:
        raise SchemaError(
            f"the database is at schema version {applied[-1].version}, which serves code from version "
            f"{applied[-1].compatible_from} on, and this code knows {known}: deploy a newer version of the functions"
        )


def check_health(connection: Connection) -> None:
    """`check`, and that jobs can be stored.

    Raises:
        SchemaError: as `check`.
        DatabaseReadOnly: the database takes no writes.
    """
    check(connection)
    if not schema.takes_writes(connection):
        raise DatabaseReadOnly("the database takes no writes")
