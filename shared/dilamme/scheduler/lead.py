"""The scheduler's loop: lead until a successor takes over, tick on absolute deadlines, dispatch jobs that fall due between.

Triggers come late, twice, or not at all. So the loop lives longer than its minute, until the next scheduler takes the lead
from it: there is neither a gap nor a doubled tick (ARCHITECTURE, invariant 9).
"""

import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from dilamme.domain.priority import microseconds
from dilamme.domain.timing_wheel import TimingWheel
from dilamme.scheduler import maintenance
from dilamme.scheduler.tick import Dispatch, Leader, dispatch, tick
from dilamme.settings import Settings
from dilamme.store import lanes, lease, slots
from dilamme.store.connection import Connection
from dilamme.store.reconnecting import Reconnecting

NEAR_FUTURE_JOBS_MAX = 5_000
WHEEL_SLOT_MICROSECONDS = 10_000
WHEEL_SLOTS = 256
# The database's clock is read over a network. Wake this much after the time: else the dispatch may come just before it.
WAKE_LATE_SECONDS = 0.003
PRUNE_EVERY_TICKS = 10
STOP_BEFORE_DEADLINE_SECONDS = 10.0


Observe = Callable[[Dispatch, float, float], None]


@dataclass(slots=True)
class Led:
    """The counts of a loop, and how it ended: taken over, idle, or out of time."""

    ticks: int = 0
    missed: int = 0
    taken_over: bool = False
    idle: bool = False


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
    slots.provide_slots(connection, settings.worker_slots)
    leader = Leader(owner, lease.take_lead(connection, owner, settings.leader_lease_seconds))
    until = time.monotonic() + min(settings.leader_seconds, remaining_seconds - STOP_BEFORE_DEADLINE_SECONDS)
    with ThreadPoolExecutor(max_workers=min(settings.worker_slots, 32), thread_name_prefix="invoke") as executor:
        loop = _Loop(Reconnecting(connection, reconnect), settings, leader, executor, observe)
        loop.run(until)
    return loop.led


def next_deadline(deadline: float, now: float, tick_seconds: float) -> tuple[float, int]:
    """The next tick's time, on the grid of ``deadline``, and the number of missed ticks before it.

    Missed ticks are skipped, not made up for: a tick looks at the whole state, so one late tick does the work of all. The
    last one is run at once: without it a delay of a few milliseconds would leave a gap of two ticks.
    """
    missed = max(0, int((now - deadline) // tick_seconds) - 1)
    return deadline + (missed + 1) * tick_seconds, missed


class _Loop:
    """Ticks of one leader. A database that is away costs ticks, not the loop."""

    def __init__(
        self, database: Reconnecting, settings: Settings, leader: Leader, executor: Executor, observe: Observe
    ) -> None:
        self.led = Led()
        self._database = database
        self._settings = settings
        self._leader = leader
        self._executor = executor
        self._observe = observe
        self._busy_at = time.monotonic()
        self._more_to_prune = False

    def run(self, until: float) -> None:
        """Ticks on the grid until a time, on the monotonic clock, and then resigns."""
        led, deadline = self.led, time.monotonic()
        while deadline < until:
            self._database.attempt(lambda at=deadline: self._beat(at), "tick failed")  # type: ignore[misc]
            if led.taken_over or led.idle:
                return
            deadline, missed = next_deadline(deadline, time.monotonic(), self._settings.tick_seconds)
            led.missed += missed
            _sleep_until(deadline)
        self._database.attempt(self._resign, "not resigned")

    def _beat(self, deadline: float) -> None:
        began, connection, settings = time.monotonic(), self._database.connection, self._settings
        dispatched = tick(connection, settings, self._leader, self._executor)
        if dispatched is None:
            self.led.taken_over = True
            return
        self.led.ticks += 1
        self._observe(dispatched, began - deadline, time.monotonic() - began)
        if self._more_to_prune or self.led.ticks % PRUNE_EVERY_TICKS == 1:
            self._more_to_prune = maintenance.prune_for_a_while(connection, settings)
        self._dispatch_between_ticks(dispatched.now, deadline + settings.tick_seconds)
        if settings.idle_exit and not self.led.taken_over:
            self._leave_if_idle()

    def _dispatch_between_ticks(self, since: datetime, next_tick: float) -> None:
        """Dispatches the jobs that fall due after ``since`` and before the next tick, each at its own time."""
        connection = self._database.connection
        before = time.monotonic()
        ahead = max(0.0, next_tick - before)
        now, coming = lanes.near_future(connection, since, ahead, NEAR_FUTURE_JOBS_MAX)
        clock_offset = _seconds(now) - (before + time.monotonic()) / 2  # from the monotonic clock to the database's
        wheel: TimingWheel[UUID] = TimingWheel(WHEEL_SLOT_MICROSECONDS, WHEEL_SLOTS, microseconds(now))
        for job_id, ready_at in coming:
            wheel.insert(microseconds(ready_at), job_id)
        while (due := wheel.next_due()) is not None:
            wake_at = due / 1_000_000 - clock_offset + WAKE_LATE_SECONDS
            if wake_at >= next_tick:
                return
            _sleep_until(wake_at)
            before = time.monotonic()
            dispatched = dispatch(connection, self._settings, self._leader, self._executor)
            if dispatched is None:
                self.led.taken_over = True
                return
            # By the database's own clock: our estimate of it may be ahead by half a slow round trip. A job that was not
            # due at the dispatch must stay in the wheel, or it would wait for the next tick.
            wheel.advance(microseconds(dispatched.now))
            clock_offset = min(clock_offset, _seconds(dispatched.now) - before)

    def _leave_if_idle(self) -> None:
        """Resigns, commits, then looks once more: a caller who made work due before saw a leader, and woke none."""
        connection, settings = self._database.connection, self._settings
        if self._more_to_prune or lease.upcoming(connection, settings.watch_seconds):
            self._busy_at = time.monotonic()
        if time.monotonic() - self._busy_at < settings.idle_exit_seconds:
            return
        self._resign()
        if lease.upcoming(connection, settings.watch_seconds):
            epoch = lease.take_lead(connection, self._leader.owner, settings.leader_lease_seconds)
            self._leader = Leader(self._leader.owner, epoch)
            self._busy_at = time.monotonic()
        else:
            self.led.idle = True

    def _resign(self) -> None:
        lease.resign(self._database.connection, self._leader.owner, self._leader.epoch)


def _seconds(moment: datetime) -> float:
    return microseconds(moment) / 1_000_000


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))
