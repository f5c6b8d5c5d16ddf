"""A context for a handler that a test calls as a plain function."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from dilamme.domain.job import Claim
from dilamme.handlers.context import Context
from dilamme.session import open_connection


def context(
    *,
    type: str = "test.job",  # noqa: A002  the field's name everywhere else
    job_id: UUID | None = None,
    attempt: int = 1,
    max_attempts: int = 3,
    timeout_seconds: float = 60,
    dependency_results: Mapping[UUID, Any] | None = None,
) -> Context:
    """The context of a job that does not exist: `dilamme.Context` itself, with these values.

    Args:
        type: the job's type.
        job_id: its id; a random one when left out.
        attempt: which attempt it is, from 1.
        max_attempts: how many there are.
        timeout_seconds: the time that is left to it.
        dependency_results: the results of the jobs that it waited for.
    """
    Context.opener = staticmethod(open_connection)
    now = datetime.now(UTC)
    claim = Claim(
        id=job_id or uuid4(),
        type=type,
        priority=2,
        attempt=attempt,
        max_attempts=max_attempts,
        ready_at=now,
        started_at=now,
        series_id=None,
        unknown_since=None,
        last_attempt=attempt >= max_attempts,
        payload_version=None,
        payload=None,
        payload_characters=0,
        token=uuid4(),
    )
    results = dict(dependency_results or {})

    def ask(_: UUID, parent: UUID | None) -> Any:
        return (results, ()) if parent is None else results[parent]

    return Context(claim, time.monotonic() + timeout_seconds, ask)
