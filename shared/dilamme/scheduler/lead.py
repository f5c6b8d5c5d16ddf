"""The scheduler's loop: lead until a successor takes over, tick on absolute deadlines, wake for what falls due between.

Triggers come late, twice, or not at all, so the loop outlives its minute: the next scheduler takes the lead from it,
and there is neither a gap nor a doubled tick (ARCHITECTURE, invariant 9).
"""

import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from uuid import UUID

import psycopg

from dilamme.domain.errors import DatabaseUnavailable
from dilamme.domain.priority import microseconds
from dilamme.domain.timing_wheel import TimingWheel
from dilamme.scheduler import maintenance
from dilamme.scheduler.tick import Dispatch, Leader, dispatch, tick
from dilamme.settings import Settings
from dilamme.store import lanes, lease, slots
from dilamme.store.connection import Connection

logger = logging.getLogger("dilamme.lead")

NEAR_FUTURE_JOBS_MAX = 5_000
WHEEL_SLOT_MICROSECONDS = 10_000
WHEEL_SLOTS = 256
# The database's clock is read over a network: wake this much after the time, or the look may come just before it.
WAKE_LATE_SECONDS = 0.003
PRUNE_EVERY_TICKS = 30
STOP_BEFORE_DEADLINE_SECONDS = 10.0


Observe = Callable[[Dispatch, float, float], None]


@dataclass(slots=True)
class Led:
    """What a loop did."""

    ticks: int = 0
    missed: int = 0
    taken_over: bool = False
    idle: bool = False


@dataclass(slots=True)
class _Loop:
    connection: Connection
    settings: Settings
    leader: Leader
    executor: ThreadPoolExecutor
    reconnect: Callable[[], Connection]
    observe: Observe
    until: float
    busy_at: float = field(default_factory=time.monotonic)
    led: Led = field(default_factory=Led)


def lead(
    connection: Connection,
    settings: Settings,
    owner: UUID,
    remaining_seconds: float,
    reconnect: Callable[[], Connection],
    observe: Observe = lambda dispatched, lag, seconds: None,
) -> Led:
    """Leads for `Settings.leader_seconds`, or as long as the function's time allows, until taken over or idle.

    ``observe`` gets each tick's dispatch, how late it began and how long it took, in seconds.
    """
    slots.provide(connection, settings.worker_slots)
    leader = Leader(owner, lease.take_lead(connection, owner, settings.leader_lease_seconds))
    until = time.monotonic() + min(settings.leader_seconds, remaining_seconds - STOP_BEFORE_DEADLINE_SECONDS)
    with ThreadPoolExecutor(max_workers=min(settings.worker_slots, 32), thread_name_prefix="invoke") as executor:
        loop = _Loop(connection, settings, leader, executor, reconnect, observe, until)
        _run(loop)
    if not loop.led.taken_over and not loop.led.idle:
        _survive(loop, partial(_resign, loop))
    return loop.led


def _resign(loop: _Loop) -> None:
    lease.resign(loop.connection, loop.leader.owner, loop.leader.epoch)


def _run(loop: _Loop) -> None:
    deadline = time.monotonic()
    while deadline < loop.until:
        _survive(loop, partial(_beat, loop, deadline))
        if loop.led.taken_over or loop.led.idle:
            return
        following, missed = next_deadline(deadline, time.monotonic(), loop.settings.tick_seconds)
        loop.led.missed += missed
        deadline = following
        _sleep_until(deadline)


def next_deadline(deadline: float, now: float, tick_seconds: float) -> tuple[float, int]:
    """The beat to run next, on the grid of ``deadline``, and how many before it were missed.

    Missed beats are skipped, not replayed: a tick looks at the whole state, so one late tick does the work of all. The
    last of them is run at once: skipped for the sake of a few milliseconds, it would leave a gap of two beats.
    """
    missed = max(0, int((now - deadline) // tick_seconds) - 1)
    return deadline + (missed + 1) * tick_seconds, missed


def _beat(loop: _Loop, deadline: float) -> None:
    began = time.monotonic()
    dispatched = tick(loop.connection, loop.settings, loop.leader, loop.executor)
    if dispatched is None:
        loop.led.taken_over = True
        return
    loop.led.ticks += 1
    loop.observe(dispatched, began - deadline, time.monotonic() - began)
    if loop.led.ticks % PRUNE_EVERY_TICKS == 1:
        maintenance.prune(loop.connection, loop.settings)
    _wake_between_ticks(loop, dispatched.now, deadline + loop.settings.tick_seconds)
    if loop.settings.idle_exit and not loop.led.taken_over:
        _leave_if_idle(loop)


def _leave_if_idle(loop: _Loop) -> None:
    """Resigns, commits, then looks once more: whoever made work due meanwhile saw a leader and woke none."""
    settings = loop.settings
    if lease.upcoming(loop.connection, settings.watch_seconds):
        loop.busy_at = time.monotonic()
    if time.monotonic() - loop.busy_at < settings.idle_exit_seconds:
        return
    _resign(loop)
    if lease.upcoming(loop.connection, settings.watch_seconds):
        epoch = lease.take_lead(loop.connection, loop.leader.owner, settings.leader_lease_seconds)
        loop.leader = Leader(loop.leader.owner, epoch)
        loop.busy_at = time.monotonic()
    else:
        loop.led.idle = True


def _wake_between_ticks(loop: _Loop, since: datetime, next_tick: float) -> None:
    """Dispatches what falls due before the next tick at its own time."""
    wheel, clock_offset = _near_future(loop, since, next_tick)
    while (due := wheel.next_due()) is not None:
        wake_at = due / 1_000_000 - clock_offset + WAKE_LATE_SECONDS
        if wake_at >= next_tick:
            return
        _sleep_until(wake_at)
        before = time.monotonic()
        dispatched = dispatch(loop.connection, loop.settings, loop.leader, loop.executor)
        if dispatched is None:
            loop.led.taken_over = True
            return
        # By the database's own clock: our guess at it may be ahead by half a slow round trip, and what was not due yet
        # when we looked must stay, or it would wait for the next tick.
        wheel.advance(microseconds(dispatched.now))
        clock_offset = min(clock_offset, _seconds(dispatched.now) - before)


def _near_future(loop: _Loop, since: datetime, next_tick: float) -> tuple[TimingWheel[UUID], float]:
    """A wheel of what falls due after ``since`` and before ``next_tick``, and what to add to the monotonic clock for the database's."""
    before = time.monotonic()
    ahead = max(0.0, next_tick - before)
    now, coming = lanes.near_future(loop.connection, since, ahead, NEAR_FUTURE_JOBS_MAX)
    clock_offset = _seconds(now) - (before + time.monotonic()) / 2
    wheel: TimingWheel[UUID] = TimingWheel(WHEEL_SLOT_MICROSECONDS, WHEEL_SLOTS, microseconds(now))
    for job_id, ready_at in coming:
        wheel.insert(microseconds(ready_at), job_id)
    return wheel, clock_offset


def _seconds(moment: datetime) -> float:
    return microseconds(moment) / 1_000_000


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


def _survive(loop: _Loop, step: Callable[[], None]) -> None:
    """A database that is away costs ticks, not the loop: the next tick tries again on a new connection."""
    try:
        if loop.connection.closed:
            loop.connection = loop.reconnect()
        step()
    except (DatabaseUnavailable, psycopg.OperationalError) as error:
        logger.error("tick failed", extra={"error": str(error)})
        loop.connection.close()
