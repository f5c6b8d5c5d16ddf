"""The worker's loop: one thread talks to the database while the pool's threads run handlers.

`dilamme.worker.state` has its state, with a diagram. Each turn

1. waits until a job has ended, a handler asks for something, or a time has come (`_wait_seconds`);
2. returns the jobs that have waited too long for a runner, and gives up on handlers that ran past their timeout (`_watch`);
3. talks to the database (`_talk`): settles the ended jobs, takes prefetched ones, answers handlers, claims more.

A connection that is lost in step 3 costs that turn and nothing else: the ended jobs stay in `Settling`, the claims in the
pool, and the next turn begins on a new connection. The loop is over when the worker leaves and nothing is in hand. A
connection that is lost after that ends the invocation with an error: the platform reports it, and the rescue frees the slot.

River's producer is the nearest relative. It polls for work; this loop ends, since a function's life costs money. It has a
completer of its own; this loop settles between two claims, which needs one connection less.
"""

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

from dilamme.domain.errors import DatabaseUnavailable
from dilamme.domain.job import Reason
from dilamme.domain.outcome import Complete, Outcome, Return, after_failure
from dilamme.domain.worker_event import WorkerEvent
from dilamme.handlers.context import Context
from dilamme.store import dependencies, lanes, slots
from dilamme.store.connection import Connection
from dilamme.store.reconnecting import Reconnecting
from dilamme.usecases.settle import End, settle
from dilamme.usecases.wake import wake_worker
from dilamme.worker.claiming import LOST, POLL_SECONDS, Claiming
from dilamme.worker.execute import CHANCE, execute, failed
from dilamme.worker.job_lines import log_jobs
from dilamme.worker.resolver import NoEventLoop, Resolver
from dilamme.worker.settling import Settling
from dilamme.worker.state import State
from dilamme.worker.thread_pool import RunningJob, ThreadPool
from dilamme.worker.worker import Worker

logger = logging.getLogger("dilamme.drain")

RETRY_SECONDS = 0.2  # before the turn after a lost connection
RESULTS_CHARACTERS_MAX = 4_000_000  # of a job's dependencies, fetched together; what is more comes one by one


