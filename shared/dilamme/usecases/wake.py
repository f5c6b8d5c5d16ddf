"""Start work at once, not at the next tick: whoever makes a job due commits, then wakes (ARCHITECTURE, invariant 11)."""

import logging
from collections.abc import Callable, Iterable, Sequence
from uuid import uuid4

from dilamme.aws.invoke import InvokeFailed, invoke
from dilamme.domain.worker_event import WorkerEvent
from dilamme.settings import Settings
from dilamme.store import lease, slots
from dilamme.store.connection import Connection

logger = logging.getLogger("dilamme.wake")

Invoke = Callable[[WorkerEvent], bool]


def wake(connection: Connection, settings: Settings, *, due: bool, later: bool) -> None:
    """Wakes a worker for a job that has just been committed and is due, a scheduler for one that comes ``later``.

    And a scheduler too when no worker could be invoked: its tick tries again.
    """
    if due:
        invoked, nobody_leads = _reserve_and_invoke(connection, settings)
        if nobody_leads and (later or not invoked):
            _invoke_scheduler_if_needed(connection, settings)
    elif later:
        wake_scheduler(connection, settings)


def wake_worker(connection: Connection, settings: Settings) -> bool:
    """Invokes one worker if a slot is free; the workers of the other slots drain until nothing is left."""
    invoked, _ = _reserve_and_invoke(connection, settings)
    return invoked


def _reserve_and_invoke(connection: Connection, settings: Settings) -> tuple[bool, bool]:
    """Was a worker invoked; and is there no leader?

    One statement answers both: with all slots taken and a leader alive, which is the rule under load, it is the only one.
    """
    reservation, nobody_leads = slots.reserve_or_look(
        connection, uuid4(), settings.worker_slots, settings.invitation_seconds
    )
    if reservation is None:
        return False, nobody_leads
    return bool(invoke_workers(connection, settings, [WorkerEvent(reservation.slot, reservation.token)])), nobody_leads


def invoke_workers(
    connection: Connection,
    settings: Settings,
    events: Sequence[WorkerEvent],
    map_: Callable[[Invoke, Sequence[WorkerEvent]], Iterable[bool]] = map,
) -> int:
    """Invokes a worker for each event; frees at once the slots of those that AWS does not take. How many it took.

    ``map_`` may be an executor's, so that many are invoked in parallel.
    """

    def is_taken(event: WorkerEvent) -> bool:
        try:
            invoke(settings.worker_function, event.to_json())
        except InvokeFailed as error:
            logger.warning("worker not invoked: %s", error, extra={"slot": event.slot})
            return False
        return True

    taken = list(map_(is_taken, events))
    if not all(taken):
        slots.take_back(connection, [event.token for event, is_ in zip(events, taken, strict=True) if not is_])
    return sum(taken)


def wake_scheduler(connection: Connection, settings: Settings) -> bool:
    """Invokes a scheduler if none leads, there is something for it before the next trigger, and nobody else has done so."""
    return lease.nobody_leads(connection) and _invoke_scheduler_if_needed(connection, settings)


def _invoke_scheduler_if_needed(connection: Connection, settings: Settings) -> bool:
    return (
        lease.upcoming(connection, settings.watch_seconds)
        and lease.reserve_lead(connection, settings.invitation_seconds)
        and invoke_scheduler(connection, settings)
    )


def invoke_scheduler(connection: Connection, settings: Settings) -> bool:
    """Invokes a scheduler for the lead that was reserved; gives the lead back if AWS does not take the event."""
    try:
        invoke(settings.scheduler_function, {"source": "dilamme.wake"})
    except InvokeFailed as error:
        logger.warning("scheduler not invoked: %s", error)
        lease.take_back_lead(connection)
        return False
    return True
