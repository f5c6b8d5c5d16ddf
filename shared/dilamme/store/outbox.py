"""Dead letters on their way to the queue (``sql/outbox.sql``)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from dilamme.store.connection import Connection, fetch_as, run
from dilamme.store.ids import new_ids


@dataclass(frozen=True, slots=True)
class Letter:
    """A message to be sent."""

    id: UUID
    message: Mapping[str, Any]


def announce(connection: Connection, messages: Mapping[UUID, Mapping[str, Any]]) -> None:
    """Stores a message for each job id, in the transaction in which the job died."""
    parameters = {
        "ids": new_ids(len(messages)),
        "job_ids": list(messages),
        "messages": [Jsonb(message) for message in messages.values()],
    }
    run(connection, "announce", parameters)


def pick(connection: Connection, limit: int, hold_seconds: float) -> list[Letter]:
    """Takes messages to send. Those that are not sent can be picked again after ``hold_seconds``."""
    return fetch_as(connection, Letter, "pick", {"limit": limit, "hold": timedelta(seconds=hold_seconds)})


def sent(connection: Connection, ids: Sequence[UUID]) -> None:
    """Deletes the messages that the queue has accepted."""
    run(connection, "sent", {"ids": list(ids)})
