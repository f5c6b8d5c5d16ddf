"""The worker slots: at most N workers, each under a token (``sql/slots.sql``)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from dilamme.store.connection import Connection, fetch, fetch_as, run


@dataclass(frozen=True, slots=True)
class Reservation:
    """A slot that is reserved for a worker that has yet to come. Its state in the table is ``invited``."""

    slot: int
    token: UUID


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The number of slots in each state."""

    free: int
    invited: int
    started: int


def provide_slots(connection: Connection, slots: int) -> None:
    """Sets the number of slots: adds missing ones, removes surplus ones that are free."""
    run(connection, "provide_slots", {"slots": slots})
    run(connection, "remove_slots", {"slots": slots})


def reserve(connection: Connection, tokens: Sequence[UUID], slots: int, hold_seconds: float) -> list[Reservation]:
    """Reserves a free slot for each token, as long as there are any; each is held for ``hold_seconds``."""
    parameters = {"tokens": list(tokens), "slots": slots, "hold": timedelta(seconds=hold_seconds)}
    return fetch_as(connection, Reservation, "reserve", parameters)


def reserve_or_look(
    connection: Connection, token: UUID, slots: int, hold_seconds: float
) -> tuple[Reservation | None, bool]:
    """Reserves a free slot for the token, if there is one, for ``hold_seconds``; and says whether nobody leads."""
    parameters = {"token": token, "slots": slots, "hold": timedelta(seconds=hold_seconds)}
    row = fetch(connection, "reserve_or_look", parameters)[0]
    return None if row["slot"] is None else Reservation(row["slot"], token), row["nobody_leads"]


def start(connection: Connection, slot: int, token: UUID, hold_seconds: float) -> bool:
    """Starts to work in the slot; False if it is not ours, since the event came twice or too late."""
    return bool(fetch(connection, "start", {"slot": slot, "worker": token, "lease": timedelta(seconds=hold_seconds)}))


def holds(connection: Connection, token: UUID) -> bool:
    """Does a worker still have its slot?"""
    return bool(fetch(connection, "holds", {"token": token})[0]["holds"])


def retake(connection: Connection, token: UUID, slots: int, hold_seconds: float) -> bool:
    """Takes any free slot for a worker that has freed its own and found more work."""
    return bool(fetch(connection, "retake", {"token": token, "slots": slots, "hold": timedelta(seconds=hold_seconds)}))


def free(connection: Connection, tokens: Sequence[UUID]) -> int:
    """Frees the slots held under these tokens; their number."""
    return len(fetch(connection, "free", {"tokens": list(tokens)}))


def take_back(connection: Connection, tokens: Sequence[UUID]) -> None:
    """Frees reserved slots whose invoke failed, unless the worker has come all the same."""
    run(connection, "take_back", {"tokens": list(tokens)})


def free_overdue(connection: Connection, slots: int) -> int:
    """Frees the slots whose worker never came or never freed them; the number of free ones among ``slots`` then."""
    free: int = fetch(connection, "free_overdue", {"slots": slots})[0]["free"]
    return free


def count_slots(connection: Connection, slots: int) -> Occupancy:
    """The number of free, invited and started ones among ``slots``."""
    return fetch_as(connection, Occupancy, "count_slots", {"slots": slots})[0]
