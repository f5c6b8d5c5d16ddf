"""How claims end (``sql/settle.sql``)."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar
from uuid import UUID

from dilamme.domain.job import Held
from dilamme.domain.outcome import Bury, Complete, HandBack, RetryLater
from dilamme.store.arrays import UuidArray
from dilamme.store.connection import Connection, fetch, fetch_tuples
from dilamme.store.dependencies import Ended


class Fence(Protocol):
    """Whose claim it is: a statement that does not match all three touches nothing."""

    @property
    def id(self) -> UUID: ...
    @property
    def attempt(self) -> int: ...
    @property
    def token(self) -> UUID: ...


FenceT = TypeVar("FenceT", bound=Fence)
OutcomeT = TypeVar("OutcomeT")


def complete(connection: Connection, settled: Sequence[tuple[Fence, Complete]]) -> tuple[set[UUID], list[Ended]]:
    """Completes jobs; the ids of those that were still ours, and more of those among them that have a series."""
    done: set[UUID] = set()
    recurring: list[Ended] = []
    for claims in _by_fence(settled):
        rows = _settle(connection, "complete", claims, {"results": _object((f.id, o.result) for f, o in claims)})
        ended = [Ended(*row[1:]) for row in rows if row[1] is not None]
        all_ours = rows[0][0] == len(claims)
        done.update([fence.id for fence, _ in claims] if all_ours else [job.id for job in ended])
        recurring += [job for job in ended if job.series_id is not None]
    return done, recurring


def bury(connection: Connection, settled: Sequence[tuple[Fence, Bury]]) -> list[Ended]:
    """Sends jobs to the dead letters; those that were still ours."""
    return [
        Ended(*row)
        for claims in _by_fence(settled)
        for row in _settle(connection, "bury", claims, {"failures": _failures(claims)})
    ]


def retry(connection: Connection, settled: Sequence[tuple[Fence, RetryLater]]) -> list[UUID]:
    """Puts jobs back in line for their retry time; those that were still ours."""
    ours: list[UUID] = []
    for claims in _by_fence(settled):
        delays = _object((fence.id, str(outcome.delay_seconds)) for fence, outcome in claims)
        ours += _ids(_settle(connection, "retry", claims, {"failures": _failures(claims), "delays": delays}))
    return ours


def hand_back(connection: Connection, settled: Sequence[tuple[Fence, HandBack]]) -> list[UUID]:
    """Undoes claims at no attempt's cost; those that were still ours."""
    ours: list[UUID] = []
    for claims in _by_fence(settled):
        delayed = ((f.id, None if o.delay_seconds is None else str(o.delay_seconds)) for f, o in claims)
        unknown = ((fence.id, "true" if outcome.unknown else None) for fence, outcome in claims)
        ours += _ids(
            _settle(connection, "hand_back", claims, {"delays": _object(delayed), "unknown": _object(unknown)})
        )
    return ours


def _by_fence(settled: Sequence[tuple[FenceT, OutcomeT]]) -> Iterable[list[tuple[FenceT, OutcomeT]]]:
    """Claims of one attempt and token, together: those of one look at the lanes, mostly."""
    groups: dict[tuple[int, int], list[tuple[FenceT, OutcomeT]]] = defaultdict(list)
    for one in settled:
        groups[one[0].attempt, one[0].token.int].append(one)  # a UUID's own hash is worked out in Python
    return groups.values()


def _object(texts: Iterable[tuple[UUID, str | None]]) -> str:
    """A JSON object of JSON texts by id; without those that are None."""
    return "{" + ",".join([f'"{id_}":{text}' for id_, text in texts if text is not None]) + "}"


def _failures(settled: Sequence[tuple[Fence, Bury | RetryLater]]) -> str:
    return _object(
        (fence.id, json.dumps({"reason": outcome.reason, "message": outcome.message})) for fence, outcome in settled
    )


def _ids(rows: Iterable[tuple[Any, ...]]) -> list[UUID]:
    return [row[0] for row in rows]


def _settle(
    connection: Connection, name: str, claims: Sequence[tuple[Fence, Any]], outcome: Mapping[str, str]
) -> list[tuple[Any, ...]]:
    fence = claims[0][0]
    ids = UuidArray([fence.id for fence, _ in claims])
    return fetch_tuples(connection, name, {"ids": ids, "attempt": fence.attempt, "token": fence.token, **outcome})


def carried_by(connection: Connection, worker: UUID, defaults: Mapping[str, float]) -> list[Held]:
    """The jobs that run under a worker's token. ``defaults`` are the settings for types that give none."""
    return [Held(**row) for row in fetch(connection, "carried_by", {"worker": worker, **defaults})]


def expired(connection: Connection, most: int, defaults: Mapping[str, float]) -> list[Held]:
    """The jobs whose lease has run out; ``most`` at the most."""
    return [Held(**row) for row in fetch(connection, "expired", {"most": most, **defaults})]


def dependency_results(connection: Connection, job_id: UUID) -> dict[UUID, Any]:
    """What the jobs that this one waited for returned."""
    return {row["id"]: row["result"] for row in fetch(connection, "dependency_results", {"id": job_id})}
