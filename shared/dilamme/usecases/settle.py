"""End claims: complete, retry, bury, hand back, and all that follows, in one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

import psycopg

from dilamme.domain.outcome import Bury, Complete, HandBack, Outcome, RetryLater
from dilamme.store import claims as store
from dilamme.store import outbox
from dilamme.store.connection import Connection, limit_lock_wait, repeat_on_conflict, transaction
from dilamme.store.dependencies import Ended, lock_series
from dilamme.usecases import consequences

LOCK_WAIT_SECONDS = 0.2
LOCK_WAIT_SECONDS_AGAIN = 0.02  # in halves: of 500, a locked one is found in nine waits


class Fence(store.Fence, Protocol):
    """A claim, and the series that must be locked before it."""

    @property
    def series_id(self) -> UUID | None: ...


Settled = tuple[Fence, Outcome]


@dataclass(slots=True)
class Settlement:
    """What became of the claims: ``done`` were still ours; ``locked`` may be, but somebody holds what their end changes.

    ``due`` says that a job can run now because of it, ``later`` that there is something for a scheduler to do: a
    retry, a next occurrence, a released child with a time of its own, a dead letter.
    """

    done: set[UUID] = field(default_factory=set)
    locked: set[UUID] = field(default_factory=set)
    due: bool = False
    later: bool = False

    def add(self, other: "Settlement") -> None:
        """Takes in what another transaction did."""
        self.done |= other.done
        self.locked |= other.locked
        self.due |= other.due
        self.later |= other.later


def settle(connection: Connection, settled: Sequence[Settled]) -> Settlement:
    """Ends the claims that are still held by their fence, in a transaction of its own.

    If a caller's transaction holds one of them locked, or a child or series that its end must change, the others do
    not wait for that: they are settled in halves, until the ``locked`` stand alone. What is neither ``done`` nor
    ``locked`` belongs to somebody else, and its result is dropped.
    """
    return _in_halves(connection, settled, LOCK_WAIT_SECONDS)


def _in_halves(connection: Connection, settled: Sequence[Settled], lock_wait_seconds: float) -> Settlement:
    try:
        return _settle(connection, settled, lock_wait_seconds)
    except psycopg.errors.LockNotAvailable:
        if len(settled) == 1:
            return Settlement(locked={settled[0][0].id})
    half = len(settled) // 2
    settlement = _in_halves(connection, settled[:half], LOCK_WAIT_SECONDS_AGAIN)
    settlement.add(_in_halves(connection, settled[half:], LOCK_WAIT_SECONDS_AGAIN))
    return settlement


@repeat_on_conflict
def _settle(connection: Connection, settled: Sequence[Settled], lock_wait_seconds: float) -> Settlement:
    with transaction(connection):
        # Below PostgreSQL's deadlock_timeout (1 s): of a worker and a caller who wait for each other, the worker yields.
        limit_lock_wait(connection, lock_wait_seconds)
        return settle_here(connection, settled)


def settle_here(connection: Connection, settled: Sequence[Settled]) -> Settlement:
    """`settle` in the transaction that is open; it waits for locks as long as that does."""
    if series := {fence.series_id for fence, _ in settled if fence.series_id is not None}:
        lock_series(connection, series)
    settlement = Settlement()
    ends: dict[type[Outcome], list[Any]] = {kind: [] for kind in (Complete, RetryLater, HandBack, Bury)}
    for one in settled:
        ends[type(one[1])].append(one)
    _complete(connection, ends[Complete], settlement)
    _retry(connection, ends[RetryLater], settlement)
    _hand_back(connection, ends[HandBack], settlement)
    _bury(connection, ends[Bury], settlement)
    return settlement


def _complete(connection: Connection, settled: list[tuple[Fence, Complete]], settlement: Settlement) -> None:
    if settled:
        done, recurring = store.complete(connection, settled)
        released = consequences.after_success(connection, done, recurring)
        settlement.done |= done
        settlement.due |= any(released)
        settlement.later |= not all(released) or bool(recurring)


def _retry(connection: Connection, settled: list[tuple[Fence, RetryLater]], settlement: Settlement) -> None:
    if settled:
        settlement.done.update(store.retry(connection, settled))
        settlement.later = True
        settlement.due |= any(outcome.delay_seconds <= 0 for _, outcome in settled)


def _hand_back(connection: Connection, settled: list[tuple[Fence, HandBack]], settlement: Settlement) -> None:
    if settled:
        settlement.done.update(store.hand_back(connection, settled))
        settlement.later |= any(outcome.delay_seconds is not None for _, outcome in settled)
        settlement.due |= any(outcome.delay_seconds is None for _, outcome in settled)


def _bury(connection: Connection, settled: list[tuple[Fence, Bury]], settlement: Settlement) -> None:
    if settled:
        ended = store.bury(connection, settled)
        settlement.done.update(job.id for job in ended)
        outcomes = {fence.id: outcome for fence, outcome in settled}
        if ended:
            outbox.announce(connection, {job.id: _letter(job, outcomes[job.id]) for job in ended})
        consequences.after_failure(connection, ended)
        settlement.later = True


def _letter(job: Ended, outcome: Bury) -> dict[str, Any]:
    # No payload: it may hold secrets, and the job is there to be read.
    return {
        "jobId": str(job.id),
        "type": job.type,
        "attempts": job.attempt,
        "error": {"reason": outcome.reason, "message": outcome.message},
        "seriesId": job.series_id and str(job.series_id),
    }
