"""Measurements of the queue and of its server (``sql/gauges.sql``)."""

from dilamme.store.connection import Connection, Row, fetch


def gauge_jobs(connection: Connection, most: int) -> Row:
    """{dead, running, ready_p1, ready_p2, ready_p3, oldest_ready_seconds}; each count stops at ``most``."""
    return fetch(connection, "gauge_jobs", {"most": most})[0]


def gauge_slots(connection: Connection) -> Row:
    """{invited, started}: workers called, and workers at work."""
    return fetch(connection, "gauge_slots")[0]


def gauge_outbox(connection: Connection) -> Row:
    """{oldest_letter_seconds}: how long the oldest dead letter has waited to be sent; 0 if none does."""
    return fetch(connection, "gauge_outbox")[0]


def gauge_server(connection: Connection) -> Row:
    """{connections, oldest_snapshot_seconds}; the second None where this role may not see it."""
    return fetch(connection, "gauge_server")[0]


def connection_limits(connection: Connection) -> Row:
    """{max_connections, reserved, usable}: usable by ordinary roles, all databases together."""
    return fetch(connection, "connection_limits")[0]
