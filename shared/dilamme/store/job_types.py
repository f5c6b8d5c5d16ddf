"""Job types as workers publish them (``sql/job_types.sql``)."""

from collections.abc import Sequence
from typing import Protocol

from dilamme.domain.policy import Declared
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
            "max_attempts": [job_type.max_attempts for job_type in types],
            "timeouts": [_float(job_type.timeout_seconds) for job_type in types],
            "backoff_bases": [_float(job_type.backoff_base_seconds) for job_type in types],
            "backoff_caps": [_float(job_type.backoff_cap_seconds) for job_type in types],
        },
    )


def _float(seconds: float | None) -> float | None:
    """A float: one type may have 30 and another 0.5, and psycopg refuses a list that mixes int and float."""
    return None if seconds is None else float(seconds)
