"""The ended jobs of a worker, until they are settled."""

import logging
from collections.abc import Callable, Sequence
from uuid import UUID

from dilamme.domain.job import Claim
from dilamme.domain.outcome import Outcome
from dilamme.settings import Settings
from dilamme.store.connection import Connection
from dilamme.usecases.settle import settle
from dilamme.usecases.wake import wake_scheduler, wake_worker
from dilamme.worker.state import State
from dilamme.worker.thread_pool import Done

logger = logging.getLogger("dilamme.drain")

Observe = Callable[[Sequence[tuple[Claim, Outcome]]], None]


class Settling:
    """Collects ended jobs, and settles together all that have ended since the last time.

    A lost connection loses nothing: jobs that were not settled stay here and are settled again. If the first try came
    through, the second one finds zero rows, and the jobs are dropped as done.
    """

    def __init__(self, settings: Settings, state: State, observe: Observe) -> None:
        self.unsettled: list[Done] = []
        self.settled = 0
        self._locked: set[UUID] = set()  # the unsettled jobs that somebody else held locked the last time
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
            if len(settlement.done) == len(part) == len(self.unsettled):  # the rule, without a search by ids
                self.unsettled = []
                self._locked.clear()
                self.observe(ends)
            else:
                self._keep_locked(ends, settlement.done, settlement.locked)

    def _keep_locked(self, ends: Sequence[tuple[Claim, Outcome]], done: set[UUID], locked: set[UUID]) -> None:
        tried = {claim.id for claim, _ in ends}
        self._locked = (self._locked - tried) | locked
        gone = tried - locked
        self.unsettled = [one for one in self.unsettled if one[0].claim.id not in gone]
        self.observe([end for end in ends if end[0].id in done])
        for job_id in gone - done:
            logger.warning("claim is no longer ours, result dropped", extra={"job_id": str(job_id)})

    def observe(self, ends: Sequence[tuple[Claim, Outcome]]) -> None:
        """Counts settled jobs, and passes them to the worker's observer."""
        self.settled += len(ends)
        try:
            self._observe(ends)
        except Exception:  # metrics are made by libraries that are shared with users' code, and the jobs are settled
            logger.exception("metrics lost")