class Loop:
    """A worker in its slot, whose token is ``token``."""

    def __init__(self, connection: Connection, worker: Worker, token: UUID) -> None:
        settings = worker.settings
        self.pool = ThreadPool(settings.worker_concurrency, self._run_job)
        self.state = State()
        self.settling = Settling(settings, self.state, worker.observe)
        self.claiming = Claiming(worker, token, self.state, self.pool, self.settling)
        self._database = Reconnecting(connection, worker.reconnect, self._reconnected)
        self._worker = worker
        self._settings = settings
        self._policy = settings.policy
        self._token = token
        self._watchdog = worker.watchdog
        # A runner sets it before it starts the first handler. Two runners may see False at once and both start: harmless.
        self._any_started = False
        self._any_failed = False  # since the last look at what the process lacks

    def start(self, event: WorkerEvent) -> bool:
        """Takes the slot and the first jobs: those that the event names, else the most urgent. False if it is not ours."""
        if not event.ids or event.ticked_at is None:
            return self.claiming.start(self._database, event.slot)
        if not slots.start(self._database.connection, event.slot, self._token, self._worker.hold_seconds()):
            return False
        ids, ticked_at = event.ids, event.ticked_at
        self._database.attempt(lambda: self.claiming.claim_handed(self._database.connection, ids, ticked_at), LOST)
        return True

    def run(self) -> None:
        """Drains until the worker leaves and nothing is in hand; then frees the slot."""
        while not (self.state.leaving and self.claiming.is_idle):
            ended = self.pool.collect(self._wait_seconds())
            self._worker.durations.record(
                (job.claim.type, job.seconds) for job, outcome in ended if not isinstance(outcome, Return)
            )
            self.settling.unsettled += ended
            if self._any_failed and self.pool.lack is None:
                self._any_failed = False
                self.pool.lack = _lack()
            self._watch()
            if not self._database.attempt(self._talk, LOST):
                if self._worker.handler_seconds() < 0:
                    raise DatabaseUnavailable("the database was lost, and no time is left to reconnect")
                time.sleep(RETRY_SECONDS)
        self._shut_down()

    def _wait_seconds(self) -> float:
        """The seconds until the loop's next work, unless a handler ends, asks for something, or a prefetch arrives."""
        if self.settling.unsettled or (self.claiming.is_idle and not self.state.leaving):
            return 0.0
        now = time.monotonic()
        stale_at = self.pool.oldest_claimed_at() + self._settings.batch_wait_seconds
        # Also while leaving: a job that a runner is just taking stands for a moment neither in the queue nor among the
        # started jobs, so that the two other times do not know it.
        poll_at = now + POLL_SECONDS
        return max(0.001, min(stale_at, self.pool.first_deadline(), poll_at) - now)

    def _watch(self) -> None:
        """Gives up on handlers that ran past their timeout, and returns the jobs that have waited too long."""
        now = time.monotonic()
        if overdue := self.pool.abandon_overdue(now):
            logger.error(
                "handler past its timeout: this process will end",
                extra={"job_ids": [str(job.claim.id) for job in overdue]},
            )
            self.state.relieve()
        if self.pool.lack is not None and not self.state.relieved:
            logger.error("this process lacks what handlers need, and will end", extra={"error": str(self.pool.lack)})
            self.state.relieve()
        stale = self.pool.take_stale(now if self.state.leaving else now - self._settings.batch_wait_seconds)
        self.settling.unsettled += [(job, Return()) for job in stale]

    def _talk(self) -> None:
        """The turn's work with the database, in the order of urgency: others wait for the ended jobs, so these come first."""
        connection = self._database.connection
        if self.settling.unsettled:
            self.settling.settle_ended(connection)
        self.claiming.take_prefetched(connection)
        for (job_id, parent_id), future in self.pool.asked():
            try:
                if parent_id is None:
                    future.set_result(dependencies.dependency_results(connection, job_id, RESULTS_CHARACTERS_MAX))
                else:
                    future.set_result(dependencies.dependency_result(connection, job_id, parent_id))
            except Exception as error:
                future.set_exception(error)  # the handler may retry or fail
        if not self.state.leaving:
            self.claiming.claim_more(connection)
            self.claiming.call_for_help(connection)

    def _run_job(self, job: RunningJob, resolve: Callable[[Any], Any]) -> Outcome:
        """Runs a handler, in a runner's thread."""
        claim = job.claim
        if self.settling.is_full:
            self.settling.wait_for_room()
            job.started_at = time.monotonic()
        try:
            room = self._worker.handler_seconds()
            timeout = self._policy.timeout(job.job_type)
            needs = self._worker.durations.high_seconds(claim.type) or timeout
            # A fresh worker's first job always starts: no other worker would have more time for it.
            if self.state.leaving or (needs > room and (self._any_started or room <= 0)):
                self.state.relieve()
                return Return()
            self._any_started = True
            job.ends_by = job.started_at + min(timeout, room)
            if self._watchdog is not None and job.ends_by < self._watchdog.expects:
                self._watchdog.expect(job.ends_by)
            context = Context(claim, job.ends_by, self.pool.ask)
            outcome = execute(claim, job.job_type, context, resolve, self._policy)
            if context.connections is not None:
                context.close()
        except NoEventLoop as error:
            self.pool.lack = error
            # It worked before: a neighbour has spoilt the process, and a fresh one will do better. If it never worked, the
            # attempt has failed: returned, the job would come back for ever.
            return Return() if Resolver.has_worked else failed(claim, error, self._policy)
        except BaseException as error:  # else it would end the runner's thread, and its job would run into the timeout
            return failed(claim, error, self._policy)
        if outcome.__class__ is Complete:
            if outcome.result is not None:
                self.settling.note_large(claim, outcome)
        elif outcome.__class__ is not Return:
            self._any_failed = True
        return outcome

    def _reconnected(self) -> None:
        connection = self._database.connection
        self.claiming.recover(connection)
        if not slots.holds(connection, self._token):
            # The slot was freed just before, by us or by a rescue: finish the jobs in hand, and claim no more.
            self.state.relieve()

    def give_up(self) -> None:
        """Ends the worker's work after an error that it cannot handle. What has not started is returned, if that is possible."""
        if unstarted := self.pool.take_stale(math.inf):
            with suppress(Exception):  # the connection may be what failed: then the rescue frees them
                settle(self._database.connection, [(job.claim, Return()) for job in unstarted])
                unstarted = []
        self.pool.close()
        if self.claiming.prefetch.close() or unstarted or self.pool.jobs() or self.pool.lack is not None:
            # Handlers are running. A thread cannot be killed; if this call returned, it would run on in the next
            # invocation. So the process ends: the platform reports the loss, and the rescue frees our jobs.
            self._worker.end_process(1)

    def _shut_down(self) -> None:
        """Frees the slot; wakes a fresh worker if work is left; ends the process if a handler still runs."""
        connection = self._database.connection
        self.claiming.prefetch.close()
        if self.claiming.recovered:
            self.claiming.return_unheard(connection)
        slots.free(connection, [self._token])
        if self.state.relieved and lanes.work_left(connection):
            wake_worker(connection, self._settings)
        if abandoned := self.pool.abandoned():
            self._end_with(abandoned)
        elif self.pool.lack is not None:
            self._worker.end_process(1)
        self.pool.close()

    def _end_with(self, abandoned: Sequence[RunningJob]) -> None:
        """Records the timeouts and ends the process, with the handlers that run on."""
        ends: list[End] = []
        for job in abandoned:
            seconds = job.ends_by - job.started_at
            message = f"the handler was still running after {seconds:g} s: its process was ended"
            backoff = self._policy.backoff(job.job_type)
            ends.append((job.claim, after_failure(job.claim, Reason.TIMEOUT, message, backoff, CHANCE())))
        done = settle(self._database.connection, ends).done
        if self._settings.log_jobs:
            log_jobs([(job, outcome) for job, (_, outcome) in zip(abandoned, ends, strict=True)], done)
        # No worker is woken from here: during a slow invoke the retry could begin beside the handler that still runs. The
        # platform reports this process's end, and the rescue then wakes a worker.
        self.settling.observe(
            [(job.claim, outcome) for job, (_, outcome) in zip(abandoned, ends, strict=True) if job.claim.id in done]
        )
        self._worker.end_process(1)


def _lack() -> Exception | None:
    """Why this process can open no file or start no thread any more, if so. Asked after a failure, which that may have caused."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
        threading.Thread(target=int, daemon=True).start()
    except (OSError, RuntimeError) as error:
        return error
    return None
