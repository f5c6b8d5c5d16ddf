"""Idempotency keys (``sql/idempotency_keys.sql``)."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from psycopg.types.json import Jsonb

from dilamme.store.connection import Connection, fetch, fetch_as, run


@dataclass(frozen=True, slots=True)
class KeptKey:
    """The request that an idempotency key stands for."""

    request_hash: bytes
    job_ids: list[UUID]
    refs: list[str | None]


def take_key(
    connection: Connection, key: str, request_hash: bytes, job_ids: Sequence[UUID], refs: Sequence[str | None]
) -> bool:
    """Is the key ours? Waits for a rival that is storing the same one."""
    parameters = {"key": key, "request_hash": request_hash, "job_ids": list(job_ids), "refs": Jsonb(list(refs))}
    return bool(fetch(connection, "take_key", parameters))


def find_key(connection: Connection, key: str) -> KeptKey | None:
    """The request of the key, or None if retention has deleted the key meanwhile."""
    rows = fetch_as(connection, KeptKey, "find_key", {"key": key})
    return rows[0] if rows else None


def prune_keys(connection: Connection, keys: Sequence[str]) -> None:
    """Deletes those idempotency keys that have no job and no series left."""
    run(connection, "prune_keys", {"keys": list(keys)})
