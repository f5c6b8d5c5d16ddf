"""One beat of the scheduler: find the most urgent jobs, and invoke workers for them."""

from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from dilamme.domain.job import Head
from dilamme.domain.min_heap import MinHeap
from dilamme.domain.priority import order_key
from dilamme.domain.worker_event import WorkerEvent
from dilamme.scheduler import maintenance
from dilamme.scheduler.outbox import send_outbox
from dilamme.settings import Settings
from dilamme.store import lanes, lease, slots
from dilamme.store.connection import Connection, transaction
from dilamme.usecases.rescue import expire
from dilamme.usecases.wake import invoke_workers, wake_worker


@dataclass(frozen=True, slots=True)
class Leader:
    """A scheduler's invocation that leads, and its epoch."""

    owner: UUID
    epoch: int


@dataclass(frozen=True, slots=True)
class Dispatch:
    """The result of a tick. ``now`` is its one time; the counts are of this tick alone."""

    now: datetime
    ready: int  # heads seen, at most three times the jobs that the free slots could take
    invoked: int
    refused: int  # invocations that AWS did not take; their slots are free again


def tick(connection: Connection, settings: Settings, leader: Leader, executor: Executor) -> Dispatch | None:
    """Renews the lease, hands the most urgent jobs to workers, then does the maintenance. None if another leads."""
    dispatched = dispatch(connection, settings, leader, executor)
    if dispatched is not None:
        if expire(connection, settings).due:
            wake_worker(connection, settings)
        maintenance.carry_on_cascades(connection)
        send_outbox(connection, settings)
        maintenance.sweep(connection, leader.epoch)
    return dispatched


def dispatch(connection: Connection, settings: Settings, leader: Leader, executor: Executor) -> Dispatch | None:
    """The tick's first half. It also runs alone, when a job of the timing wheel has fallen due."""
    with transaction(connection):
        now = lease.renew(connection, leader.owner, leader.epoch, settings.leader_lease_seconds)
        if now is None:
            return None
        free = slots.free_overdue(connection, settings.worker_slots)
        limit = free * settings.worker_concurrency
        heads = lanes.lane_heads(connection, limit) if limit else []
        chosen = most_urgent(heads, limit, now, settings.ageing_seconds)
        workers = -(-len(chosen) // settings.worker_concurrency)  # rounded up
        tokens = [uuid4() for _ in range(workers)]
        reserved = (
            slots.reserve(connection, tokens, settings.worker_slots, settings.invitation_seconds) if tokens else []
        )
    events = deal(chosen, reserved, now)
    invoked = invoke_workers(connection, settings, events, executor.map)
    return Dispatch(now, len(heads), invoked, len(events) - invoked)


def most_urgent(heads: Iterable[Head], limit: int, now: datetime, ageing_seconds: float) -> list[Head]:
    """The ``limit`` most urgent of the lanes' heads, in order: the exact merge of the three lanes."""
    heap: MinHeap[Head] = MinHeap(order_key(now, ageing_seconds))
    heap.rebuild(heads)
    return heap.pop_many(limit)


def deal(chosen: Sequence[Head], reserved: Sequence[slots.Reservation], now: datetime) -> list[WorkerEvent]:
    """Deals the jobs out like cards, so that the most urgent ones start first in different workers."""
    return [
        WorkerEvent(slot.slot, slot.token, [head.id for head in chosen[index :: len(reserved)]], ticked_at=now)
        for index, slot in enumerate(reserved)
    ]
