"""Measurements of the queue and of its server (``sql/stats.sql``)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from dilamme.store.connection import Connection, fetch, fetch_as

KINDS = ("ready", "scheduled", "blocked", "running", "completed", "dead", "cancelled")


@dataclass(frozen=True, slots=True)
class JobCount:
    """The number of jobs of a kind and priority; ``capped`` if the count stopped at its limit.

    Kinds are statuses, but ``pending`` is split into ready, scheduled and blocked.
    """

    kind: str
    priority: int
    jobs: int
    capped: bool


@dataclass(frozen=True, slots=True)
class Pulse:
    """The scheduler's last sign of life, and the age in seconds of the ready job that waits longest."""

    at: datetime
    alive: bool
    last_tick_at: datetime | None
    oldest_ready_seconds: float | None


@dataclass(frozen=True, slots=True)
class ServerLoad:
    """Connections of all databases; the oldest snapshot's age in seconds, None if this role may not see it."""

    connections: int
    oldest_snapshot_seconds: float | None


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The server's limit of connections, of all databases together; ``usable`` is the part for ordinary roles."""

    max_connections: int
    reserved: int
    usable: int


def count_jobs(connection: Connection, limits: Mapping[str, int]) -> list[JobCount]:
    """Counts by kind and priority, each kind up to its limit (of running and blocked jobs all priorities together).

    A kind without a limit is not counted.
    """
    return fetch_as(connection, JobCount, "count_jobs", {**dict.fromkeys(KINDS, 0), **limits})


def pulse(connection: Connection) -> Pulse:
    """The scheduler's pulse."""
    return fetch_as(connection, Pulse, "pulse", {"reach": 1})[0]


def gauge_outbox(connection: Connection) -> float:
    """The seconds for which the oldest dead letter has waited to be sent; 0 if none waits."""
    seconds: float = fetch(connection, "gauge_outbox")[0]["oldest_letter_seconds"]
    return seconds


def gauge_server(connection: Connection) -> ServerLoad:
    """The server's connections, and its oldest snapshot."""
    return fetch_as(connection, ServerLoad, "gauge_server")[0]


def connection_limits(connection: Connection) -> ConnectionLimits:
    """The limits of the server's connections."""
    return fetch_as(connection, ConnectionLimits, "connection_limits")[0]
