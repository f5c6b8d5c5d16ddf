"""Claims: how they end, and which ones a worker holds (``sql/claims.sql``)."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Protocol, TypeVar
from uuid import UUID

from dilamme.domain.job import Ended, Held
from dilamme.domain.outcome import Bury, Complete, RetryLater, Return
from dilamme.domain.policy import Policy
from dilamme.store.arrays import UuidArray
from dilamme.store.connection import Connection, fetch_as, fetch_tuples


class Fence(Protocol):
    """The three values of a claim. A statement that does not match all three touches no row."""

    @property
    def id(self) -> UUID: ...
    @property
    def attempt(self) -> int: ...
    @property
    def token(self) -> UUID: ...


FenceT = TypeVar("FenceT", bound=Fence)
OutcomeT = TypeVar("OutcomeT")


def complete(connection: Connection, ends: Sequence[tuple[Fence, Complete]]) -> tuple[set[UUID], list[Ended]]:
    """Completes jobs; the ids of those that were still ours, and in full the ones that belong to a series."""
    done: set[UUID] = set()
    recurring: list[Ended] = []
    for claims in _by_fence(ends):
        results = _object((fence.id, outcome.result) for fence, outcome in claims)
        rows = fetch_tuples(connection, "complete", {**_fence(claims), "results": results})
        ended = [Ended(*row[1:]) for row in rows if row[1] is not None]
        all_ours = rows[0][0] == len(claims)
        done.update([fence.id for fence, _ in claims] if all_ours else [job.id for job in ended])
        recurring += [job for job in ended if job.series_id is not None]
    return done, recurring


def bury(connection: Connection, ends: Sequence[tuple[Fence, Bury]]) -> list[Ended]:
    """Makes jobs dead; returns those that were still ours."""
    return [
        Ended(*row)
        for claims in _by_fence(ends)
        for row in fetch_tuples(connection, "bury", {**_fence(claims), "failures": _failures(claims)})
    ]


def retry(connection: Connection, ends: Sequence[tuple[Fence, RetryLater]]) -> list[UUID]:
    """Makes jobs pending until their retry; the ids of those that were still ours."""
    ours: list[UUID] = []
    for claims in _by_fence(ends):
        delays = _object((fence.id, str(outcome.delay_seconds)) for fence, outcome in claims)
        parameters = {**_fence(claims), "failures": _failures(claims), "delays": delays}
        ours += [job_id for (job_id,) in fetch_tuples(connection, "retry", parameters)]
    return ours


def return_claim(connection: Connection, ends: Sequence[tuple[Fence, Return]]) -> list[UUID]:
    """Undoes claims, so that they cost no attempt; the ids of those that were still ours."""
    ours: list[UUID] = []
    for claims in _by_fence(ends):
        delays = _object((f.id, None if o.delay_seconds is None else str(o.delay_seconds)) for f, o in claims)
        unknown = _object((fence.id, "true" if outcome.unknown else None) for fence, outcome in claims)
        parameters = {**_fence(claims), "delays": delays, "unknown": unknown}
        ours += [job_id for (job_id,) in fetch_tuples(connection, "return_claim", parameters)]
    return ours


def _by_fence(ends: Sequence[tuple[FenceT, OutcomeT]]) -> Iterable[list[tuple[FenceT, OutcomeT]]]:
    """Groups claims by attempt and token; the claims of one statement have the same token."""
    groups: dict[tuple[int, int], list[tuple[FenceT, OutcomeT]]] = defaultdict(list)
    for end in ends:
        groups[end[0].attempt, end[0].token.int].append(end)  # an int, since a UUID's own hash is computed in Python
    return groups.values()


def _fence(claims: Sequence[tuple[Fence, Any]]) -> dict[str, Any]:
    """The parameters of the fragment `mine`, for claims of one attempt and token."""
    first = claims[0][0]
    return {"ids": UuidArray([fence.id for fence, _ in claims]), "attempt": first.attempt, "token": first.token}


def _object(texts: Iterable[tuple[UUID, str | None]]) -> str:
    """A JSON object of JSON texts by id, without those that are None."""
    return "{" + ",".join([f'"{id_}":{text}' for id_, text in texts if text is not None]) + "}"


def _failures(claims: Sequence[tuple[Fence, Bury | RetryLater]]) -> str:
    return _object(
        (fence.id, json.dumps({"reason": outcome.reason, "message": outcome.message})) for fence, outcome in claims
    )


def held_by(connection: Connection, worker: UUID, policy: Policy) -> list[Held]:
    """The jobs that run under a worker's token."""
    return fetch_as(connection, Held, "held_by", {"worker": worker, **asdict(policy)})


def expired(connection: Connection, limit: int, policy: Policy) -> list[Held]:
    """The jobs whose lease has run out, at most ``limit``."""
    return fetch_as(connection, Held, "expired", {"limit": limit, **asdict(policy)})
