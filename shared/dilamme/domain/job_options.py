"""The fields of a job that whoever submits it may choose, beside its type and payload, for type checkers."""

from collections.abc import Sequence
from datetime import datetime
from typing import TypedDict
from uuid import UUID


class JobOptions(TypedDict, total=False):
    """As `dilamme.submit` has them."""

    priority: int
    scheduled_at: datetime | None
    interval_seconds: int | None
    dependency_ids: Sequence[UUID]
    max_attempts: int | None
    on_dependency_failure: str
