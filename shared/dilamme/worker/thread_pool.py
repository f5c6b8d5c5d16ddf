"""The threads in which handlers run. They do not use the database: their questions and results go through the loop.

The loop's thread calls the first half of `ThreadPool`, the runners' threads the second half.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from dilamme.domain.job import Claim
from dilamme.domain.outcome import Outcome
from dilamme.handlers import fork
from dilamme.handlers.registry import JobType
from dilamme.worker.resolver import SPOIL_SECONDS, Resolver


@dataclass(slots=True, eq=False)
class RunningJob:
    """A claimed job on its way through the pool; times are monotonic seconds."""

    claim: Claim
    job_type: JobType
    claimed_at: float
    started_at: float = 0.0
    ends_by: float = float("inf")
    seconds: float = 0.0
    abandoned: bool = False


Question = tuple[UUID, UUID | None]  # a job, and one of its dependencies, or None for all
Done = tuple[RunningJob, Outcome]
Execute = Callable[[RunningJob, Callable[[Any], Any]], Outcome]


class ThreadPool:
    """Up to ``concurrency`` runners, each taking one job at a time, in order.

    Runners are threads, started as jobs come. With a concurrency of 1 there is none: `run` is called in the thread in which
    the handlers shall run.

    The queue and the list of done jobs are deques: CPython appends and pops atomically at their ends, and a lock for each
    job would take much of a short job's time. Locks are taken only to wait, and to wake a waiting thread. The loop's thread
    alone counts the jobs in hand, so a job on its way from the queue to a runner is never miscounted.

    The rival, `concurrent.futures.ThreadPoolExecutor`, makes a future and takes two locks for each job, and a job that
    waits in its queue cannot be returned.
    """

    def __init__(self, concurrency: int, execute: Execute) -> None:
        self.concurrency = concurrency
        self._execute = execute
        self._queue: deque[RunningJob] = deque()
        self._done: deque[Done] = deque()
        self._asked: deque[tuple[Question, Future[Any]]] = deque()
        self._started: set[RunningJob] = set()
        self._in_hand: set[RunningJob] = set()
        self._abandoned: list[RunningJob] = []
        self.runners: list[threading.Thread] = []
        self.lack: Exception | None = None  # what this process has no more of: it must end, and another take its place
        self._open = True
        self._generation = fork.generation
        lock = threading.Lock()
        self._happened = threading.Condition(lock)
        self._arrived = threading.Condition(lock)
        self._loop_waits = False
        self._nudged = False
        self._runners_waiting = 0

    # ===== the loop's side =====

    def add(self, jobs: list[RunningJob]) -> None:
        """Puts jobs at the end of the queue, and starts runners for them where some are missing."""
        self._in_hand.update(jobs)
        self._enqueue(jobs)
        if self.concurrency > 1:
            missing = min(len(self._queue) - self._runners_waiting, self.concurrency - len(self.runners))
            for _ in range(missing):
                runner = threading.Thread(target=self.run, daemon=True)
                try:
                    runner.start()
                except RuntimeError as error:  # the system gives no more threads
                    self.lack = error
                    return
                self.runners.append(runner)

    def _enqueue(self, jobs: list[RunningJob]) -> None:
        self._queue.extend(jobs)
        with self._arrived:
            self._arrived.notify(min(self._runners_waiting, len(jobs)))

    def collect(self, timeout_seconds: float) -> list[Done]:
        """The jobs done since the last call; waits for something to happen, up to ``timeout_seconds``."""
        if timeout_seconds > 0 and not self._done and not self._asked:
            with self._happened:
                self._loop_waits = True
                if not self._done and not self._asked and not self._nudged:
                    self._happened.wait(timeout_seconds)
                self._loop_waits = self._nudged = False
        done = [self._done.popleft() for _ in range(len(self._done))]
        done = [one for one in done if not one[0].abandoned]
        self._in_hand.difference_update(job for job, _ in done)
        return done

    def nudge(self) -> None:
        """Ends the loop's wait, the present one or the next: something happened elsewhere. From any thread."""
        with self._happened:
            self._nudged = True
            self._happened.notify()

    def asked(self) -> list[tuple[Question, "Future[Any]"]]:
        """The handlers that wait for the results of their job's dependencies, and what they ask for."""
        return [self._asked.popleft() for _ in range(len(self._asked))]

    def take_stale(self, claimed_before: float) -> list[RunningJob]:
        """Takes jobs out of the queue that have not started and were claimed before a time."""
        if not self._queue or self.oldest_claimed_at() >= claimed_before:
            return []
        waiting = []
        try:
            while True:
                waiting.append(self._queue.popleft())
        except IndexError:
            pass  # emptied until it fails: the runners take from it too, so its length is no guide
        self._enqueue([job for job in waiting if job.claimed_at >= claimed_before])
        stale = [job for job in waiting if job.claimed_at < claimed_before]
        self._in_hand.difference_update(stale)
        return stale

    def abandon_overdue(self, now: float) -> list[RunningJob]:
        """Gives up on handlers that ran past their timeout; their results will be ignored."""
        overdue = [job for job in self._running() if job.ends_by <= now]
        for job in overdue:
            job.abandoned = True
        self._in_hand.difference_update(overdue)
        self._abandoned += overdue
        return overdue

    def close(self) -> None:
        """Lets the runners go once the queue is empty."""
        self._open = False
        with self._arrived:
            self._arrived.notify_all()

    def join(self) -> None:
        """Waits until the runners have gone, after `close`."""
        for runner in self.runners:
            runner.join()

    @property
    def waiting(self) -> int:
        """The number of jobs in the queue."""
        return len(self._queue)

    @property
    def in_hand(self) -> int:
        """The number of jobs in the queue, running, or done and not collected; without the abandoned ones."""
        return len(self._in_hand)

    def jobs(self) -> list[RunningJob]:
        """All jobs in hand, and the abandoned ones."""
        return [*self._in_hand, *self._abandoned]

    def abandoned(self) -> list[RunningJob]:
        """The jobs whose handlers ran past their time and still run."""
        return self._abandoned

    def oldest_claimed_at(self) -> float:
        """The time at which the first job of the queue was claimed; infinity if none waits."""
        try:
            return self._queue[0].claimed_at
        except IndexError:
            return float("inf")

    def first_deadline(self) -> float:
        """The time at which the first running handler reaches its timeout; infinity if none runs."""
        return min((job.ends_by for job in self._running()), default=float("inf"))

    def watched_deadline(self) -> float:
        """`first_deadline`; or no time at all, if the only handlers that run are those that were given up."""
        return -math.inf if self._abandoned and not self._running() else self.first_deadline()

    def available_runners(self, started_after: float) -> int:
        """The number of runners that are idle or began their job after ``started_after``."""
        stuck = sum(job.started_at < started_after for job in self._running())
        return self.concurrency - stuck - len(self._abandoned)

    def _running(self) -> list[RunningJob]:
        return [job for job in tuple(self._started) if not job.abandoned]

    # ===== the runners' side =====

    def run(self) -> None:
        """Runs jobs until the pool is closed; an event loop of this thread's own serves async handlers.

        The event loop is made for the first job: made earlier, it would delay the first claim.
        """
        resolver = Resolver()
        resolve = resolver.resolve
        seconds = math.inf
        while (job := self._next()) is not None:
            self._started.add(job)
            if seconds > SPOIL_SECONDS:  # of the job before
                resolver.prepare()
            outcome = copy_context().run(self._execute, job, resolve)  # a job's context variables end with it
            job.seconds = seconds = time.monotonic() - job.started_at
            self._started.discard(job)
            if not job.abandoned:
                self._done.append((job, outcome))
                self._wake_loop()
        resolver.close()

    def ask(self, job_id: UUID, parent_id: UUID | None = None) -> Any:
        """The results of a job's dependencies, or of one, fetched by the loop; RuntimeError in a child process."""
        if fork.generation != self._generation:
            raise RuntimeError("a child process has no dependency_results: read them before it is forked")
        future: Future[Any] = Future()
        self._asked.append(((job_id, parent_id), future))
        self._wake_loop()
        return future.result()

    def _next(self) -> RunningJob | None:
        while True:
            try:
                job = self._queue.popleft()
            except IndexError:
                with self._arrived:
                    while not self._queue:
                        if not self._open:
                            return None
                        self._runners_waiting += 1
                        self._arrived.wait()
                        self._runners_waiting -= 1
            else:
                job.started_at = time.monotonic()
                return job

    def _wake_loop(self) -> None:
        # With the lock held, the loop sets `_loop_waits` and then looks once more: it cannot miss this job.
        if self._loop_waits:
            with self._happened:
                self._loop_waits = False  # one notification suffices: hundreds of jobs may end before the loop runs
                self._happened.notify()
