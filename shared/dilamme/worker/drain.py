"""A worker's life: claim, run, settle, until nothing is left or its time runs out.

One thread, the controller, does what touches the database; the crew's threads run handlers. While they run, the
controller claims ahead, on a second connection where a backlog of short jobs would wait for the first, and whatever has
ended since its last round trip is settled in one.
"""

import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import psycopg

from dilamme.domain.batch_size import Appetite
from dilamme.domain.durations import Pace
from dilamme.domain.errors import DatabaseUnavailable
from dilamme.domain.job import Claim, Held, Reason
from dilamme.domain.outcome import HandBack, Outcome, after_failure
from dilamme.handlers.registry import JobType, Registry
from dilamme.settings import Settings
from dilamme.store import claims as settle_store
from dilamme.store import lanes, slots
from dilamme.store.connection import Connection
from dilamme.usecases import rescue, wake
from dilamme.usecases.settle import Settled, Settlement, settle
from dilamme.worker import execute
from dilamme.worker.prefetch import DEPTH, Ahead, Fetch
from dilamme.worker.thread_pool import Crew, Done, Ticket

logger = logging.getLogger("dilamme.drain")

POLL_SECONDS = 0.2  # while some runners are idle and others busy
LOOK_AGAIN_MAX = 5  # empty claims in a row, while there is work that others hold locked

_UNKNOWN = JobType("unknown", lambda payload, context: None)

Observe = Callable[[Sequence[tuple[Claim, Outcome]]], None]


@dataclass(frozen=True, slots=True)
class WorkerEvent:
    """What a worker is invoked with: its slot, and the ids that the scheduler's heap chose."""

    slot: int
    token: UUID
    ids: list[UUID]
    ticked_at: datetime | None


@dataclass(frozen=True, slots=True)
class Worker:
    """What a worker works with. ``remaining_seconds`` is what the platform leaves it, to the kill."""

    settings: Settings
    registry: Registry
    pace: Pace
    remaining_seconds: Callable[[], float]
    reconnect: Callable[[], Connection]
    connect: Callable[[], Connection]  # one more, beside the first
    observe: Observe = lambda settled: None
    end_process: Callable[[int], Any] = os._exit


@dataclass(slots=True)
class Drained:
    """What a worker did: jobs settled by it, and whether it had a slot to work in at all."""

    admitted: bool
    settled: int = 0


def drain(connection: Connection, worker: Worker, event: WorkerEvent) -> Drained:
    """Works in the slot of ``event`` until nothing is left or the time is up.

    An event that came twice, or too late, finds its slot taken, or free again: nothing is claimed.
    """
    controller = _Controller(connection, worker, event.token)
    try:
        if not controller.start(event):
            logger.info("slot not ours: a doubled or late event", extra={"slot": event.slot})
            _see_to_a_leader(connection, worker.settings)
            return Drained(admitted=False)
        _with_crew(controller)
    except BaseException:
        logger.exception("worker failed")
        controller.give_up()
        raise
    return controller.drained


def _see_to_a_leader(connection: Connection, settings: Settings) -> None:
    """What the event was sent for may have nobody else, where a crash of the server forgot the invitation."""
    try:
        wake.wake_leader(connection, settings)
    except psycopg.Error as error:
        # The report of a failed invocation would take from a twin of this event what it is working on.
        logger.warning("no look for a leader", extra={"error": str(error)})


def _with_crew(controller: "_Controller") -> None:
    if controller.crew.concurrency == 1:
        _inline(controller)
        return
    controller.run()
    controller.crew.join()


def _inline(controller: "_Controller") -> None:
    """Handlers in this thread, the controller in another: so it can still keep their time."""
    failure: list[BaseException] = []

    def control() -> None:
        try:
            controller.run()
        except BaseException as error:
            failure.append(error)
            controller.give_up()

    thread = threading.Thread(target=control, daemon=True)
    thread.start()
    controller.crew.work()
    thread.join()
    if failure:
        raise failure[0]


