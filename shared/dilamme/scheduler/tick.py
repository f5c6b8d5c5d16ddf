"""One beat of the scheduler: who is most urgent, and which workers are called for them."""

import logging
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from dilamme.aws.invoke import InvokeFailed, invoke
from dilamme.domain.job import Head
from dilamme.domain.min_heap import MinHeap
from dilamme.domain.priority import order_key
from dilamme.scheduler import maintenance, outbox
from dilamme.settings import Settings
from dilamme.store import lanes, lease, slots
from dilamme.store.connection import Connection, transaction
from dilamme.store.slots import Invitation
from dilamme.usecases import rescue, wake

logger = logging.getLogger("dilamme.tick")


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads: a scheduler's invocation, and its epoch."""

    owner: UUID
    epoch: int


@dataclass(frozen=True, slots=True)
class Dispatch:
    """What a tick found and did. ``now`` is its one `now`; counts are of this tick."""

    now: datetime
    ready: int  # heads seen, at most three times the jobs that the free slots could take
    invoked: int
    refused: int  # invocations that AWS did not take; their slots are free again


def tick(connection: Connection, settings: Settings, leader: Leader, executor: Executor) -> Dispatch | None:
    """Renews the lease, hands the most urgent jobs to workers, then does the chores. None if another leads."""
    dispatched = dispatch(connection, settings, leader, executor)
    if dispatched is not None:
        if rescue.expire(connection, settings).due:
            wake.wake_worker(connection, settings)
        outbox.send_outbox(connection, settings)
        maintenance.sweep(connection, leader.epoch)
    return dispatched


def dispatch(connection: Connection, settings: Settings, leader: Leader, executor: Executor) -> Dispatch | None:
    """The tick's first half, also run alone when the timing wheel says that something has fallen due."""
    with transaction(connection):
        now = lease.renew(connection, leader.owner, leader.epoch, settings.leader_lease_seconds)
        if now is None:
            return None
        free = slots.free_overdue(connection, settings.worker_slots)
        heads = lanes.lane_heads(connection, free * settings.worker_concurrency) if free else []
        chosen = most_urgent(heads, free * settings.worker_concurrency, now, settings.ageing_seconds)
        tokens = [uuid4() for _ in _hands(chosen, settings.worker_concurrency)]
        invitations = (
            slots.invite(connection, tokens, settings.worker_slots, settings.invitation_seconds) if tokens else []
        )
    invoked = _call(connection, settings, executor, deal(chosen, invitations), now)
    return Dispatch(now, len(heads), invoked, len(invitations) - invoked)


def most_urgent(heads: Iterable[Head], most: int, now: datetime, ageing_seconds: float) -> list[Head]:
    """The ``most`` most urgent of the lanes' heads, in order: the exact merge of the three lanes."""
    heap: MinHeap[Head] = MinHeap(order_key(now, ageing_seconds))
    heap.rebuild(heads)
    return heap.pop_many(most)


def _hands(chosen: Sequence[Head], concurrency: int) -> range:
    return range(-(-len(chosen) // concurrency))


def deal(chosen: Sequence[Head], invitations: Sequence[Invitation]) -> list[tuple[Invitation, list[UUID]]]:
    """Deals the jobs out like cards, so that the most urgent ones start first in different workers."""
    workers = len(invitations)
    return [(invitation, [head.id for head in chosen[place::workers]]) for place, invitation in enumerate(invitations)]


def _call(
    connection: Connection,
    settings: Settings,
    executor: Executor,
    hands: Sequence[tuple[Invitation, list[UUID]]],
    now: datetime,
) -> int:
    def call(hand: tuple[Invitation, list[UUID]]) -> Invitation | None:
        try:
            invoke(settings.worker_function, wake.worker_event(*hand, ticked_at=now))
        except InvokeFailed as error:
            logger.warning("worker not invoked: %s", error, extra={"slot": hand[0].slot})
            return hand[0]
        return None

    refused = [invitation for invitation in executor.map(call, hands) if invitation is not None]
    if refused:
        slots.take_back(connection, [invitation.token for invitation in refused])
    return len(hands) - len(refused)
