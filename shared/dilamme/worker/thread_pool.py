"""The threads in which handlers run. They touch no database: what they need or have done goes through the controller."""

import asyncio
import inspect
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from dilamme.domain.job import Claim
from dilamme.domain.outcome import Outcome
from dilamme.handlers.registry import JobType


@dataclass(slots=True, eq=False)
class Ticket:
    """A claimed job on its way through the crew; times are monotonic seconds."""

    claim: Claim
    job_type: JobType
    claimed_at: float
    started_at: float = 0.0
    ends_by: float = float("inf")
    seconds: float = 0.0
    abandoned: bool = False


Done = tuple[Ticket, Outcome]
Execute = Callable[[Ticket, Callable[[Any], Any]], Outcome]


class Crew:
    """Up to ``concurrency`` runners, each taking one ticket at a time, in order.

    They are threads, started as tickets come. With a concurrency of 1 there is none: `work` is called by the one whose
    thread is to run the handlers.

    The line and the list of what is done are deques, whose ends CPython takes and adds to atomically: a lock for each
    job would be much of a short one's time. Locks are taken only to wait, and to wake who waits. What is in
    hand is kept by the controller alone, so it never miscounts a ticket on its way from the line to a runner.
    """

    def __init__(self, concurrency: int, execute: Execute) -> None:
        self.concurrency = concurrency
        self._execute = execute
        self._todo: deque[Ticket] = deque()
        self._done: deque[Done] = deque()
        self._asked: deque[tuple[UUID, Future[dict[UUID, Any]]]] = deque()
        self._running: set[Ticket] = set()
        self._in_hand: set[Ticket] = set()
        self._abandoned: list[Ticket] = []
        self.runners: list[threading.Thread] = []
        self._open = True
        lock = threading.Lock()
        self._happened = threading.Condition(lock)
        self._arrived = threading.Condition(lock)
        self._controller_waits = False
        self._nudged = False
        self._runners_waiting = 0

    # ===== the controller's side =====

    def add(self, tickets: list[Ticket]) -> None:
        """Puts tickets at the end of the line."""
        self._in_hand.update(tickets)
        self._line_up(tickets)
        if self.concurrency > 1:
            self._hire()

    def _hire(self) -> None:
        missing = min(len(self._todo) - self._runners_waiting, self.concurrency - len(self.runners))
        for _ in range(missing):
            runner = threading.Thread(target=self.work, daemon=True)
            self.runners.append(runner)
            runner.start()

    def join(self) -> None:
        """Waits until the runners have gone, after `close`."""
        for runner in self.runners:
            runner.join()

    def _line_up(self, tickets: list[Ticket]) -> None:
        self._todo.extend(tickets)
        with self._arrived:
            self._arrived.notify(min(self._runners_waiting, len(tickets)))

    def collect(self, timeout_seconds: float) -> list[Done]:
        """What has been done since the last call; waits for something to happen, up to ``timeout_seconds``."""
        if timeout_seconds > 0 and not self._done and not self._asked:
            with self._happened:
                self._controller_waits = True
                if not self._done and not self._asked and not self._nudged:
                    self._happened.wait(timeout_seconds)
                self._controller_waits = self._nudged = False
        done = [self._done.popleft() for _ in range(len(self._done))]
        done = [one for one in done if not one[0].abandoned]
        self._in_hand.difference_update(ticket for ticket, _ in done)
        return done

    def nudge(self) -> None:
        """Ends the controller's wait, the present one or the next: something happened elsewhere. From any thread."""
        with self._happened:
            self._nudged = True
            self._happened.notify()

    def asked(self) -> list[tuple[UUID, "Future[dict[UUID, Any]]"]]:
        """Handlers that wait for the results of their job's dependencies."""
        return [self._asked.popleft() for _ in range(len(self._asked))]

    def withdraw(self, claimed_before: float) -> list[Ticket]:
        """Takes tickets that have not started, and were claimed before a time, out of the line."""
        if not self._todo or self.oldest_claimed_at() >= claimed_before:
            return []
        waiting = list(_taken(self._todo))
        self._line_up([ticket for ticket in waiting if ticket.claimed_at >= claimed_before])
        stale = [ticket for ticket in waiting if ticket.claimed_at < claimed_before]
        self._in_hand.difference_update(stale)
        return stale

    def abandon(self, now: float) -> list[Ticket]:
        """Gives up on handlers that have run past their time; what they return will be ignored."""
        overdue = [ticket for ticket in self._run() if ticket.ends_by <= now]
        for ticket in overdue:
            ticket.abandoned = True
        self._in_hand.difference_update(overdue)
        self._abandoned += overdue
        return overdue

    def close(self) -> None:
        """Lets the runners go once the line is empty."""
        self._open = False
        with self._arrived:
            self._arrived.notify_all()

    @property
    def waiting(self) -> int:
        """Tickets in line."""
        return len(self._todo)

    @property
    def in_hand(self) -> int:
        """Tickets in line, running, or done and not collected; the abandoned are not among them."""
        return len(self._in_hand)

    def tickets(self) -> list[Ticket]:
        """All that are in hand, and the abandoned."""
        return [*self._in_hand, *self._abandoned]

    def oldest_claimed_at(self) -> float:
        """When the first in line was claimed; infinity if nothing waits."""
        try:
            return self._todo[0].claimed_at
        except IndexError:
            return float("inf")

    def first_end(self) -> float:
        """When the first running handler is out of time; infinity if none runs."""
        return min((ticket.ends_by for ticket in self._run()), default=float("inf"))

    def nimble(self, started_after: float) -> int:
        """Runners that are idle or have begun their job only lately."""
        stuck = sum(ticket.started_at < started_after for ticket in self._run())
        return self.concurrency - stuck - len(self._abandoned)

    def _run(self) -> list[Ticket]:
        return [ticket for ticket in tuple(self._running) if not ticket.abandoned]

    # ===== the runners' side =====

    def work(self) -> None:
        """Runs tickets until the crew is closed; an event loop of this thread's own serves async handlers.

        It is made when there is a ticket: before, it would keep the interpreter from the controller's first claim.
        """
        ticket = self._next()
        if ticket is None:
            return
        with asyncio.Runner() as runner:
            resolve = _Resolver(runner).resolve
            while ticket is not None:
                self._running.add(ticket)
                outcome = copy_context().run(self._execute, ticket, resolve)  # what a job sets there ends with it
                ticket.seconds = time.monotonic() - ticket.started_at
                self._running.discard(ticket)
                if not ticket.abandoned:
                    self._done.append((ticket, outcome))
                    self._tell()
                ticket = self._next()

    def ask(self, job_id: UUID) -> dict[UUID, Any]:
        """The results of a job's dependencies, fetched by the controller on its connection."""
        future: Future[dict[UUID, Any]] = Future()
        self._asked.append((job_id, future))
        self._tell()
        return future.result()

    def _next(self) -> Ticket | None:
        while True:
            try:
                ticket = self._todo.popleft()
            except IndexError:
                if not self._wait_for_work():
                    return None
            else:
                ticket.started_at = time.monotonic()
                return ticket

    def _wait_for_work(self) -> bool:
        with self._arrived:
            while not self._todo:
                if not self._open:
                    return False
                self._runners_waiting += 1
                self._arrived.wait()
                self._runners_waiting -= 1
        return True

    def _tell(self) -> None:
        # The controller says that it waits, and looks once more, with the lock held: it cannot miss this.
        if self._controller_waits:
            with self._happened:
                self._controller_waits = False  # told once: it takes hundreds to find its way to the processor
                self._happened.notify()