@dataclass(slots=True)
class _Controller:
    connection: Connection
    worker: Worker
    token: UUID
    drained: Drained = field(default_factory=lambda: Drained(admitted=True))
    unsettled: list[Done] = field(default_factory=list)
    locked: set[UUID] = field(default_factory=set)  # of the unsettled, those that somebody else held locked
    leaving: bool = False
    relieved: bool = False  # leaves with work undone, so a fresh worker is asked for
    started_any: bool = False
    reconnected: bool = False
    quiet_until: float = 0.0
    kept_up_at: float = field(default_factory=time.monotonic)  # when all that was ready was in our hands
    empty_looks: int = 0
    appetite: Appetite = field(init=False)
    crew: Crew = field(init=False)
    ahead: Ahead = field(init=False)

    def __post_init__(self) -> None:
        settings = self.worker.settings
        self.appetite = Appetite(self.worker.pace, settings.batch_wait_seconds, settings.batch_jobs_max)
        self.crew = Crew(settings.worker_concurrency, self._execute)
        self.ahead = Ahead(self.worker.connect, self.crew.nudge)

    def give_up(self) -> None:
        """After an error that nothing here can put right."""
        self.crew.close()
        if self.ahead.close() or self.crew.tickets():
            # Handlers are running: a thread cannot be killed, and one that survives our return would be thawed in the
            # next invocation. The platform reports the loss, and the rescue frees what we hold.
            self.worker.end_process(1)

    # ===== the start =====

    def start(self, event: WorkerEvent) -> bool:
        """Takes the slot, and with it the first jobs: those that the event names, or the most urgent."""
        self.appetite.fit(self.crew.concurrency)
        if event.ids and event.ticked_at is not None:
            if not slots.start(self.connection, event.slot, self.token, self._hold_seconds()):
                return False
            self._survive(partial(self._claim_handed, event.ids, event.ticked_at))
            return True
        fence = uuid4()
        try:
            claims = lanes.start_and_claim(self.connection, self._terms(idle=True), fence, event.slot)
        except psycopg.OperationalError as error:
            if error.sqlstate is not None:
                raise  # PostgreSQL's own word that nothing came of it
            # The reply may be lost and not the claim. Under its fence it is ours; the rest may be a twin's of this event.
            self.connection = self.worker.reconnect()
            unheard = [held for held in self._carried() if held.token == fence]
            if not unheard:
                raise
            self._hand_back(unheard)
            self.reconnected = True
            return True
        if claims is not None:
            self._survive(partial(self._claimed, claims, idle=True))
        return claims is not None

    # ===== the loop =====

    def run(self) -> None:
        while not (self.leaving and self._idle()):
            self._settle(self.crew.collect(self._patience()))
            self._survive(self._take_ahead)
            self._answer()
            self._watch()
            if not self.leaving:
                self._survive(self._claim_more)
                self._survive(self._call_for_help)
        self._leave()
        self.crew.close()

    def _idle(self) -> bool:
        """Is nothing claimed, nor about to be?"""
        return not self.crew.in_hand and not self.unsettled and not self.ahead.under_way

    def _patience(self) -> float:
        """How long there is nothing to do unless a handler ends or a fetch arrives."""
        if self.unsettled or (self._idle() and not self.leaving):
            return 0.0
        now = time.monotonic()
        stale_at = self.crew.oldest_claimed_at() + self.worker.settings.batch_wait_seconds
        poll_at = now + POLL_SECONDS  # also while leaving: a runner may be between its start and the note of its end
        return max(0.001, min(stale_at, self.crew.first_end(), poll_at) - now)

    def _watch(self) -> None:
        """Hands back what has waited too long, and gives up on handlers that ran past their time."""
        now = time.monotonic()
        patience = self.worker.settings.batch_wait_seconds
        if overdue := self.crew.abandon(now):
            logger.error(
                "handler past its timeout: this process will end", extra={"job_ids": [str(t.claim.id) for t in overdue]}
            )
            self.leaving = self.relieved = True
        stale = self.crew.withdraw(now if self.leaving else now - patience)
        self.unsettled += [(ticket, HandBack()) for ticket in stale]

    def _answer(self) -> None:
        for job_id, future in self.crew.asked():
            try:
                future.set_result(settle_store.dependency_results(self.connection, job_id))
            except Exception as error:
                future.set_exception(error)

    # ===== claiming =====

    def _claim_more(self) -> None:
        now = time.monotonic()
        idle = self._idle()
        if self._room() <= 0:
            self.leaving = self.relieved = True
            return
        if self.ahead.under_way >= DEPTH or (not idle and (now < self.quiet_until or self._alone())):
            return
        nimble = self.crew.nimble(now - self.worker.settings.batch_wait_seconds / 2)
        appetite = self.appetite
        appetite.fit(nimble)
        enough = appetite.most if appetite.deep else appetite.most // 2
        if nimble <= 0 or self.crew.waiting > enough:
            return
        if not self.ahead.under_way and (idle or not appetite.deep):
            self._claimed(self._fetch(idle)(self.connection), idle)
        depth = DEPTH if appetite.whole else 1
        while appetite.deep and self.ahead.under_way < depth:
            self.ahead.begin(self._fetch(idle=False))

    def _fetch(self, idle: bool) -> Fetch:
        return partial(lanes.claim, terms=self._terms(idle), token=uuid4())

    def _claimed(self, claims: Sequence[Claim], idle: bool) -> None:
        self._take(claims)
        if self.appetite.learn(claims):
            self.kept_up_at = time.monotonic()
        if claims:
            self.empty_looks = 0
        elif not idle:
            self.quiet_until = time.monotonic() + POLL_SECONDS
        else:
            self._look_again()

    def _take_ahead(self) -> None:
        try:
            claims = self.ahead.take()
        except (DatabaseUnavailable, psycopg.Error) as error:
            # Too many connections, or this one was lost: the first one claims again.
            logger.warning("claiming ahead failed", extra={"error": str(error)})
            self._take(self.ahead.close())
            self.appetite.deep, self.reconnected = False, True
            self._hand_back_unheard()
        else:
            if claims is not None:
                self._claimed(claims, idle=False)

    def _call_for_help(self) -> None:
        """What one worker does not get through in a tick is a scheduler's to share out: sees to it that one leads."""
        now = time.monotonic()
        if now - self.kept_up_at >= self.worker.settings.tick_seconds:
            self.kept_up_at = now
            wake.wake_leader(self.connection, self.worker.settings)

    def _alone(self) -> bool:
        # It was claimed while nothing was in hand, and nothing is claimed beside it.
        return self.crew.in_hand == 1 and any(ticket.claim.last_attempt for ticket in self.crew.tickets())

    def _terms(self, idle: bool) -> lanes.Terms:
        settings = self.worker.settings
        return lanes.Terms(
            worker=self.token,
            most=self.appetite.most,
            reach=self.appetite.reach,
            idle=idle,
            lease_seconds=self._hold_seconds(),
            ageing_seconds=settings.ageing_seconds,
            max_attempts=settings.max_attempts,
        )

    def _claim_handed(self, ids: Sequence[UUID], ticked_at: datetime) -> None:
        terms, fresh_seconds = self._terms(idle=True), self.worker.settings.tick_seconds
        self._take(lanes.claim_handed(self.connection, terms, uuid4(), ids, ticked_at, fresh_seconds))

    def _take(self, claims: Sequence[Claim]) -> None:
        now = time.monotonic()
        tickets = []
        for claim in claims:
            job_type = self.worker.registry.find(claim.type)
            if job_type is None:
                outcome = execute.unknown_type(claim, self.worker.settings, claim.started_at)
                logger.error("no handler for job type", extra={"job_type": claim.type, "job_id": str(claim.id)})
                self.unsettled.append((Ticket(claim, _UNKNOWN, now), outcome))
            else:
                tickets.append(Ticket(claim, job_type, now))
        self.crew.add(tickets)

    def _look_again(self) -> None:
        """Lets go of the slot, commits, then looks once more: whoever posts now finds the slot free and wakes a worker."""
        slots.free(self.connection, [self.token])
        settings = self.worker.settings
        self.empty_looks += 1
        if not lanes.work_left(self.connection):
            self.leaving = True
            return
        # There is work, but others hold it locked: a rival that is claiming, or a caller who is adding children. Look
        # further down the line, a little later. What is still locked then is left to the next tick, if somebody ticks.
        if self.empty_looks > LOOK_AGAIN_MAX or not slots.retake(
            self.connection, self.token, settings.worker_slots, self._hold_seconds()
        ):
            self.leaving = True
            wake.wake_leader(self.connection, settings)
            return
        self.appetite.look_further()
        time.sleep(0.005 * self.empty_looks)

    # ===== running (in the crew's threads) =====

    def _execute(self, ticket: Ticket, resolve: Callable[[Any], Any]) -> Outcome:
        settings = self.worker.settings
        try:
            room = self._room()
            timeout = execute.timeout_seconds(ticket.job_type, settings)
            needs = self.worker.pace.high_seconds(ticket.claim.type) or timeout
            # A fresh worker's first job always starts: if it does not fit here it fits nowhere.
            if self.leaving or (needs > room and (self.started_any or room <= 0)):
                self.leaving = self.relieved = True
                return HandBack()
            self.started_any = True
            ticket.ends_by = ticket.started_at + min(timeout, room)
            job_context = execute.JobContext(ticket.claim, ticket.ends_by, self.crew.ask)
            return execute.execute(ticket.claim, ticket.job_type, job_context, resolve, settings)
        except BaseException as error:  # it would end the runner's thread, and leave the job to its timeout
            return execute.failed(ticket.claim, error, settings)

    def _hold_seconds(self) -> float:
        """How long from now a slot, or a job, is ours: beyond the platform's kill."""
        return self.worker.remaining_seconds() + self.worker.settings.lease_margin_seconds

    def _room(self) -> float:
        """Seconds that handlers may still use."""
        return self.worker.remaining_seconds() - self.worker.settings.worker_reserve_seconds

    # ===== settling =====

    def _settle(self, fresh: Sequence[Done]) -> None:
        self.worker.pace.record((t.claim.type, t.seconds) for t, outcome in fresh if not isinstance(outcome, HandBack))
        self.unsettled += fresh
        if self.unsettled:
            self._survive(self._settle_all)

    def _settle_all(self) -> None:
        # What somebody held locked the last time is tried apart, one a round: it must not hold up the rest.
        held = [done for done in self.unsettled if done[0].claim.id in self.locked] if self.locked else []
        if held:
            self._settle_those(held[:1])
        if free := [done for done in self.unsettled if done[0].claim.id not in self.locked] if held else self.unsettled:
            self._settle_those(free)

    def _settle_those(self, those: Sequence[Done]) -> None:
        settled: list[tuple[Claim, Outcome]] = [(ticket.claim, outcome) for ticket, outcome in those]
        settlement = settle(self.connection, settled)
        self._wake_for(settlement)
        if len(settlement.done) == len(those) == len(self.unsettled):  # the rule; sorting out ids takes its time
            self.unsettled = []
            self.locked.clear()
            self._observe(settled)
        else:
            self._sort_out(those, settlement)

    def _sort_out(self, those: Sequence[Done], settlement: Settlement) -> None:
        ids = {ticket.claim.id for ticket, _ in those}
        self.locked = (self.locked - ids) | settlement.locked
        self.unsettled = [
            done for done in self.unsettled if done[0].claim.id not in ids or done[0].claim.id in settlement.locked
        ]
        self._observe([(ticket.claim, end) for ticket, end in those if ticket.claim.id in settlement.done])
        for job_id in ids - settlement.done - settlement.locked:
            logger.warning("claim is no longer ours, result dropped", extra={"job_id": str(job_id)})

    def _wake_for(self, settlement: Settlement) -> None:
        if settlement.due and self.leaving:  # not only at the end: what still runs here may take long
            wake.wake_worker(self.connection, self.worker.settings)
        if settlement.later:
            wake.wake_leader(self.connection, self.worker.settings)

    def _observe(self, settled: Sequence[tuple[Claim, Outcome]]) -> None:
        self.drained.settled += len(settled)
        self.worker.observe(settled)

    # ===== when the database goes away =====

    def _survive(self, step: Callable[[], None]) -> None:
        """Runs a step that talks to the database; on a lost connection, a new one, and then what is known is put right.

        The reply to a COMMIT may be lost with it. A settle is simply repeated: zero rows mean that it had worked. A
        claim that nobody heard of is handed back.
        """
        try:
            if self.connection.closed:
                self._reconnect()
            step()
        except (DatabaseUnavailable, psycopg.OperationalError) as error:
            logger.error("database lost", extra={"error": str(error)})
            self.connection.close()
            self.reconnected = True
            if self.worker.remaining_seconds() < self.worker.settings.worker_reserve_seconds:
                raise
            time.sleep(0.2)

    def _reconnect(self) -> None:
        self.connection = self.worker.reconnect()
        self._take(self.ahead.close())
        self._hand_back_unheard()
        if not slots.holds(self.connection, self.token):
            # We had just let go of it, or were given up for lost: finish what is in hand, and claim nothing more.
            self.leaving = self.relieved = True

    def _hand_back_unheard(self) -> None:
        known = {ticket.claim.id for ticket in self.crew.tickets()} | {ticket.claim.id for ticket, _ in self.unsettled}
        self._hand_back(held for held in self._carried() if held.id not in known)

    def _carried(self) -> list[Held]:
        return settle_store.carried_by(self.connection, self.token, rescue.defaults(self.worker.settings))

    def _hand_back(self, unheard: Iterable[Held]) -> None:
        if ends := [(held, HandBack()) for held in unheard]:
            settle(self.connection, ends)

    # ===== leaving =====

    def _leave(self) -> None:
        self.ahead.close()
        if self.reconnected:
            self._hand_back_unheard()  # a COMMIT under way when the connection broke may have come through since
        slots.free(self.connection, [self.token])
        if self.relieved and lanes.work_left(self.connection):
            wake.wake_worker(self.connection, self.worker.settings)
        if abandoned := [ticket for ticket in self.crew.tickets() if ticket.abandoned]:
            self._end_with(abandoned)

    def _end_with(self, abandoned: Sequence[Ticket]) -> None:
        """Records the timeouts and ends the process with the handlers that would not: nothing of them runs on."""
        settled: list[Settled] = []
        for ticket in abandoned:
            seconds = ticket.ends_by - ticket.started_at
            wait = execute.backoff(ticket.job_type, self.worker.settings)
            message = f"the handler was still running after {seconds:g} s: its process was ended"
            settled.append((ticket.claim, after_failure(ticket.claim, Reason.TIMEOUT, message, wait, random.random())))
        done = settle(self.connection, settled).done
        # Nobody is called from here: while a call hung, the retry could begin beside the handler that still runs. The
        # platform's report of this process's end brings whoever is needed.
        self.worker.observe(
            [(t.claim, end) for t, (_, end) in zip(abandoned, settled, strict=True) if t.claim.id in done]
        )
        self.worker.end_process(1)
