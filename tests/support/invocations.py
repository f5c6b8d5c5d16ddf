"""What takes the place of AWS: lists of what was sent to it, and failures on demand."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from dilamme.aws.invoke import InvokeFailed
from dilamme.aws.queue import SendFailed
from dilamme.domain.worker_event import WorkerEvent


class Invocations(list[tuple[str, dict[str, Any]]]):
    """(function, event) pairs. Set ``failing`` to refuse as many of the next ones."""

    failing = 0

    def __call__(self, function: str, event: Mapping[str, Any]) -> None:
        if self.failing:
            self.failing -= 1
            raise InvokeFailed(f"{function}: 429")
        self.append((function, dict(event)))

    def take_workers(self) -> list[WorkerEvent]:
        """The workers' events so far, as the worker's handler reads them."""
        events = [worker_event(event) for function, event in self if function == "worker"]
        self.clear()
        return events


def worker_event(event: Mapping[str, Any]) -> WorkerEvent:
    ticked_at = event["tickedAt"]
    return WorkerEvent(
        slot=event["slot"],
        token=UUID(event["token"]),
        ids=[UUID(job_id) for job_id in event["ids"]],
        ticked_at=ticked_at and datetime.fromisoformat(ticked_at),
    )


class Letters(list[dict[str, Any]]):
    """The messages that the dead-letter queue took. Set ``failing`` to refuse as many of the next calls."""

    failing = 0

    def __call__(self, _queue_url: str, messages: Sequence[tuple[UUID, Mapping[str, Any]]]) -> list[UUID]:
        if self.failing:
            self.failing -= 1
            raise SendFailed("no answer")
        self.extend(dict(message) for _, message in messages)
        return [letter_id for letter_id, _ in messages]
