"""Job types as workers publish them (``sql/job_types.sql``)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Protocol

from dilamme.domain.policy import Declared, Policy
from dilamme.store.arrays import sparse_array
from dilamme.store.connection import Connection, Row, fetch, fetch_as, run


class DeclaredType(Declared, Protocol):
    """A registered type."""

    @property
    def type(self) -> str: ...
    @property
    def max_attempts(self) -> int | None: ...
    @property
    def version(self) -> int: ...
    @property
    def schema(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Published:
    """What a caller must know of a type whose payloads have a schema, or versions. ``updated_at`` changes with either."""

    type: str
    version: int
    updated_at: datetime
    has_schema: bool


def upsert_types(connection: Connection, types: Sequence[DeclaredType]) -> None:
    """Publishes the registered types for the functions that know no handler."""
    run(
        connection,
        "upsert_types",
        {
            "types": [job_type.type for job_type in types],
            "max_attempts": sparse_array([job_type.max_attempts for job_type in types]),
            "timeouts": sparse_array([job_type.timeout_seconds for job_type in types]),
            "backoff_bases": sparse_array([job_type.backoff_base_seconds for job_type in types]),
            "backoff_caps": sparse_array([job_type.backoff_cap_seconds for job_type in types]),
            "versions": sparse_array([None if job_type.version == 1 else job_type.version for job_type in types]),
            "schemas": sparse_array([job_type.schema for job_type in types]),
        },
    )


def published_types(connection: Connection) -> list[Published]:
    """The types that have published a schema or a version."""
    return fetch_as(connection, Published, "published_types")


def published_schema(connection: Connection, type_: str) -> str | None:
    """A type's schema, as JSON text."""
    rows = fetch(connection, "published_schema", {"type": type_})
    return rows[0]["schema"] if rows else None


def list_types(connection: Connection, policy: Policy, after: str, limit: int) -> list[Row]:
    """The types after a name, in order, each with its own values or else the settings'."""
    return fetch(connection, "list_types", {**asdict(policy), "after": after, "limit": limit})
