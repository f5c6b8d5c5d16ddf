"""The ended jobs of a worker, until they are settled."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

import psycopg

from dilamme.domain.job import Claim, Reason
from dilamme.domain.outcome import Complete, Outcome, after_failure
from dilamme.settings import Settings
from dilamme.store.connection import Connection
from dilamme.usecases.settle import settle
from dilamme.usecases.wake import wake_scheduler, wake_worker
from dilamme.worker.execute import CHANCE
from dilamme.worker.job_lines import log_jobs
from dilamme.worker.state import State
from dilamme.worker.thread_pool import Done

logger = logging.getLogger("dilamme.drain")

LARGE_CHARACTERS_MIN = 10_000
LARGE_CHARACTERS_MAX = 16_000_000  # of all large results that are not settled
End = tuple[Claim, Outcome]
Observe = Callable[[Sequence[End]], None]


class Settling:
    """Collects ended jobs, and settles together all that have ended since the last time.

    A lost connection loses nothing: jobs that were not settled stay here and are settled again. If the first try came
    through, the second one finds zero rows, and the jobs are dropped as done.
    """

    def __init__(self, settings: Settings, state: State, observe: Observe) -> None:
        self.unsettled: list[Done] = []
        self.settled = 0
        self._locked: set[UUID] = set()  # the unsettled jobs that somebody else held locked the last time
        self.is_full = False
        self._characters = 0  # of the large results that are not settled
        self._lock = threading.Lock()
        self._settings = settings
        self._state = state
        self._observe = observe

    def settle_ended(self, connection: Connection) -> None:
        """Settles the jobs that have ended; those that somebody holds locked stay unsettled."""
        # Jobs that were locked the last time are tried apart, one a round: they must not hold up the rest.
        locked = [done for done in self.unsettled if done[0].claim.id in self._locked] if self._locked else []
        rest = [done for done in self.unsettled if done[0].claim.id not in self._locked] if locked else self.unsettled
        for part in (locked[:1], rest):
            if not part:
                continue
            ends = [(job.claim, outcome) for job, outcome in part]
            settlement = settle(connection, ends)
            if settlement.due and self._state.leaving:  # at once: the jobs that still run here may take long to end
                wake_worker(connection, self._settings)
            if settlement.later:
                wake_scheduler(connection, self._settings)
            if self._settings.log_jobs:
                log_jobs(part, settlement.done)
            if len(settlement.done) == len(part) == len(self.unsettled):  # the rule, without a search by ids
                self.unsettled = []
                self._locked.clear()
                self._weigh(ends, -1)
                self.observe(ends)
            else:
                self._keep_locked(ends, settlement.done, settlement.locked)
                if settlement.refused:
                    self._fail_refused(connection, ends, settlement.refused)

    def _keep_locked(self, ends: Sequence[End], done: set[UUID], locked: set[UUID]) -> None:
        tried = {claim.id for claim, _ in ends}
        self._locked = (self._locked - tried) | locked
        gone = tried - locked
        self.unsettled = [one for one in self.unsettled if one[0].claim.id not in gone]
        self._weigh([end for end in ends if end[0].id in gone], -1)
        self.observe([end for end in ends if end[0].id in done])
        for job_id in gone - done:
            logger.warning("claim is no longer ours, result dropped", extra={"job_id": str(job_id)})

    def _fail_refused(self, connection: Connection, ends: Sequence[End], refused: Mapping[UUID, psycopg.Error]) -> None:
        """Fails the attempts whose end PostgreSQL does not take: the same again would be refused again."""
        failed: list[End] = []
        for claim, _ in ends:
            if error := refused.get(claim.id):
                words = error.diag.message_primary or type(error).__name__
                message = f"PostgreSQL refused its result ({error.sqlstate}): {words}"
                logger.error("the end of a job was refused", extra={"job_id": str(claim.id), "error": str(error)})
                failed.append(
                    (claim, after_failure(claim, Reason.RESULT, message, self._settings.policy.backoff(), CHANCE()))
                )
        settlement = settle(connection, failed)
        self.observe([end for end in failed if end[0].id in settlement.done])
        if settlement.later:
            wake_scheduler(connection, self._settings)
        for job_id in settlement.refused:
            logger.error("not even its failure is taken: its lease will run out", extra={"job_id": str(job_id)})

    def note_large(self, claim: Claim, outcome: Outcome) -> None:
        """Counts a large result that is on its way here. In a runner's thread, as `wait_for_room`."""
        if outcome.__class__ is Complete and outcome.result and len(outcome.result) >= LARGE_CHARACTERS_MIN:
            self._weigh([(claim, outcome)], 1)

    def wait_for_room(self) -> None:
        """Lets no job start while large results wait: they would fill the memory faster than PostgreSQL stores them."""
        while self.is_full and not self._state.leaving:
            time.sleep(0.005)

    def _weigh(self, ends: Sequence[End], sign: int) -> None:
        large = [
            len(outcome.result)
            for _, outcome in ends
            if isinstance(outcome, Complete) and outcome.result and len(outcome.result) >= LARGE_CHARACTERS_MIN
        ]
        if large:
            with self._lock:
                self._characters += sign * sum(large)
                self.is_full = self._characters > LARGE_CHARACTERS_MAX

    def observe(self, ends: Sequence[End]) -> None:
        """Counts settled jobs, and passes them to the worker's observer."""
        self.settled += len(ends)
        try:
            self._observe(ends)
        except Exception:  # metrics are made by libraries that are shared with users' code, and the jobs are settled
            logger.exception("metrics lost")
