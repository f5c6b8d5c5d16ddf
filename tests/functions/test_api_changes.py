"""The database changes under a warm API: it takes no writes, or its schema no longer serves this code."""

import time

import pytest
from psycopg.sql import SQL, Identifier

from dilamme import session
from dilamme.store.connection import Connection
from tests.functions.door import get, post
from tests.support.answers import Answer
from tests.support.jobs import tally

JOB = {"type": "demo.echo"}


def _problem(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.json["type"].removeprefix("urn:dilamme:problem:")


def _new_sessions(connection: Connection, *, read_only: bool) -> None:
    state = SQL("SET default_transaction_read_only = on" if read_only else "RESET default_transaction_read_only")
    connection.execute(SQL("ALTER DATABASE {} {}").format(Identifier(connection.info.dbname), state))


@pytest.mark.case("E1")
@pytest.mark.usefixtures("door")
def test_a_session_that_takes_no_writes_is_replaced_as_soon_as_another_may_take_them(connection: Connection) -> None:
    """The session is older than the failover's end: for itself it stays read-only for ever."""
    _new_sessions(connection, read_only=True)
    for answer in (post("/jobs", JOB), get("/health"), post("/jobs", JOB, key="a")):
        assert _problem(answer) == (503, "database-read-only")
        assert "takes no writes" in answer.json["detail"]
        assert answer.headers["retry-after"]
    assert get("/jobs").json["jobs"] == []
    _new_sessions(connection, read_only=False)
    post("/jobs", JOB)
    assert post("/jobs", JOB).status == 201
    assert get("/health").status == 200


@pytest.mark.case("E1")
@pytest.mark.usefixtures("door")
def test_a_warm_session_that_has_become_read_only_is_replaced_before_it_is_used(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the primary that it leads to has been demoted in a quiet time."""
    assert post("/jobs", JOB).status == 201
    session.connection().execute("SET default_transaction_read_only = on")
    monkeypatch.setattr(session, "FRESH_SECONDS", 0)
    assert get("/health").status == 200
    assert post("/jobs", JOB).status == 201
    assert tally(connection) == {"pending": 2}


@pytest.mark.case("E8")
@pytest.mark.usefixtures("door")
def test_a_schema_that_becomes_incompatible_is_refused_within_a_minute(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert post("/jobs", JOB).status == 201
    connection.execute("INSERT INTO dilamme.schema_migrations VALUES (99, 'future', '', 99)")
    now = time.time() + 60
    monkeypatch.setattr(time, "time", lambda: now)
    for answer in (post("/jobs", JOB), get("/jobs"), get("/health")):
        assert _problem(answer) == (503, "database-not-ready")
        assert "deploy a newer version" in answer.json["detail"]
    connection.execute("DELETE FROM dilamme.schema_migrations WHERE version = 99")
    assert post("/jobs", JOB).status == 201


@pytest.mark.case("E8")
@pytest.mark.usefixtures("door")
def test_the_schema_is_not_looked_at_with_every_request(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be two of four statements of a POST."""
    looks: list[object] = []
    monkeypatch.setattr(session, "check", looks.append)
    for _ in range(5):
        assert post("/jobs", JOB).status == 201
    assert len(looks) == 1
