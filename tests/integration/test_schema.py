"""Migrations: once, in one transaction, whoever else migrates; and functions that refuse a schema they do not know."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from threading import Barrier

import psycopg
import pytest

from dilamme.domain.errors import SchemaError
from dilamme.settings import Settings
from dilamme.store import schema as store
from dilamme.store import slots
from dilamme.store.connection import Connection, connect
from dilamme.testing.databases import Databases
from dilamme.usecases.migrate import Migrated, check, migrate
from tests.integration.workshop import Workshop
from tests.support.entrance import Entrance
from tests.support.jobs import put, tally

Open = Callable[[], Connection]


@pytest.fixture
def open_empty(databases: Databases) -> Iterator[Open]:
    """Opens connections to a database with nothing in it."""
    name = databases.create_empty()
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(connect(databases.server.url(name))))
    databases.drop(name)


def _newer(connection: Connection, compatible_from: int) -> None:
    connection.execute(
        "INSERT INTO dilamme.schema_migrations (version, name, checksum, compatible_from) VALUES (%s, 'future', 'x', %s)",
        (store.known_version() + 1, compatible_from),
    )


def test_migrating_twice_is_the_same_as_once(open_empty: Open, settings: Settings) -> None:
    connection = open_empty()
    versions = [step.version for step, _ in store.steps()]
    assert migrate(connection, settings) == Migrated(versions, store.known_version(), roles=True)
    put(connection)
    assert migrate(connection, settings) == Migrated([], store.known_version(), roles=True)
    assert tally(connection) == {"pending": 1}
    check(connection)


@pytest.mark.case("S7")
def test_of_migrators_in_parallel_one_applies_and_the_others_find_nothing_to_do(
    open_empty: Open, settings: Settings
) -> None:
    connections = [open_empty() for _ in range(4)]
    barrier = Barrier(4)

    def run(connection: Connection) -> list[int]:
        barrier.wait()
        return migrate(connection, settings).applied

    with ThreadPoolExecutor(max_workers=4) as executor:
        applied = sorted(executor.map(run, connections))
    assert applied == [[], [], [], [step.version for step, _ in store.steps()]]


def test_a_migration_that_fails_leaves_nothing_behind(
    open_empty: Open, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = open_empty()
    broken = store.Step(store.known_version() + 1, "broken", "x", 1)
    known = store.steps()
    monkeypatch.setattr(store, "steps", lambda: (*known, (broken, "SELECT 1 / 0")))
    with pytest.raises(psycopg.errors.DivisionByZero):
        migrate(connection, settings)
    assert store.applied(connection) == []
    assert connection.execute("SELECT to_regnamespace('dilamme')").fetchone() == (None,)


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_that_cannot_hold_every_text_is_refused(
    databases: Databases, settings: Settings, encoding: str
) -> None:
    name = databases.create_empty(encoding)
    try:
        with (
            closing(connect(databases.server.url(name))) as connection,
            pytest.raises(SchemaError, match=f"{encoding}, which cannot hold every payload"),
        ):
            migrate(connection, settings)
    finally:
        databases.drop(name)


def test_a_database_that_was_never_migrated_is_refused_with_what_to_do(open_empty: Open) -> None:
    with pytest.raises(SchemaError, match="run the migrate function"):
        check(open_empty())


def test_a_database_that_is_behind_is_refused_with_what_to_do(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "known_version", lambda: 99)
    with pytest.raises(SchemaError, match="needs 99: run the migrate function"):
        check(connection)


def test_a_newer_schema_is_accepted_if_it_serves_this_code(connection: Connection) -> None:
    """During a deployment the schema is newer than the functions for a while."""
    _newer(connection, compatible_from=store.known_version())
    check(connection)


def test_a_newer_schema_is_refused_if_it_does_not_serve_this_code(connection: Connection) -> None:
    _newer(connection, compatible_from=store.known_version() + 1)
    with pytest.raises(SchemaError, match="deploy a newer version"):
        check(connection)


def test_an_older_migrator_does_not_touch_a_newer_schema(connection: Connection, settings: Settings) -> None:
    _newer(connection, compatible_from=1)
    with pytest.raises(SchemaError, match="does not know"):
        migrate(connection, settings)


def test_a_migration_that_was_changed_after_it_was_applied_is_refused(
    connection: Connection, settings: Settings
) -> None:
    connection.execute("UPDATE dilamme.schema_migrations SET checksum = 'other' WHERE version = 1")
    with pytest.raises(SchemaError, match="was changed after it had been applied"):
        migrate(connection, settings)


def test_a_migration_that_is_new_is_applied_to_a_database_with_jobs(
    connection: Connection, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(connection)
    new = store.Step(store.known_version() + 1, "new", "x", 1)
    known = store.steps()
    monkeypatch.setattr(store, "steps", lambda: (*known, (new, "CREATE TABLE dilamme.later ()")))
    assert migrate(connection, settings).applied == [new.version]
    assert [step.version for step in store.applied(connection)][-1] == new.version
    assert tally(connection) == {"pending": 1}


def test_without_the_right_to_create_roles_everything_works_under_the_users_own_name(
    databases: Databases, settings: Settings
) -> None:
    """Then each transaction brings its limits along."""
    name = databases.create_empty()
    with psycopg.connect(databases.server.url(name), autocommit=True) as superuser:
        superuser.execute("CREATE ROLE plain LOGIN PASSWORD 'plain'")
        superuser.execute(f'ALTER DATABASE "{name}" OWNER TO plain')
    url = f"postgresql://plain:plain@127.0.0.1:{databases.server.port}/{name}"
    try:
        with closing(connect(url)) as connection:
            migrated = migrate(connection, settings)
            assert migrated.roles is False
            check(connection)
            workshop = Workshop(Entrance(databases.server, name), settings)
            workshop.url = url
            parent = put(connection)
            put(connection, dependency_ids=[parent])
            workshop.work()
            assert tally(connection) == {"completed": 2}
    finally:
        databases.drop(name)
        with psycopg.connect(databases.server.url(), autocommit=True) as superuser:
            superuser.execute("DROP ROLE plain")


@pytest.mark.case("E5")
def test_an_owner_beside_whom_another_made_the_roles_goes_on_with_them(
    databases: Databases, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """A second installation on the server: since PostgreSQL 16 only who made a role may alter it."""
    name = databases.create_empty()
    with psycopg.connect(databases.server.url(name), autocommit=True) as superuser:
        superuser.execute("CREATE ROLE second LOGIN CREATEROLE PASSWORD 'second'")
        superuser.execute(f'ALTER DATABASE "{name}" OWNER TO second')
    url = f"postgresql://second:second@127.0.0.1:{databases.server.port}/{name}"
    try:
        with closing(connect(url)) as connection:
            for _ in range(2):
                assert migrate(connection, settings).roles is True
            assert "left as they are: dilamme_api, dilamme_scheduler, dilamme_worker, dilamme_rescue" in caplog.text
            parent = put(connection)
            put(connection, dependency_ids=[parent])
            Workshop(Entrance(databases.server, name), settings).work()
            assert tally(connection) == {"completed": 2}
    finally:
        databases.drop(name)
        with psycopg.connect(databases.server.url(), autocommit=True) as superuser:
            superuser.execute("DROP ROLE second")


def test_what_a_role_carries_is_set_anew_by_each_migration(connection: Connection, settings: Settings) -> None:
    def carried() -> dict[str, list[str]]:
        found = connection.execute(
            "SELECT rolname, setconfig FROM pg_db_role_setting JOIN pg_roles ON pg_roles.oid = setrole"
            " WHERE setdatabase = 0 AND rolname LIKE 'dilamme%'"
        ).fetchall()
        return {role: sorted(settings) for role, settings in found}

    before = carried()
    assert before["dilamme_api"] == [
        "default_transaction_isolation=read committed",
        "idle_in_transaction_session_timeout=10s",
        "idle_session_timeout=20min",
        "jit=off",
        "lock_timeout=5s",
        "statement_timeout=10s",
    ]
    assert {role: len(settings) for role, settings in before.items()} == dict.fromkeys(store.ROLES, 6)
    connection.execute("ALTER ROLE dilamme_worker RESET ALL")
    migrate(connection, settings)
    assert carried() == before


@pytest.mark.parametrize(("before", "after"), [(10, 3), (3, 12)])
def test_the_number_of_slots_follows_the_setting(
    connection: Connection, settings: Settings, before: int, after: int
) -> None:
    slots.provide_slots(connection, before)
    migrate(connection, settings.model_copy(update={"worker_slots": after}))
    assert connection.execute("SELECT count(*) FROM dilamme.worker_slots").fetchone() == (after,)


def test_a_slot_in_use_outlives_a_smaller_setting_until_it_is_free(connection: Connection, workshop: Workshop) -> None:
    events = [workshop.reserve() for _ in range(3)]
    slots.provide_slots(connection, 1)
    assert connection.execute("SELECT count(*) FROM dilamme.worker_slots").fetchone() == (3,)
    slots.free(connection, [event.token for event in events])
    slots.provide_slots(connection, 1)
    assert connection.execute("SELECT count(*) FROM dilamme.worker_slots").fetchone() == (1,)
