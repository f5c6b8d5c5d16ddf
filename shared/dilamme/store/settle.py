"""How claims end (``sql/settle.sql``)."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from psycopg.rows import dict_row

from dilamme.domain.job import Held
from dilamme.domain.outcome import Bury, Complete, HandBack, RetryLater
from dilamme.store.connection import Connection, Row, fetch, uuid_array
from dilamme.store.finish import Ended
from dilamme.store.sql_blocks import sql


class Fence(Protocol):
    """Whose claim it is: a statement that does not match all three touches nothing."""

    @property
    def id(self) -> UUID: ...
    @property
    def attempt(self) -> int: ...
    @property
    def token(self) -> UUID: ...


def complete(
    connection: Connection, settled: Sequence[tuple[Fence, Complete]], *, wait: bool
) -> tuple[set[UUID], list[Ended]]:
    """Completes jobs; the ids of those that were still ours, and more of those among them that have a series."""
    results = "[" + ",".join([outcome.result or "null" for _, outcome in settled]) + "]"
    exceptions = _settle(connection, "complete", settled, {"results": results}, wait)
    done = {fence.id for fence, _ in settled}.difference(row["id"] for row in exceptions if not row["done"])
    return done, [Ended(**row) for row in exceptions if row.pop("done")]


def bury(connection: Connection, settled: Sequence[tuple[Fence, Bury]], *, wait: bool) -> list[Ended]:
    """Sends jobs to the dead letters; those that were still ours."""
    return [Ended(**row) for row in _settle(connection, "bury", settled, _failures(settled), wait)]


def retry(connection: Connection, settled: Sequence[tuple[Fence, RetryLater]], *, wait: bool) -> list[UUID]:
    """Puts jobs back in line for their retry time; those that were still ours."""
    outcome = {**_failures(settled), "delays": [outcome.delay_seconds for _, outcome in settled]}
    return [row["id"] for row in _settle(connection, "retry", settled, outcome, wait)]


def hand_back(connection: Connection, settled: Sequence[tuple[Fence, HandBack]], *, wait: bool) -> list[UUID]:
    """Undoes claims at no attempt's cost; those that were still ours."""
    outcome = {
        "delays": [outcome.delay_seconds for _, outcome in settled],
        "unknown": [outcome.unknown for _, outcome in settled],
    }
    return [row["id"] for row in _settle(connection, "hand_back", settled, outcome, wait)]


def _failures(settled: Sequence[tuple[Fence, Bury | RetryLater]]) -> dict[str, Any]:
    return {
        "reasons": [outcome.reason for _, outcome in settled],
        "messages": [outcome.message for _, outcome in settled],
    }


def _settle(
    connection: Connection, name: str, settled: Sequence[tuple[Fence, Any]], outcome: Mapping[str, Any], wait: bool
) -> list[Row]:
    statement = sql(name).replace("SKIP LOCKED", "") if wait else sql(name)
    fences = {
        "ids": uuid_array(fence.id for fence, _ in settled),
        "attempts": [fence.attempt for fence, _ in settled],
        "tokens": uuid_array(fence.token for fence, _ in settled),
    }
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(statement, {**fences, **outcome}).fetchall()


def carried_by(connection: Connection, worker: UUID, defaults: Mapping[str, float]) -> list[Held]:
    """The jobs that run under a worker's token. ``defaults`` are the settings for types that give none."""
    return [Held(**row) for row in fetch(connection, "carried_by", {"worker": worker, **defaults})]


def expired(connection: Connection, most: int, defaults: Mapping[str, float]) -> list[Held]:
    """The jobs whose lease has run out; ``most`` at the most."""
    return [Held(**row) for row in fetch(connection, "expired", {"most": most, **defaults})]


def dependency_results(connection: Connection, job_id: UUID) -> dict[UUID, Any]:
    """What the jobs that this one waited for returned."""
    return {row["id"]: row["result"] for row in fetch(connection, "dependency_results", {"id": job_id})}
