"""The leader's lease (``sql/lease.sql``)."""

from datetime import datetime, timedelta
from uuid import UUID

from dilamme.store.connection import Connection, fetch, run


def take_lead(connection: Connection, owner: UUID, lease_seconds: float) -> int:
    """Makes ``owner`` the leader in place of any other; its epoch."""
    epoch: int = fetch(connection, "take_lead", {"owner": owner, "lease": timedelta(seconds=lease_seconds)})[0]["epoch"]
    return epoch


def renew(connection: Connection, owner: UUID, epoch: int, lease_seconds: float) -> datetime | None:
    """Prolongs the lease; returns the tick's one `now`, or None if another leads."""
    parameters = {"owner": owner, "epoch": epoch, "lease": timedelta(seconds=lease_seconds)}
    rows = fetch(connection, "renew", parameters)
    return rows[0]["now"] if rows else None


def resign(connection: Connection, owner: UUID, epoch: int) -> None:
    """Ends the lease, so that a caller who makes work due sees that nobody leads."""
    run(connection, "resign", {"owner": owner, "epoch": epoch})


def nobody_leads(connection: Connection) -> bool:
    """Is there neither a leader nor a scheduler that was invoked to lead?"""
    return bool(fetch(connection, "nobody_leads")[0]["nobody_leads"])


def upcoming(connection: Connection, ahead_seconds: float) -> bool:
    """Does a job fall due or a lease end within ``ahead_seconds``, or is a dead letter unsent?"""
    return bool(fetch(connection, "upcoming", {"ahead": timedelta(seconds=ahead_seconds)})[0]["upcoming"])


def depose(connection: Connection, owner: UUID, hold_seconds: float) -> bool:
    """Ends the lease of a lost scheduler. True if it led: the caller then invokes the next one."""
    return bool(fetch(connection, "depose", {"owner": owner, "hold": timedelta(seconds=hold_seconds)}))


def reserve_lead(connection: Connection, hold_seconds: float) -> bool:
    """True for one of all callers who see that nobody leads: this one then invokes a scheduler."""
    return bool(fetch(connection, "reserve_lead", {"hold": timedelta(seconds=hold_seconds)}))


def take_back_lead(connection: Connection) -> None:
    """Frees the reserved lead after a failed invoke, so that the next caller may try."""
    run(connection, "take_back_lead")


def move_sweep(connection: Connection, epoch: int, swept_to: UUID | None) -> None:
    """Keeps the sweep's position for the next tick, also for another leader."""
    run(connection, "move_sweep", {"epoch": epoch, "swept_to": swept_to})
