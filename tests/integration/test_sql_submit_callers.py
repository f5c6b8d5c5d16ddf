"""`dilamme.submit` in SQL from whatever an application speaks to PostgreSQL with: its job exists exactly if its row does."""

import asyncio
import json
import os
import subprocess
import sys
from contextlib import closing
from uuid import UUID

import asyncpg  # type: ignore[import-untyped]
import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

import dilamme
from dilamme.store.connection import Connection
from dilamme_local.postgres_commands import binary
from tests.integration.workshop import Workshop
from tests.support.entrance import Entrance
from tests.support.jobs import row

# Each stores an order and its job in one transaction, and commits it or rolls it back.


def by_psycopg(url: str, commits: bool) -> None:
    with closing(psycopg.connect(url)) as connection:
        connection.execute("INSERT INTO orders VALUES (7)")
        connection.execute(
            "SELECT dilamme.submit('mail.welcome', %s::jsonb, priority => %s)", (json.dumps({"order": 7}), 1)
        )
        (connection.commit if commits else connection.rollback)()


def by_psycopg_async(url: str, commits: bool) -> None:
    async def store() -> None:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            await connection.execute("INSERT INTO orders VALUES (7)")
            await connection.execute(
                "SELECT dilamme.submit('mail.welcome', %s::jsonb, priority => %s)", (json.dumps({"order": 7}), 1)
            )
            await (connection.commit if commits else connection.rollback)()

    asyncio.run(store())


def by_submit_async(url: str, commits: bool) -> None:
    async def store() -> None:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            await connection.execute("INSERT INTO orders VALUES (7)")
            await dilamme.submit_async(connection, "mail.welcome", {"order": 7}, priority=1)
            await (connection.commit if commits else connection.rollback)()

    asyncio.run(store())


def by_asyncpg(url: str, commits: bool) -> None:
    async def store() -> None:
        connection = await asyncpg.connect(url, statement_cache_size=0)  # as behind a pooler
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("INSERT INTO orders VALUES (7)")
        job_id = await connection.fetchval(
            "SELECT dilamme.submit('mail.welcome', $1, priority => $2)", json.dumps({"order": 7}), 1
        )
        assert isinstance(job_id, UUID)
        await (transaction.commit if commits else transaction.rollback)()
        await connection.close()

    asyncio.run(store())


def by_sqlalchemy(url: str, commits: bool) -> None:
    async def store() -> None:
        address = url.replace("postgresql://", "postgresql+asyncpg://")
        engine = create_async_engine(
            address, connect_args={"statement_cache_size": 0, "prepared_statement_name_func": lambda: ""}
        )
        async with AsyncSession(engine) as session:
            await session.execute(text("INSERT INTO orders VALUES (7)"))
            await session.execute(
                text("SELECT dilamme.submit('mail.welcome', CAST(:payload AS jsonb), priority => :priority)"),
                {"payload": json.dumps({"order": 7}), "priority": 1},
            )
            await (session.commit if commits else session.rollback)()
        await engine.dispose()

    asyncio.run(store())


def by_sqlalchemy_on_psycopg(url: str, commits: bool) -> None:
    async def store() -> None:
        engine = create_async_engine(url.replace("postgresql://", "postgresql+psycopg://"))
        async with AsyncSession(engine) as session:
            await session.execute(text("INSERT INTO orders VALUES (7)"))
            raw = (await (await session.connection()).get_raw_connection()).driver_connection
            assert isinstance(raw, psycopg.AsyncConnection)
            await dilamme.submit_async(raw, "mail.welcome", {"order": 7}, priority=1)
            await (session.commit if commits else session.rollback)()
        await engine.dispose()

    asyncio.run(store())


DJANGO = """
import json, os
from urllib.parse import urlsplit
import django
from django.conf import settings
url = urlsplit(os.environ["URL"])
settings.configure(DATABASES={"default": {
    "ENGINE": "django.db.backends.postgresql", "NAME": url.path[1:], "USER": url.username, "PASSWORD": url.password,
    "HOST": url.hostname, "PORT": url.port, "DISABLE_SERVER_SIDE_CURSORS": True}})
django.setup()
from django.db import connection, transaction
try:
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO orders VALUES (7)")
            cursor.execute(
                "SELECT dilamme.submit('mail.welcome', %s, priority => %s)", [json.dumps({"order": 7}), 1])
        if os.environ["COMMITS"] == "no":
            raise LookupError
except LookupError:
    pass
"""


