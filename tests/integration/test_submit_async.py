"""`await dilamme.submit_async`: as `submit`, on an AsyncConnection, by the SQL function."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import closing
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, TypeVar
from uuid import UUID

import psycopg
import psycopg.rows as rows_as
import pytest

import dilamme
from dilamme.domain.errors import ConfigurationError, Conflict, Fault, InvalidInput, SchemaError, TooLarge
from dilamme.store.connection import Connection
from dilamme.testing.databases import Databases
from tests.support.entrance import Entrance
from tests.support.jobs import ECHO, put, row, tally

T = TypeVar("T")
AsyncConnection = psycopg.AsyncConnection[Any]
UNKNOWN = UUID(int=42)


def on_a_connection(url: str, use: Callable[[AsyncConnection], Coroutine[Any, Any, T]], **options: Any) -> T:
    """What ``use`` returns, of a connection as applications open theirs; closed without a commit."""

    async def main() -> T:
        caller = await psycopg.AsyncConnection.connect(url, **options)
        try:
            return await use(caller)
        finally:
            await caller.close()

    return asyncio.run(main())


@pytest.mark.parametrize(("end", "jobs", "orders"), [("commit", {"pending": 1}, 1), ("rollback", {}, 0)])
@pytest.mark.parametrize("first", ["the job", "the data"])
def test_job_and_data_share_one_fate(
    connection: Connection, entrance: Entrance, first: str, end: str, jobs: dict[str, int], orders: int
) -> None:
    """Also where the submission opens the transaction."""
    connection.execute("CREATE TABLE orders (number integer)")

    async def store(caller: AsyncConnection) -> None:
        if first == "the job":
            await dilamme.submit_async(caller, ECHO, {"order": 1})
        await caller.execute("INSERT INTO orders VALUES (1)")
        if first == "the data":
            await dilamme.submit_async(caller, ECHO, {"order": 1})
        assert tally(connection) == {}
        await getattr(caller, end)()

    on_a_connection(entrance.superuser_url, store)
    assert tally(connection) == jobs
    assert connection.execute("SELECT count(*) FROM orders").fetchone() == (orders,)


def test_in_autocommit_mode_a_job_is_stored_at_once(connection: Connection, entrance: Entrance) -> None:
    on_a_connection(entrance.superuser_url, lambda caller: dilamme.submit_async(caller, ECHO), autocommit=True)
    assert tally(connection) == {"pending": 1}


def test_a_job_is_stored_as_submit_stores_it(connection: Connection, entrance: Entrance) -> None:
    parents = [put(connection), put(connection)]
    arguments: dict[str, Any] = {
        "payload": {"a": [1, None, 1e16, "é\x7f"]},
        "priority": 3,
        "scheduled_at": datetime(2031, 5, 4, 3, 2, 1, tzinfo=UTC),
        "interval_seconds": 60,
        "dependency_ids": {*parents},
        "max_attempts": 5,
        "on_dependency_failure": "cancel",
    }
    expected = row(connection, dilamme.submit(connection, ECHO, **arguments))

    async def store(caller: AsyncConnection) -> UUID:
        return await dilamme.submit_async(caller, ECHO, **arguments)

    found = row(connection, on_a_connection(entrance.superuser_url, store, autocommit=True))
    own = ("id", "created_at", "series_id")
    assert {**found, **dict.fromkeys(own)} == {**expected, **dict.fromkeys(own)}
    assert found["series_id"]


@pytest.mark.parametrize("first", ["submit", "submit_async"])
def test_a_key_is_the_same_to_both(connection: Connection, entrance: Entrance, first: str) -> None:
    payload = {"a": 1e16, "b": [1.5, -2e-9]}

    async def store(caller: AsyncConnection) -> list[UUID]:
        return [await dilamme.submit_async(caller, ECHO, payload, idempotency_key="key") for _ in range(2)]

    ids = []
    for call in ("submit", "submit_async") if first == "submit" else ("submit_async", "submit"):
        if call == "submit":
            ids.append(dilamme.submit(connection, ECHO, payload, idempotency_key="key"))
        else:
            ids += on_a_connection(entrance.superuser_url, store, autocommit=True)
    assert len({*ids}) == 1
    assert tally(connection) == {"pending": 1}


def test_a_refused_submission_leaves_the_callers_transaction_usable_and_nothing_behind(
    connection: Connection, entrance: Entrance
) -> None:
    """The faults are those of `submit`, word for word."""
    connection.execute("CREATE TABLE orders (number integer)")
    known = put(connection)
    wrong: list[dict[str, Any]] = [
        {"type": "No Type"},
        {"priority": 4, "max_attempts": 0},
        {"dependency_ids": [UNKNOWN, known, UUID(int=43), UNKNOWN], "interval_seconds": 60, "idempotency_key": "key"},
        {"payload": "x" * 300_000},
        {"idempotency_key": " "},
        {"dependency_ids": None},
    ]

    async def store(caller: AsyncConnection) -> None:
        await caller.execute("INSERT INTO orders VALUES (1)")
        for arguments in wrong:
            with pytest.raises(InvalidInput) as expected:
                dilamme.submit(connection, **{"type": ECHO, **arguments})
            with pytest.raises(InvalidInput) as found:
                await dilamme.submit_async(caller, **{"type": ECHO, **arguments})
            assert found.value.faults == expected.value.faults
            assert type(found.value) is type(expected.value)
        await dilamme.submit_async(caller, ECHO, idempotency_key="other")
        with pytest.raises(Conflict, match="'other' stands for another request"):
            await dilamme.submit_async(caller, ECHO, priority=1, idempotency_key="other")
        await caller.commit()

    on_a_connection(entrance.superuser_url, store)
    assert connection.execute("SELECT * FROM orders").fetchall() == [(1,)]
    assert connection.execute("SELECT key FROM dilamme.idempotency_keys").fetchall() == [("other",)]
    assert connection.execute("SELECT count(*) FROM dilamme.series").fetchone() == (0,)


@pytest.mark.parametrize(
    ("payload", "fault"),
    [(10**309, Fault("/payload", "is not JSON: it holds a number beyond 1.8e308: send it as a string"))],
)
def test_what_only_the_database_refuses_names_the_argument_too(entrance: Entrance, payload: Any, fault: Fault) -> None:
    async def store(caller: AsyncConnection) -> tuple[Fault, ...]:
        with pytest.raises(InvalidInput) as refused:
            await dilamme.submit_async(caller, ECHO, payload)
        assert not isinstance(refused.value, TooLarge)
        return refused.value.faults

    assert on_a_connection(entrance.superuser_url, store) == (fault,)


CONNECTIONS: dict[str, dict[str, Any]] = {
    "rows as dictionaries": {"row_factory": rows_as.dict_row},
    "rows as objects": {"row_factory": rows_as.class_row(SimpleNamespace)},
    "values bound by the client": {"cursor_factory": psycopg.AsyncClientCursor},
    "placeholders as PostgreSQL's": {"cursor_factory": psycopg.AsyncRawCursor},
}


@pytest.mark.parametrize("kind", CONNECTIONS)
def test_whatever_cursors_and_rows_the_callers_connection_makes_the_job_is_stored(
    connection: Connection, entrance: Entrance, kind: str
) -> None:
    async def store(caller: AsyncConnection) -> list[UUID]:
        found = [await dilamme.submit_async(caller, ECHO, {"a": 1}, idempotency_key="key") for _ in range(8)]
        await caller.commit()
        return found

    ids = on_a_connection(entrance.superuser_url, store, **CONNECTIONS[kind])
    assert {*ids} == {row(connection, ids[0])["id"]}


@pytest.mark.parametrize("wrong", [None, "postgresql://", 5, "a sync one"])
def test_what_is_no_async_connection_is_told_what_is(connection: Connection, wrong: Any) -> None:
    caller: Any = connection if wrong == "a sync one" else wrong
    with pytest.raises(TypeError, match=r"psycopg\.AsyncConnection.*dilamme\.submit"):
        asyncio.run(dilamme.submit_async(caller, ECHO))


def test_submit_points_from_an_async_connection_to_submit_async(entrance: Entrance) -> None:
    async def store(caller: AsyncConnection) -> None:
        with pytest.raises(TypeError, match=r"await dilamme\.submit_async"):
            dilamme.submit(caller, ECHO)  # type: ignore[arg-type]

    on_a_connection(entrance.superuser_url, store)


def test_a_connection_that_cannot_send_every_text_is_refused(entrance: Entrance) -> None:
    async def store(caller: AsyncConnection) -> None:
        with pytest.raises(ConfigurationError, match="client_encoding='UTF8'"):
            await dilamme.submit_async(caller, ECHO)

    on_a_connection(entrance.superuser_url, store, client_encoding="LATIN1")


def test_in_a_database_without_the_schema_it_says_so_and_the_callers_data_stand(databases: Databases) -> None:
    name = databases.create_empty()

    async def store(caller: AsyncConnection) -> None:
        await caller.execute("CREATE TABLE orders (number integer)")
        with pytest.raises(SchemaError, match="run the migrate function"):
            await dilamme.submit_async(caller, ECHO)
        await caller.commit()

    on_a_connection(databases.server.url(name), store)
    with closing(psycopg.connect(databases.server.url(name))) as looker:
        assert looker.execute("SELECT count(*) FROM orders").fetchone() == (0,)
    databases.drop(name)


def test_an_error_of_postgresqls_stays_one(connection: Connection, entrance: Entrance) -> None:
    async def store(caller: AsyncConnection) -> None:
        await caller.execute("SET default_transaction_read_only = on")
        await caller.commit()
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            await dilamme.submit_async(caller, ECHO)

    on_a_connection(entrance.superuser_url, store)
    assert tally(connection) == {}
