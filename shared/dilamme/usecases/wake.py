"""Start work at once, not at the next tick: whoever makes a job due commits, then wakes (ARCHITECTURE, invariant 11)."""

import logging
from datetime import datetime
from uuid import UUID, uuid4

from dilamme.aws.invoke import InvokeFailed, invoke
from dilamme.settings import Settings
from dilamme.store import lease, slots
from dilamme.store.connection import Connection
from dilamme.store.slots import Invitation

logger = logging.getLogger("dilamme.wake")


def wake(connection: Connection, settings: Settings, *, due: bool, later: bool) -> None:
    """What has just been committed needs: a worker, for a job that is due; a scheduler, for what comes later.

    And a scheduler too when no worker could be called: the tick tries again.
    """
    if due:
        called, nobody_leads = _invite_or_look(connection, settings)
        if nobody_leads and (later or not called):
            _bring_leader(connection, settings)
    elif later:
        wake_leader(connection, settings)


def _invite_or_look(connection: Connection, settings: Settings) -> tuple[bool, bool]:
    """Was a worker called; and is there no leader?

    One look for both: with all slots taken and a leader alive, which is the rule under load, there is no other.
    """
    invitation, nobody_leads = slots.invite_or_look(
        connection, uuid4(), settings.worker_slots, settings.invitation_seconds
    )
    return invitation is not None and call_worker(connection, settings, invitation), nobody_leads


def wake_worker(connection: Connection, settings: Settings) -> bool:
    """Invites one worker if a slot is free; the workers of the others drain until nothing is left."""
    called, _ = _invite_or_look(connection, settings)
    return called


def call_worker(connection: Connection, settings: Settings, invitation: Invitation) -> bool:
    """Invokes the worker for a slot taken for it; frees the slot at once if AWS does not take the event."""
    try:
        invoke(settings.worker_function, worker_event(invitation))
    except InvokeFailed as error:
        logger.warning("worker not invoked: %s", error, extra={"slot": invitation.slot})
        slots.take_back(connection, [invitation.token])
        return False
    return True


def worker_event(
    invitation: Invitation, ids: list[UUID] | None = None, ticked_at: datetime | None = None
) -> dict[str, object]:
    """The event that a worker gets: its slot, and the ids that the scheduler's heap chose for it."""
    return {
        "slot": invitation.slot,
        "token": str(invitation.token),
        "ids": [str(job_id) for job_id in ids or ()],
        "tickedAt": ticked_at and ticked_at.isoformat(),
    }


def wake_leader(connection: Connection, settings: Settings) -> bool:
    """Invokes a scheduler if none leads, there is something for it before the next trigger, and nobody else has done so."""
    return lease.nobody_leads(connection) and _bring_leader(connection, settings)


def _bring_leader(connection: Connection, settings: Settings) -> bool:
    """`wake_leader`, after the look whether anybody leads."""
    return (
        lease.upcoming(connection, settings.watch_seconds)
        and lease.invite_leader(connection, settings.invitation_seconds)
        and call_leader(connection, settings)
    )


def call_leader(connection: Connection, settings: Settings) -> bool:
    """Invokes a scheduler for an invitation taken; gives the invitation back if AWS does not take the event."""
    try:
        invoke(settings.scheduler_function, {"source": "dilamme.wake"})
    except InvokeFailed as error:
        logger.warning("scheduler not invoked: %s", error)
        lease.withdraw_invitation(connection)
        return False
    return True