def by_django(url: str, commits: bool) -> None:
    environment = {**os.environ, "URL": url, "COMMITS": "yes" if commits else "no"}
    subprocess.run([sys.executable, "-c", DJANGO], env=environment, check=True, timeout=60)


def by_psql(url: str, commits: bool) -> None:
    script = f"""
        BEGIN;
        INSERT INTO orders VALUES (7);
        SELECT dilamme.submit('mail.welcome', '{{"order": 7}}', priority => 1);
        {"COMMIT" if commits else "ROLLBACK"};
    """
    command = [str(binary("psql")), "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--quiet", url]
    subprocess.run(command, input=script, text=True, check=True, timeout=60, capture_output=True)


TRIGGER = """
    CREATE FUNCTION welcome() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM dilamme.submit('mail.welcome', jsonb_build_object('order', NEW.number), priority => 1);
        RETURN NULL;
    END $$;
    CREATE TRIGGER welcome AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION welcome()
"""


def by_a_trigger(url: str, commits: bool) -> None:
    with closing(psycopg.connect(url)) as connection:
        connection.execute(TRIGGER)
        connection.commit()
        connection.execute("INSERT INTO orders VALUES (7)")
        (connection.commit if commits else connection.rollback)()


STORES = {
    "psycopg": by_psycopg,
    "psycopg, async": by_psycopg_async,
    "dilamme.submit_async": by_submit_async,
    "asyncpg": by_asyncpg,
    "SQLAlchemy, async": by_sqlalchemy,
    "SQLAlchemy, async, on psycopg": by_sqlalchemy_on_psycopg,
    "Django": by_django,
    "psql": by_psql,
    "a trigger": by_a_trigger,
}


@pytest.mark.parametrize("commits", [True, False], ids=["commits", "rolls back"])
@pytest.mark.parametrize("caller", STORES)
def test_the_job_exists_exactly_if_the_row_does(
    connection: Connection, entrance: Entrance, caller: str, commits: bool
) -> None:
    connection.execute("CREATE TABLE orders (number integer)")
    STORES[caller](entrance.superuser_url, commits)
    assert connection.execute("SELECT * FROM orders").fetchall() == [(7,)] * commits
    found = connection.execute("SELECT type, payload, priority FROM dilamme.jobs").fetchall()
    assert found == [("mail.welcome", {"order": 7}, 1)] * commits


def test_a_statement_on_many_rows_stores_a_job_for_each_or_none(connection: Connection) -> None:
    """A refusal in the trigger takes the row back too."""
    connection.execute("CREATE TABLE orders (number integer CHECK (number < 1000))")
    connection.execute(TRIGGER)
    connection.execute("INSERT INTO orders SELECT generate_series(1, 500)")
    with pytest.raises(psycopg.errors.CheckViolation):
        connection.execute("INSERT INTO orders SELECT generate_series(501, 1000)")
    found = connection.execute("SELECT (payload->>'order')::integer FROM dilamme.jobs ORDER BY id").fetchall()
    assert found == [(number,) for number in range(1, 501)]


def test_a_worker_runs_what_sql_has_stored(connection: Connection, workshop: Workshop) -> None:
    seen = []

    @workshop.registry.job("mail.welcome")
    def welcome(payload: object, context: dilamme.Context) -> None:
        seen.append(payload)

    payload = '{"b": [1, 1.5, 1e16, 0.00001, null, true, "\u00e9\U0001f600"], "a": {"": {}}, "big": 123456789012345678901234567890}'
    found = connection.execute("SELECT dilamme.submit('mail.welcome', %s)", (payload,)).fetchone()
    dilamme.submit(connection, "mail.welcome", json.loads(payload))
    workshop.work()
    assert found is not None
    assert row(connection, found[0])["status"] == "completed"
    assert seen == [json.loads(payload)] * 2
    assert repr(seen[0]) == repr(seen[1])


def test_asyncpg_learns_which_argument_is_refused_and_why(entrance: Entrance) -> None:
    async def store() -> tuple[str, str, str]:
        connection = await asyncpg.connect(entrance.superuser_url, statement_cache_size=0)
        try:
            with pytest.raises(asyncpg.InvalidParameterValueError) as refused:
                await connection.fetchval("SELECT dilamme.submit('mail.welcome', priority => $1)", 9)
        finally:
            await connection.close()
        return refused.value.sqlstate, refused.value.column_name, str(refused.value)

    assert asyncio.run(store()) == ("22023", "priority", "priority must be 1 (high), 2 (medium) or 3 (low), not 9")
