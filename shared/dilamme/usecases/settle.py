"""Settle claims: complete, retry, return or bury them, with all consequences, in one transaction."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

import psycopg

from dilamme.domain.outcome import Bury, Complete, Outcome, RetryLater, Return
from dilamme.store import claims, series
from dilamme.store.connection import Connection, limit_lock_wait, repeat_on_conflict, transaction
from dilamme.store.faults import Remedy, remedy
from dilamme.usecases import consequences

LOCK_WAIT_SECONDS = 0.2
PART_CHARACTERS_MAX = 2_000_000  # of results in one statement
LOCK_WAIT_SECONDS_AGAIN = 0.02  # in halves: of 500, a locked one is found in nine waits


class Fence(claims.Fence, Protocol):
    """A claim, and the series that must be locked before it."""

    @property
    def series_id(self) -> UUID | None: ...


End = tuple[Fence, Outcome]


@dataclass(slots=True)
class Settlement:
    """What became of the claims: ``done`` were still ours; ``locked`` may be, but somebody holds a row that their end changes.

    ``refused`` are those that PostgreSQL does not take, each with its error: they may still be ours.
    ``due`` says that a job can run now because of it. ``later`` says that there is something for a scheduler to do: a
    retry, a next occurrence, a released child with a time of its own, a dead letter.
    """

    done: set[UUID] = field(default_factory=set)
    locked: set[UUID] = field(default_factory=set)
    refused: dict[UUID, psycopg.Error] = field(default_factory=dict)
    due: bool = False
    later: bool = False

    def add(self, other: "Settlement") -> None:
        """Takes in what another transaction did."""
        self.done |= other.done
        self.locked |= other.locked
        self.refused |= other.refused
        self.due |= other.due
        self.later |= other.later


def settle(connection: Connection, ends: Sequence[End]) -> Settlement:
    """Ends the claims that are still held by their fence, in a transaction of its own.

    If a caller's transaction holds one of them locked, or a child or series that its end must change, the others do
    not wait for that: they are settled in halves, until the ``locked`` stand alone. So are those that PostgreSQL refuses. A
    claim that is in none of the three belongs to somebody else, and its result is dropped.

    Results that are many megabytes together are settled in several transactions: as ``jsonb`` they take up to fifty times
    the memory of their text.
    """
    settlement = Settlement()
    parts = _parts(ends)
    lock_wait_seconds = LOCK_WAIT_SECONDS
    while parts:
        part = parts.pop()
        try:
            settlement.add(_settle_together(connection, part, lock_wait_seconds))
        except psycopg.Error as error:
            locked = isinstance(error, psycopg.errors.LockNotAvailable)
            if not locked and not isinstance(error, psycopg.errors.QueryCanceled) and remedy(error) is not Remedy.SPLIT:
                raise
            if len(part) > 1:
                half = len(part) // 2
                parts += [part[half:], part[:half]]
            elif locked:
                settlement.locked.add(part[0][0].id)
            else:
                settlement.refused[part[0][0].id] = error
            if locked:
                lock_wait_seconds = LOCK_WAIT_SECONDS_AGAIN
    return settlement


def _parts(ends: Sequence[End]) -> list[Sequence[End]]:
    """The ends in parts of up to `PART_CHARACTERS_MAX`, the last first."""
    parts: list[Sequence[End]] = []
    start = characters = 0
    for place, (_, outcome) in enumerate(ends):
        if outcome.__class__ is Complete and outcome.result is not None:
            length = len(outcome.result)
            if characters + length > PART_CHARACTERS_MAX and place > start:
                parts.append(ends[start:place])
                start, characters = place, 0
            characters += length
    parts.append(ends[start:])
    return parts[::-1]


@repeat_on_conflict
def _settle_together(connection: Connection, ends: Sequence[End], lock_wait_seconds: float) -> Settlement:
    with transaction(connection):
        # Below PostgreSQL's deadlock_timeout (1 s): of a worker and a caller who wait for each other, the worker yields.
        limit_lock_wait(connection, lock_wait_seconds)
        return settle_here(connection, ends)


def settle_here(connection: Connection, ends: Sequence[End]) -> Settlement:
    """`settle` in the transaction that is open; it waits for locks as long as that does."""
    if series_ids := {fence.series_id for fence, _ in ends if fence.series_id is not None}:
        series.lock_series(connection, series_ids)
    by_kind: dict[type[Outcome], list[Any]] = defaultdict(list)
    for end in ends:
        by_kind[type(end[1])].append(end)
    settlement = Settlement()
    if completed := by_kind[Complete]:
        done, recurring = claims.complete(connection, completed)
        released = consequences.of_completion(connection, done, recurring)
        settlement.done |= done
        settlement.due |= any(released)
        settlement.later |= not all(released) or bool(recurring)
    if retried := by_kind[RetryLater]:
        settlement.done.update(claims.retry(connection, retried))
        settlement.due |= any(outcome.delay_seconds <= 0 for _, outcome in retried)
        settlement.later = True
    if returned := by_kind[Return]:
        settlement.done.update(claims.return_claim(connection, returned))
        settlement.due |= any(outcome.delay_seconds is None for _, outcome in returned)
        settlement.later |= any(outcome.delay_seconds is not None for _, outcome in returned)
    if buried := by_kind[Bury]:
        ended = claims.bury(connection, buried)
        settlement.done.update(job.id for job in ended)
        consequences.of_death(connection, ended, {fence.id: outcome for fence, outcome in buried})
        settlement.later = True
    return settlement
