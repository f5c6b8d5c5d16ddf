"""A worker's life: claim, run and settle jobs until none is left or the time runs out."""

import logging
import threading
from contextlib import suppress
from dataclasses import dataclass

import psycopg

from dilamme.domain.worker_event import NO_SLOT, WorkerEvent
from dilamme.store.connection import Connection
from dilamme.usecases.wake import wake_scheduler
from dilamme.worker.loop import Loop
from dilamme.worker.worker import Worker

logger = logging.getLogger("dilamme.drain")


@dataclass(frozen=True, slots=True)
class Drained:
    """Whether a worker had a slot to work in, and how many jobs it settled."""

    admitted: bool
    settled: int = 0


def drain(connection: Connection, worker: Worker, event: WorkerEvent) -> Drained:
    """Works in the slot of ``event`` until nothing is left or the time is up.

    If the event came twice or too late, its slot is taken, or free again: then nothing is claimed.
    """
    loop = Loop(connection, worker, event.token)
    try:
        if worker.watchdog is not None:  # it begins in a thread of its own, while the first claim is on its way
            worker.watchdog.watch(loop.pool.watched_deadline, worker.longest_seconds())
        if not loop.start(event):
            if event.slot == NO_SLOT:
                return Drained(admitted=False)
            logger.info("slot not ours: a doubled or late event", extra={"slot": event.slot})
            try:
                # If a crash of the server lost our reservation, nobody may be left to run its job: make sure that
                # somebody leads.
                wake_scheduler(connection, worker.settings)
            except psycopg.Error as error:
                # The report of a failed invocation would free the jobs of a twin of this event, which is at work.
                logger.warning("no look for a leader", extra={"error": str(error)})
            return Drained(admitted=False)
        if loop.pool.concurrency == 1:
            _run_inline(loop)
        else:
            loop.run()
            loop.pool.join()
    except BaseException:
        with suppress(Exception):  # logging is shared with users' code: nothing may keep us from giving up
            logger.exception("worker failed")
        loop.give_up()
        raise
    finally:
        if worker.watchdog is not None:
            worker.watchdog.rest()
    return Drained(admitted=True, settled=loop.settling.settled)


def _run_inline(loop: Loop) -> None:
    """Runs handlers in this thread and the loop in another one: the loop must be able to give up on a handler."""
    failure: list[BaseException] = []

    def run() -> None:
        try:
            loop.run()
        except BaseException as error:
            failure.append(error)
            loop.give_up()

    thread = threading.Thread(target=run, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:  # the system gives no more threads: the next invocation would fare no better
        loop.pool.lack = error
        raise
    loop.pool.run()
    thread.join()
    if failure:
        raise failure[0]
