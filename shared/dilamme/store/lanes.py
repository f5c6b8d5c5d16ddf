"""The jobs that can run, in order: the lanes' heads and the claims (``sql/lanes.sql``)."""

import json
from collections.abc import Container, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from dilamme.domain.batch_size import BATCH_CHARACTERS_MAX
from dilamme.domain.job import Claim, Head, UnreadPayload
from dilamme.store.connection import Connection, fetch, fetch_tuples

# Read, a payload may take twenty times the memory of its text. Many large ones are read one by one, as they run.
AT_ONCE_CHARACTERS_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a worker's claim."""

    worker: UUID  # the token of its slot
    limit: int  # jobs
    reach: int  # jobs to look at: `limit`, and some more in place of those that rivals hold locked
    idle: bool  # the worker has no other job in hand, so one on its last attempt may be taken, alone
    lease_seconds: float
    ageing_seconds: float
    max_attempts: int  # the setting, for a job if neither it nor its type gives a value
    characters: int = BATCH_CHARACTERS_MAX  # of payloads
    unread: Container[str] = ()  # the types whose payloads stay text, for their handlers' shapes to read


def lane_heads(connection: Connection, reach: int) -> list[Head]:
    """The first ``reach`` ready jobs of each priority."""
    return [Head(*row) for row in fetch_tuples(connection, "lane_heads", {"reach": reach})]


def claim(connection: Connection, terms: Terms, token: UUID) -> list[Claim]:
    """Claims the most urgent jobs that no rival holds, in order."""
    return _claims(fetch_tuples(connection, "claim", _parameters(terms, token)), terms, token)


def start_and_claim(connection: Connection, terms: Terms, token: UUID, slot: int) -> list[Claim] | None:
    """`slots.start` for the worker of ``terms`` and its first claim, both or none; None if the slot is not ours."""
    rows = fetch_tuples(connection, "start_and_claim", {**_parameters(terms, token), "slot": slot})
    if not rows:
        return None
    return [] if rows[0][0] is None else _claims(rows, terms, token)


def claim_handed(
    connection: Connection, terms: Terms, token: UUID, ids: Sequence[UUID], ticked_at: datetime, fresh_seconds: float
) -> list[Claim]:
    """Claims those of ``ids`` that are still free, in order; none if ``ticked_at``, their choice, is too long ago."""
    handed = {"ids": list(ids), "ticked_at": ticked_at, "fresh": timedelta(seconds=fresh_seconds)}
    return _claims(fetch_tuples(connection, "claim_handed", {**_parameters(terms, token), **handed}), terms, token)


def _claims(rows: Sequence[tuple[Any, ...]], terms: Terms, token: UUID) -> list[Claim]:
    texts = [row[-1] for row in rows]
    payloads: list[Any]
    if sum(map(len, texts)) > AT_ONCE_CHARACTERS_MAX:
        payloads = [UnreadPayload(text) for text in texts]
    elif not terms.unread:
        payloads = json.loads("[" + ",".join(texts) + "]")  # one call, since its overhead is most of the work
    else:
        kept = [row[1] in terms.unread for row in rows]
        read = ["null" if keep else text for keep, text in zip(kept, texts, strict=True)]
        payloads = json.loads("[" + ",".join(read) + "]")
        payloads = [UnreadPayload(texts[place]) if keep else payloads[place] for place, keep in enumerate(kept)]
    return [Claim._make((*row[:-1], payload, len(row[-1]), token)) for row, payload in zip(rows, payloads, strict=True)]


def _parameters(terms: Terms, token: UUID) -> dict[str, object]:
    return {
        "token": token,
        "worker": terms.worker,
        "limit": terms.limit,
        "reach": terms.reach,
        "characters": terms.characters,
        "idle": terms.idle,
        "lease": timedelta(seconds=terms.lease_seconds),
        # NULL turns ageing off: no ready time lies before it.
        "ageing": timedelta(microseconds=round(terms.ageing_seconds * 1_000_000)) or None,
        "max_attempts": terms.max_attempts,
    }


def work_left(connection: Connection) -> bool:
    """Is any job ready?"""
    return bool(fetch(connection, "work_left", {"reach": 1})[0]["work_left"])


def near_future(
    connection: Connection, since: datetime, ahead_seconds: float, limit: int
) -> tuple[datetime, list[tuple[UUID, datetime]]]:
    """The time; and ids and ready times of jobs that fall due after ``since``, within ``ahead_seconds`` from now.

    At most ``limit`` jobs.
    """
    parameters = {"since": since, "ahead": timedelta(seconds=ahead_seconds), "limit": limit}
    rows = fetch(connection, "near_future", parameters)
    return rows[0]["now"], [(row["id"], row["ready_at"]) for row in rows if row["id"] is not None]
