"""A claim as the store gives it, for tests that have no store."""

from typing import Any
from uuid import UUID

from dilamme.domain.job import Claim
from tests.unit.strategies import NOW


def claim(**fields: Any) -> Claim:
    """A first attempt of three."""
    values: dict[str, Any] = {
        "id": UUID(int=1),
        "type": "email.send",
        "payload": {"to": "a@b.c"},
        "payload_characters": 14,
        "priority": 2,
        "attempt": 1,
        "max_attempts": 3,
        "token": UUID(int=2),
        "ready_at": NOW,
        "started_at": NOW,
        "series_id": None,
        "unknown_since": None,
        "last_attempt": False,
        "payload_version": None,
        **fields,
    }
    return Claim(**values)
