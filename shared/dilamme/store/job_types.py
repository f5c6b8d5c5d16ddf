"""What workers know about the types they run (``sql/types.sql``)."""

from collections.abc import Sequence

from dilamme.handlers.registry import JobType
from dilamme.store.connection import Connection, run


def upsert_types(connection: Connection, types: Sequence[JobType]) -> None:
    """Publishes the registered types for those who know no handler."""
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
    """One handler says 30 and another 0.5, and psycopg writes no list that mixes the two."""
    return None if seconds is None else float(seconds)
