"""Job types as workers publish them (``sql/job_types.sql``)."""

from collections.abc import Sequence
from typing import Protocol

from dilamme.domain.policy import Declared
from dilamme.store.arrays import sparse_array
from dilamme.store.connection import Connection, run


class DeclaredType(Declared, Protocol):
    """A registered type."""

    @property
    def type(self) -> str: ...
    @property
    def max_attempts(self) -> int | None: ...


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
        },
    )
