"""What PostgreSQL refuses whoever asks: the last line behind every statement of ours (invariant 15)."""

import psycopg
import pytest

from dilamme.store.connection import Connection
from tests.support.jobs import claim, complete, put, row

SET = "UPDATE dilamme.jobs SET "


@pytest.mark.parametrize(
    "change",
    [
        "type = 'A'",
        "type = repeat('a', 101)",
        "status = 'lost'",
        "priority = 0",
        "priority = 4",
        "attempt = -1",
        "max_attempts = 0",
        "max_attempts = 26",
        "unmet_dependencies = -1",
        "on_dependency_failure = 'ignore'",
        "status = 'running'",
        "status = 'running', attempt = 1, started_at = now(), worker = id, token = id",
        "status = 'running', attempt = 1, started_at = now(), worker = id, lease_expires_at = now()",
        "status = 'running', attempt = 1, started_at = now(), token = id, lease_expires_at = now()",
        "status = 'running', attempt = 0, started_at = now(), worker = id, token = id, lease_expires_at = now()",
        "status = 'running', attempt = 1, worker = id, token = id, lease_expires_at = now()",
        "status = 'running', attempt = 1, started_at = now(), worker = id, token = id, lease_expires_at = now(), unmet_dependencies = 1",
        "token = id",
        "worker = id",
        "lease_expires_at = now()",
        "status = 'dead'",
        "finished_at = now()",
        "result = '1'",
        "series_id = id",
    ],
)
def test_a_job_that_contradicts_itself_is_refused(change: str, connection: Connection) -> None:
    put(connection)
    with pytest.raises((psycopg.errors.CheckViolation, psycopg.errors.ForeignKeyViolation)):
        connection.execute(SET + change)


def test_a_job_cannot_depend_on_itself_or_on_nobody(connection: Connection) -> None:
    job_id = put(connection)
    insert = "INSERT INTO dilamme.job_dependencies VALUES (%s, %s)"
    with pytest.raises(psycopg.errors.CheckViolation):
        connection.execute(insert, (job_id, job_id))
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        connection.execute(insert, (job_id, "01890a5d-ac96-774b-bcce-b302099a8057"))


def test_a_parent_cannot_be_deleted_from_under_its_edge(connection: Connection) -> None:
    """The gate never opens by absence. Nor is the child deleted with it."""
    parent = put(connection)
    child = put(connection, dependency_ids=[parent])
    with pytest.raises(psycopg.errors.IntegrityError):
        connection.execute("DELETE FROM dilamme.jobs WHERE id = %s", (parent,))
    connection.execute("DELETE FROM dilamme.jobs WHERE id = %s", (child,))
    connection.execute("DELETE FROM dilamme.jobs WHERE id = %s", (parent,))


def test_a_series_has_one_live_occurrence(connection: Connection) -> None:
    """The other one has a slot of its own, so that it is not the slot which is refused."""
    series = row(connection, put(connection, interval_seconds=60))["series_id"]
    other = put(connection, scheduled_at="2999-01-01T00:00:00Z")
    with pytest.raises(psycopg.errors.UniqueViolation):
        connection.execute(SET + "series_id = %s WHERE id = %s", (series, other))
    connection.execute(SET + "series_id = %s, replayed = true WHERE id = %s", (series, other))


def test_a_series_has_one_job_a_slot(connection: Connection) -> None:
    """Also where one of the two has ended long ago."""
    first = put(connection, interval_seconds=60)
    stored = row(connection, first)
    complete(connection, *claim(connection))
    other = put(connection)
    with pytest.raises(psycopg.errors.UniqueViolation):
        connection.execute(
            SET + "series_id = %s, scheduled_at = %s, replayed = true WHERE id = %s",
            (stored["series_id"], stored["scheduled_at"], other),
        )


@pytest.mark.parametrize(
    "change", ["state = 'invited'", "state = 'started', token = gen_random_uuid()", "token = gen_random_uuid()", "slot = 0", "state = 'x'"]
)  # fmt: skip
def test_a_slot_that_contradicts_itself_is_refused(change: str, connection: Connection) -> None:
    connection.execute("DELETE FROM dilamme.worker_slots")
    connection.execute("INSERT INTO dilamme.worker_slots (slot) VALUES (1)")
    with pytest.raises(psycopg.errors.CheckViolation):
        connection.execute("UPDATE dilamme.worker_slots SET " + change)


def test_there_is_one_lease_of_a_leader(connection: Connection) -> None:
    for single, error in ((True, psycopg.errors.UniqueViolation), (False, psycopg.errors.CheckViolation)):
        with pytest.raises(error):
            connection.execute("INSERT INTO dilamme.scheduler_lease VALUES (%s, 0, NULL, now(), now())", (single,))
