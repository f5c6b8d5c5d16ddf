"""End claims: complete, retry, bury, hand back, and all that follows, in one transaction."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar
from uuid import UUID

import psycopg

from dilamme.domain.outcome import Bury, Complete, HandBack, Outcome, RetryLater
from dilamme.store import outbox
from dilamme.store import settle as store
from dilamme.store.connection import Connection, limit_lock_wait, repeat_on_conflict, transaction
from dilamme.store.finish import Ended, lock_series
from dilamme.usecases import finish

LOCK_WAIT_SECONDS = 0.2
LOCK_WAIT_SECONDS_ALONE = 0.02  # the second try, of which there may be hundreds

Kind = TypeVar("Kind", bound=Outcome)


class Fence(store.Fence, Protocol):
    """A claim, and the series that must be locked before it."""

    @property
    def series_id(self) -> UUID | None: ...


Settled = tuple[Fence, Outcome]


@dataclass(slots=True)
class Settlement:
    """What became of the claims: ``done`` were still ours.

    ``due`` says that a job can run now because of it, ``later`` that there is something for a scheduler to do: a
    retry, a next occurrence, a released child with a time of its own, a dead letter.
    """

    done: set[UUID] = field(default_factory=set)
    due: bool = False
    later: bool = False

    def add(self, other: "Settlement") -> None:
        """Takes in what another transaction did."""
        self.done |= other.done
        self.due |= other.due
        self.later |= other.later


def settle(connection: Connection, settled: Sequence[Settled], *, wait: bool = False) -> Settlement:
    """Ends the claims that are still held by their fence, in a transaction of its own.

    Without ``wait``, claims are passed over if somebody holds them locked, or a child or series that their end must
    change: the caller repeats what is not in ``done`` one by one, with ``wait``; what is not done then belongs to
    somebody else, and its result is dropped.

    Raises:
        psycopg.errors.LockNotAvailable: with ``wait``, a lock was not to be had in `LOCK_WAIT_SECONDS`: try later.
    """
    try:
        return _settle(connection, settled, LOCK_WAIT_SECONDS, wait=wait)
    except psycopg.errors.LockNotAvailable:
        if wait:
            raise
    # A caller's transaction holds a child or a series of one of them; the others need not wait for that.
    settlement = Settlement()
    for one in settled:
        with suppress(psycopg.errors.LockNotAvailable):
            settlement.add(_settle(connection, [one], LOCK_WAIT_SECONDS_ALONE, wait=False))
    return settlement


@repeat_on_conflict
def _settle(connection: Connection, settled: Sequence[Settled], lock_wait_seconds: float, *, wait: bool) -> Settlement:
    with transaction(connection):
        # Below PostgreSQL's deadlock_timeout (1 s): of a worker and a caller who wait for each other, the worker yields.
        limit_lock_wait(connection, lock_wait_seconds)
        return settle_here(connection, settled, wait=wait)


def settle_here(connection: Connection, settled: Sequence[Settled], *, wait: bool = False) -> Settlement:
    """`settle` in the transaction that is open."""
    if series := {fence.series_id for fence, _ in settled if fence.series_id is not None}:
        lock_series(connection, series)
    settlement = Settlement()
    _complete(connection, _only(Complete, settled), wait, settlement)
    _retry(connection, _only(RetryLater, settled), wait, settlement)
    _hand_back(connection, _only(HandBack, settled), wait, settlement)
    _bury(connection, _only(Bury, settled), wait, settlement)
    return settlement


def _only(kind: type[Kind], settled: Iterable[Settled]) -> list[tuple[Fence, Kind]]:
    return [(fence, outcome) for fence, outcome in settled if isinstance(outcome, kind)]


def _complete(
    connection: Connection, settled: list[tuple[Fence, Complete]], wait: bool, settlement: Settlement
) -> None:
    if settled:
        done, recurring = store.complete(connection, settled, wait=wait)
        released = finish.after_success(connection, done, recurring)
        settlement.done |= done
        settlement.due |= any(released)
        settlement.later |= not all(released) or bool(recurring)


def _retry(connection: Connection, settled: list[tuple[Fence, RetryLater]], wait: bool, settlement: Settlement) -> None:
    if settled:
        settlement.done.update(store.retry(connection, settled, wait=wait))
        settlement.later = True
        settlement.due |= any(outcome.delay_seconds <= 0 for _, outcome in settled)


def _hand_back(
    connection: Connection, settled: list[tuple[Fence, HandBack]], wait: bool, settlement: Settlement
) -> None:
    if settled:
        settlement.done.update(store.hand_back(connection, settled, wait=wait))
        settlement.later |= any(outcome.delay_seconds is not None for _, outcome in settled)
        settlement.due |= any(outcome.delay_seconds is None for _, outcome in settled)


def _bury(connection: Connection, settled: list[tuple[Fence, Bury]], wait: bool, settlement: Settlement) -> None:
    if settled:
        ended = store.bury(connection, settled, wait=wait)
        settlement.done.update(job.id for job in ended)
        outcomes = {fence.id: outcome for fence, outcome in settled}
        if ended:
            outbox.announce(connection, {job.id: _letter(job, outcomes[job.id]) for job in ended})
        finish.after_failure(connection, ended)
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
