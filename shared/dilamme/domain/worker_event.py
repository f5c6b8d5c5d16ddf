"""The event of a worker's invocation: its waker writes it, the worker and its rescue read it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self
from uuid import UUID

NO_SLOT = 0
"""Slots count from 1. A worker that is invoked for this one publishes its types and leaves: a try whether it can start."""


@dataclass(frozen=True, slots=True)
class WorkerEvent:
    """A worker's slot and token; the ids that the scheduler's heap chose for it, and the time of that choice."""

    slot: int
    token: UUID
    ids: Sequence[UUID] = ()
    ticked_at: datetime | None = None

    def to_json(self) -> dict[str, Any]:
        """The event as JSON for Lambda."""
        return {
            "slot": self.slot,
            "token": str(self.token),
            "ids": [str(job_id) for job_id in self.ids],
            "tickedAt": self.ticked_at and self.ticked_at.isoformat(),
        }

    @classmethod
    def from_json(cls, event: Mapping[str, Any]) -> Self:
        """The event from Lambda's JSON.

        Raises:
            KeyError, ValueError: it is none of ours.
        """
        ticked_at = event.get("tickedAt")
        return cls(
            slot=event["slot"],
            token=UUID(event["token"]),
            ids=[UUID(job_id) for job_id in event.get("ids", ())],
            ticked_at=datetime.fromisoformat(ticked_at) if ticked_at else None,
        )
