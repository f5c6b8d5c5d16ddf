"""Decide when a worker claims, how many jobs, and on which connection."""

import logging
import time
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from uuid import UUID, uuid4

import psycopg

from dilamme.domain.batch_size import BATCH_CHARACTERS_MAX, BatchSize
from dilamme.domain.job import Claim
from dilamme.domain.outcome import Return
from dilamme.handlers.registry import JobType
from dilamme.store import claims, lanes, slots
from dilamme.store.connection import Connection
from dilamme.store.reconnecting import Reconnecting
from dilamme.usecases.settle import settle
from dilamme.usecases.wake import wake_scheduler
from dilamme.worker.execute import unknown_type
from dilamme.worker.prefetch import DEPTH, Prefetch
from dilamme.worker.settling import Settling
from dilamme.worker.state import State
from dilamme.worker.thread_pool import RunningJob, ThreadPool
from dilamme.worker.worker import Worker

logger = logging.getLogger("dilamme.drain")

LOST = "database lost"  # the line in the log
POLL_SECONDS = 0.2  # between claims while some runners are idle and others busy
LOOK_AGAIN_MAX = 5  # empty claims in a row while others hold the work locked

_UNKNOWN = JobType("unknown", lambda payload, context: None)


class Claiming:
    """Fills the pool with claimed jobs, as many as it gets through before the last of them has waited too long.

    A claim of few jobs is made on the loop's connection. In a deep backlog of short jobs the next claims are prefetched on
    a second one, while the loop settles.
    """

    def __init__(self, worker: Worker, token: UUID, state: State, pool: ThreadPool, settling: Settling) -> None:
        settings = worker.settings
        self.batch_size = BatchSize(worker.durations, settings.batch_wait_seconds, settings.batch_jobs_max)
        self.batch_size.fit(pool.concurrency)
        self.prefetch = Prefetch(worker.connect, pool.nudge)
        self._worker = worker
        self._settings = settings
        self._unread = worker.registry.unread
        self._token = token
        self._state = state
        self._pool = pool
        self._settling = settling
        self.recovered = False  # a connection was lost: a COMMIT that was under way then may still come through
        self._quiet_until = 0.0
        self._empty_looks = 0
        self._kept_up_at = time.monotonic()  # the last time at which a claim took all ready jobs

    @property
    def is_idle(self) -> bool:
        """Is no claimed job in hand, and no claim under way?"""
        return not self._pool.in_hand and not self._settling.unsettled and not self.prefetch.under_way

    def terms(self, *, idle: bool) -> lanes.Terms:
        """The terms of the next claim. An ``idle`` worker may take a job on its last attempt."""
        settings = self._settings
        return lanes.Terms(
            worker=self._token,
            limit=self.batch_size.limit,
            reach=self.batch_size.reach,
            idle=idle,
            lease_seconds=self._worker.hold_seconds(),
            ageing_seconds=settings.ageing_seconds,
            max_attempts=settings.max_attempts,
            characters=BATCH_CHARACTERS_MAX,
            unread=self._unread,
        )

    def start(self, database: Reconnecting, slot: int) -> bool:
        """Takes the slot and the first jobs in one statement. False if the slot is not ours."""
        fence = uuid4()
        try:
            claimed = lanes.start_and_claim(database.connection, self.terms(idle=True), fence, slot)
        except psycopg.OperationalError as error:
            if error.sqlstate is not None:
                raise  # PostgreSQL's own word that nothing came of it
            # The reply may be lost although the claim came through. The jobs under its fence are ours. Other jobs under our
            # token may belong to a twin, a worker that was started by the same event.
            database.replace()
            held = claims.held_by(database.connection, self._token, self._settings.policy)
            unheard = [(job, Return()) for job in held if job.token == fence]
            if not unheard:
                raise
            settle(database.connection, unheard)
            self.recovered = True
            return True
        if claimed is not None:
            database.attempt(lambda: self.take(database.connection, claimed, idle=True), LOST)
        return claimed is not None

    def claim_handed(self, connection: Connection, ids: Sequence[UUID], ticked_at: datetime) -> None:
        """Claims the jobs that the scheduler's heap chose for this worker."""
        fresh_seconds = self._settings.tick_seconds
        self._add(lanes.claim_handed(connection, self.terms(idle=True), uuid4(), ids, ticked_at, fresh_seconds))

    def claim_more(self, connection: Connection) -> None:
        """Claims more if the pool will soon need it; starts to leave when the time is up or nothing is left."""
        now = time.monotonic()
        idle = self.is_idle
        if self._worker.handler_seconds() <= 0:
            self._state.relieve()
            return
        # A job on its last attempt is claimed when nothing else is in hand, and nothing is claimed beside it: if another
        # job ended the process, this one would be dead.
        alone = self._pool.in_hand == 1 and any(job.claim.last_attempt for job in self._pool.jobs())
        if self.prefetch.under_way >= DEPTH or (not idle and (now < self._quiet_until or alone)):
            return
        runners = self._pool.available_runners(now - self._settings.batch_wait_seconds / 2)
        size = self.batch_size
        size.fit(runners)
        enough = size.limit if size.deep else size.limit // 2
        if runners <= 0 or self._pool.waiting > enough:
            return
        if not self.prefetch.under_way and (idle or not size.deep):
            self.take(connection, lanes.claim(connection, self.terms(idle=idle), uuid4()), idle=idle)
        depth = DEPTH if size.whole else 1
        while size.deep and self.prefetch.under_way < depth:
            self.prefetch.begin(partial(lanes.claim, terms=self.terms(idle=False), token=uuid4()))

    def take(self, connection: Connection, claimed: Sequence[Claim], *, idle: bool) -> None:
        """Puts the jobs of a claim into the pool, and learns from it how large the next one should be."""
        self._add(claimed)
        if self.batch_size.learn(claimed):
            self._kept_up_at = time.monotonic()
        if claimed:
            self._empty_looks = 0
        elif not idle:
            self._quiet_until = time.monotonic() + POLL_SECONDS
        else:
            self._look_again(connection)

    def _add(self, claimed: Sequence[Claim]) -> None:
        now = time.monotonic()
        jobs = []
        for claim in claimed:
            job_type = self._worker.registry.find(claim.type)
            newer = claim.payload_version is not None and job_type and claim.payload_version > job_type.version
            if job_type is None or newer:
                what = f"version {claim.payload_version} of " if newer else ""
                outcome = unknown_type(claim, self._settings, claim.started_at, what)
                logger.error("no handler for %sjob type", what, extra={"job_type": claim.type, "job_id": str(claim.id)})
                self._settling.unsettled.append((RunningJob(claim, _UNKNOWN, now), outcome))
            else:
                jobs.append(RunningJob(claim, job_type, now))
        self._pool.add(jobs)

    def _look_again(self, connection: Connection) -> None:
        """Frees the slot, commits, then looks once more.

        In this order no job is left alone: whoever posts one after our look finds the slot free and wakes a worker.
        """
        slots.free(connection, [self._token])
        self._empty_looks += 1
        if not lanes.work_left(connection):
            self._state.leave()
            return
        # There is work, but others hold it locked: a rival that is claiming, or a caller who is adding children. Look
        # further down the lanes, a little later. Jobs that are still locked then are left to the next tick.
        if self._empty_looks > LOOK_AGAIN_MAX or not slots.retake(
            connection, self._token, self._settings.worker_slots, self._worker.hold_seconds()
        ):
            self._state.leave()
            wake_scheduler(connection, self._settings)
            return
        self.batch_size.look_further()
        time.sleep(0.005 * self._empty_looks)

    def take_prefetched(self, connection: Connection) -> None:
        """Puts prefetched jobs into the pool, if a fetch has ended."""
        try:
            claimed = self.prefetch.take()
        except Exception as error:
            # The server has too many connections, or this one was lost; or users' code has spoilt something that opening
            # one needs. The loop's own connection claims again.
            logger.warning("prefetch failed", extra={"error": str(error)})
            self.batch_size.deep = False
            self.recover(connection)
            return
        if claimed is not None:
            self.take(connection, claimed, idle=False)

    def recover(self, connection: Connection) -> None:
        """Puts right the claims after a lost connection: takes the known ones, and returns the unknown ones.

        The reply to a claim's COMMIT may be lost with the connection. Its jobs are then running under our token, but in no
        thread: nobody would free them before their lease runs out.
        """
        self.recovered = True
        self._add(self.prefetch.close())
        self.return_unheard(connection)

    def return_unheard(self, connection: Connection) -> None:
        """Returns the claims under our token that are neither in the pool nor ended: no thread will run them."""
        heard_of = {job.claim.id for job in (*self._pool.jobs(), *(job for job, _ in self._settling.unsettled))}
        held = claims.held_by(connection, self._token, self._settings.policy)
        if unheard := [(job, Return()) for job in held if job.id not in heard_of]:
            settle(connection, unheard)

    def call_for_help(self, connection: Connection) -> None:
        """Wakes a scheduler if this worker needs longer than a tick for the ready jobs: it can invoke more workers."""
        now = time.monotonic()
        if now - self._kept_up_at >= self._settings.tick_seconds:
            self._kept_up_at = now
            wake_scheduler(connection, self._settings)