def _taken(line: "deque[Ticket]") -> Iterator[Ticket]:
    with suppress(IndexError):
        while True:
            yield line.popleft()


class _Resolver:
    """Awaits what async handlers return, on a thread's event loop, and ends the tasks that they leave behind on it.

    Most make none. So they are counted as they are made: to look for them after each job would slow a short one down.
    """

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._loop = runner.get_loop()
        self._loop.set_task_factory(self._make_task)
        self._tasks_made = 0

    def resolve(self, result: Any) -> Any:
        """What a handler returned, awaited where it is to be awaited."""
        if result is None or not inspect.isawaitable(result):
            return result
        coroutine = result if inspect.iscoroutine(result) else _wait(result)
        nothing_left = False
        try:
            value = self._runner.run(coroutine, context=copy_context())
            nothing_left = self._tasks_made == 1
            return value
        finally:
            if not nothing_left:
                self._end_tasks()
            self._tasks_made = 0

    def _make_task(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **named: Any) -> "asyncio.Task[Any]":
        self._tasks_made += 1
        return asyncio.Task(coroutine, loop=loop, **named)

    def _end_tasks(self) -> None:
        if left := asyncio.all_tasks(self._loop):
            for task in left:
                task.cancel()
            self._runner.run(_wait(asyncio.wait(left)))


async def _wait(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
