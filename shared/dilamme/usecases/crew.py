"""The threads in which handlers run. They touch no database: what they need or have done goes through the controller."""

import asyncio
import inspect
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from dilamme.domain.job import Claim
from dilamme.domain.outcome import Outcome
from dilamme.domain.registry import JobType


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
    """``concurrency`` runners, each taking one ticket at a time, in order.

    With a concurrency of 1 there is no thread: `work` is called by the one whose thread is to run the handlers.
    """

    def __init__(self, concurrency: int, execute: Execute) -> None:
        self.concurrency = concurrency
        self._execute = execute
        lock = threading.Lock()
        self._changed = threading.Condition(lock)
        self._work_here = threading.Condition(lock)
        self._todo: deque[Ticket] = deque()
        self._running: set[Ticket] = set()
        self._abandoned: list[Ticket] = []
        self._done: list[Done] = []
        self._asked: list[tuple[UUID, Future[dict[UUID, Any]]]] = []
        self._open = True

    # ===== the controller's side =====

    def add(self, tickets: list[Ticket]) -> None:
        """Puts tickets at the end of the line."""
        with self._changed:
            self._todo.extend(tickets)
            self._work_here.notify(len(tickets))

    def collect(self, timeout_seconds: float) -> list[Done]:
        """What has been done since the last call; waits for something to happen, up to ``timeout_seconds``."""
        with self._changed:
            if not self._done and not self._asked:
                self._changed.wait(timeout_seconds)
            done, self._done = self._done, []
        return done

    def asked(self) -> list[tuple[UUID, "Future[dict[UUID, Any]]"]]:
        """Handlers that wait for the results of their job's dependencies."""
        with self._changed:
            asked, self._asked = self._asked, []
        return asked

    def withdraw(self, claimed_before: float) -> list[Ticket]:
        """Takes tickets that have not started, and were claimed before a time, out of the line."""
        with self._changed:
            stale = [ticket for ticket in self._todo if ticket.claimed_at < claimed_before]
            if stale:
                self._todo = deque(ticket for ticket in self._todo if ticket.claimed_at >= claimed_before)
        return stale

    def abandon(self, now: float) -> list[Ticket]:
        """Gives up on handlers that have run past their time; what they return will be ignored."""
        with self._changed:
            overdue = [ticket for ticket in self._running if ticket.ends_by <= now]
            for ticket in overdue:
                ticket.abandoned = True
                self._running.discard(ticket)
            self._abandoned += overdue
        return overdue

    def close(self) -> None:
        """Lets the runners go once the line is empty."""
        with self._changed:
            self._open = False
            self._work_here.notify_all()

    @property
    def waiting(self) -> int:
        """Tickets in line."""
        return len(self._todo)

    @property
    def in_hand(self) -> int:
        """Tickets in line, running, or done and not collected; the abandoned are not among them."""
        with self._changed:
            return len(self._todo) + len(self._running) + len(self._done)

    def tickets(self) -> list[Ticket]:
        """All that are in hand, and the abandoned."""
        with self._changed:
            return [*self._todo, *self._running, *(ticket for ticket, _ in self._done), *self._abandoned]

    def oldest_claimed_at(self) -> float | None:
        """When the first in line was claimed."""
        with self._changed:
            return self._todo[0].claimed_at if self._todo else None

    def first_end(self) -> float | None:
        """When the first running handler is out of time."""
        with self._changed:
            return min((ticket.ends_by for ticket in self._running), default=None)

    def nimble(self, started_after: float) -> int:
        """Runners that are idle or have begun their job only lately."""
        with self._changed:
            stuck = sum(ticket.started_at < started_after for ticket in self._running)
        return self.concurrency - stuck - len(self._abandoned)

    # ===== the runners' side =====

    def work(self) -> None:
        """Runs tickets until the crew is closed; an event loop of this thread's own serves async handlers."""
        with asyncio.Runner() as loop:
            while (ticket := self._next()) is not None:
                outcome = self._execute(ticket, lambda result: _resolve(result, loop))
                self._finish(ticket, outcome)

    def ask(self, job_id: UUID) -> dict[UUID, Any]:
        """The results of a job's dependencies, fetched by the controller on its connection."""
        future: Future[dict[UUID, Any]] = Future()
        with self._changed:
            self._asked.append((job_id, future))
            self._changed.notify()
        return future.result()

    def _next(self) -> Ticket | None:
        with self._changed:
            while not self._todo:
                if not self._open:
                    return None
                self._work_here.wait()
            ticket = self._todo.popleft()
            ticket.started_at = time.monotonic()
            self._running.add(ticket)
            return ticket

    def _finish(self, ticket: Ticket, outcome: Outcome) -> None:
        with self._changed:
            ticket.seconds = time.monotonic() - ticket.started_at
            if not ticket.abandoned:
                self._running.discard(ticket)
                self._done.append((ticket, outcome))
                self._changed.notify()


def _resolve(result: Any, loop: asyncio.Runner) -> Any:
    if not inspect.isawaitable(result):
        return result

    async def wait() -> Any:
        return await result

    return loop.run(wait())
