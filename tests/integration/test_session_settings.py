"""Settings that a server, a database, a role or the environment brings along change nothing of what Dilamme does."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL, Identifier, Literal

import dilamme
from dilamme.domain.errors import ConfigurationError
from dilamme.settings import Settings
from dilamme.store import schema as store
from dilamme.store.connection import Connection, connect, one_statement, transaction
from dilamme.store.reads import Filter
from dilamme.testing.databases import Databases
from dilamme.usecases import cancel, read, replay
from dilamme.usecases.migrate import migrate
from tests.integration.scheduler import Scheduler
from tests.integration.workshop import Workshop
from tests.support.entrance import Entrance
from tests.support.jobs import put, put_many, rows

FUNCTIONS = ("api", "scheduler", "worker", "rescue")
TEXT = "Zoë \\d+ ☃ '"
# Each as far from what we need as it can be set. Left out are those that only a superuser may set (session_replication_role),
# and those that an owner may wish for (synchronous_commit, work_mem, default_transaction_read_only).
SITUATIONS: dict[str, dict[str, str]] = {
    "arrays": {"array_nulls": "off"},
    "LATIN1": {"client_encoding": "LATIN1"},
    "SQL_ASCII": {"client_encoding": "SQL_ASCII"},
    "spelling": {
        "bytea_output": "escape",
        "DateStyle": "SQL, DMY",
        "escape_string_warning": "on",
        "extra_float_digits": "-15",
        "IntervalStyle": "sql_standard",
        "lc_messages": "C",
        "quote_all_identifiers": "on",
        "standard_conforming_strings": "off",
        "TimeZone": "Asia/Kolkata",
        "xmloption": "document",
    },
    "meaning": {"row_security": "off", "search_path": "", "transform_null_equals": "on"},
    "isolation": {"default_transaction_isolation": "serializable", "default_transaction_deferrable": "on"},
    "limits": {
        "idle_in_transaction_session_timeout": "2s",
        "idle_session_timeout": "5s",
        "lock_timeout": "1s",
        "statement_timeout": "2s",
        "transaction_timeout": "2s",
    },
    "plans": {
        "enable_hashjoin": "off",
        "enable_indexscan": "off",
        "enable_nestloop": "off",
        "from_collapse_limit": "1",
        "jit_above_cost": "0",
        "join_collapse_limit": "1",
        "plan_cache_mode": "force_generic_plan",
    },
}
STORY = {
    "status": ["completed", "completed", "pending", "completed", "dead", "completed", "completed"],
    "attempts": [None, 7, 1],
    "policies": ["wait", "cancel"],
    "scheduled": "2200-02-01T02:04:05.000678+00:00",
    "same": True,
    "dispatched": True,
    "result": {"text": TEXT, "number": 0.1},
    "sum": [1, {"text": TEXT, "number": 0.1}],
    "errors": [f"ValueError: {TEXT}"] * 2,
    "replayed": True,
    "why": ["not_due"],
    "listed": 7,
    "completed": 4,
    "ended": True,
}


def _set(connection: Connection, whom: SQL | psycopg.sql.Composed, settings: dict[str, str]) -> None:
    known = {name.lower() for (name,) in connection.execute("SELECT name FROM pg_settings").fetchall()}
    for name, value in settings.items():
        if name.lower() in known:
            statement = SQL("ALTER {} SET {} = {}").format(whom, Identifier(name), Literal(value))
            connection.execute(statement)


def _database(name: str) -> psycopg.sql.Composed:
    return SQL("DATABASE {}").format(Identifier(name))


@pytest.fixture
def situation(connection: Connection, entrance: Entrance, request: pytest.FixtureRequest) -> None:
    """The database has these settings, from the next connection on."""
    _set(connection, _database(entrance.name), SITUATIONS[request.param])


def _whole_story(opened: dict[str, Connection], look: Connection, workshop: Workshop) -> dict[str, Any]:
    """What an API, a scheduler and workers do in a day, in short; ``look`` has no strange settings."""

    @workshop.registry.job("test.twice", max_attempts=2, timeout_seconds=0.5)
    def fail(payload: Any, context: Any) -> None:
        raise ValueError(TEXT)

    @workshop.registry.job("test.sum")
    def add(payload: Any, context: Any) -> Any:
        return [payload, *context.dependency_results.values()]

    api = opened["api"]
    first, child, later, recurring, doomed = put_many(
        api,
        [
            {"ref": "a", "payload": {"text": TEXT, "number": 0.1}, "priority": 3},
            {"type": "test.sum", "payload": 1, "dependencyRefs": ["a"], "onDependencyFailure": "cancel"},
            {"scheduledAt": "2200-02-01T03:04:05.000678+01:00"},
            {"intervalSeconds": 3600, "maxAttempts": 7},
            {"type": "test.twice", "priority": 1, "maxAttempts": 1},
        ],
    )
    again = [put(api, "a key", payload=TEXT) for _ in range(2)]
    leader = Scheduler(opened["scheduler"], workshop.settings)
    dispatched = leader.tick()
    leader.close()
    workshop.work()
    replayed = replay.replay_job(api, doomed)
    workshop.work()
    seen = {one.id: one for one in (read.find_job(api, workshop.settings, job) for job in (first, child, doomed))}
    why = read.explain_job(api, workshop.settings, later)
    series = read.find_job(api, workshop.settings, recurring).series_id
    assert series is not None
    ended = cancel.cancel_series(api, series)
    return {
        "status": [row["status"] for row in rows(look, [first, child, later, recurring, doomed, *again])],
        "attempts": [row["max_attempts"] for row in rows(look, [first, recurring, doomed])],
        "policies": [row["on_dependency_failure"] for row in rows(look, [first, child])],
        "scheduled": read.find_job(api, workshop.settings, later).scheduled_at.isoformat(),
        "same": again[0] == again[1],
        "dispatched": dispatched is not None and bool(dispatched.invoked),
        "result": seen[first].result,
        "sum": seen[child].result,
        "errors": [error.message for error in seen[doomed].errors],
        "replayed": replayed,
        "why": [because.cause for because in why.reasons],
        "listed": len(read.list_jobs(api, workshop.settings, Filter(None, None, None, None), 50, None).jobs),
        "completed": read.read_stats(api, workshop.settings).jobs.completed.count,
        "ended": ended,
    }


@pytest.fixture(params=["under their roles", "as the owner"])
def opened(entrance: Entrance, workshop: Workshop, request: pytest.FixtureRequest) -> Iterator[dict[str, Connection]]:
    """The functions' connections."""
    roles = request.param == "under their roles"
    urls = {name: entrance.url(name) if roles else entrance.superuser_url for name in FUNCTIONS}
    workshop.url = urls["worker"]
    with ExitStack() as stack:
        yield {name: stack.enter_context(closing(connect(url))) for name, url in urls.items()}


@pytest.mark.case("E2", "E6")
@pytest.mark.parametrize("situation", SITUATIONS, indirect=True)
def test_settings_of_the_database_change_nothing(
    situation: None, opened: dict[str, Connection], connection: Connection, workshop: Workshop
) -> None:
    assert _whole_story(opened, connection, workshop) == STORY


@pytest.mark.case("E2")
def test_the_environments_encoding_is_not_ours(
    entrance: Entrance, connection: Connection, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    with ExitStack() as stack:
        opened = {name: stack.enter_context(closing(connect(entrance.url(name)))) for name in FUNCTIONS}
        assert _whole_story(opened, connection, workshop) == STORY


@pytest.mark.case("E6")
def test_a_database_with_any_of_these_settings_is_migrated_as_any_other(
    databases: Databases, connection: Connection, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a migration that takes longer than the database lets others take."""
    slow = store.Step(store.known_version() + 1, "slow", "x", 1)
    known = store.steps()
    monkeypatch.setattr(store, "steps", lambda: (*known, (slow, "SELECT pg_sleep(0.8)")))
    name = databases.create_empty()
    try:
        for situation in SITUATIONS.values():
            _set(connection, _database(name), situation)
        _set(connection, _database(name), {"statement_timeout": "500ms", "transaction_timeout": "700ms"})
        with closing(connect(databases.server.url(name))) as strange:
            migrate(strange, settings)
        with closing(psycopg.connect(databases.server.url(name), client_encoding="UTF8")) as look:
            assert _checks(look) == _checks(connection)
    finally:
        databases.drop(name)


def _checks(connection: Connection) -> list[Any]:
    """Every constraint and function body of the schema."""
    statement = """
        SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = 'dilamme'::regnamespace
        UNION ALL SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'dilamme'::regnamespace ORDER BY 1, 2"""
    for name, value in {
        "statement_timeout": "0",
        "search_path": "",
        "standard_conforming_strings": "on",
        "quote_all_identifiers": "off",
    }.items():
        connection.execute("SELECT set_config(%s, %s, false)", (name, value))
    return connection.execute(statement).fetchall()


@pytest.mark.case("E6")
def test_each_statement_sees_what_was_committed_before_it(
    connection: Connection, entrance: Entrance, databases: Databases
) -> None:
    """Else a completion, which looks for children in its second statement, would miss one, and it would wait for ever."""
    _set(connection, _database(entrance.name), {"default_transaction_isolation": "repeatable read"})
    for url in (entrance.url("worker"), entrance.superuser_url):
        with closing(connect(url)) as opened:
            for block in (transaction, one_statement):
                with block(opened):
                    assert opened.execute("SHOW transaction_isolation").fetchone() == ("read committed",)


@pytest.mark.case("E2")
@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_callers_connection_in_another_encoding_is_refused_with_what_to_do(
    connection: Connection, entrance: Entrance, encoding: str
) -> None:
    """Its text would be stored as other text, or not at all."""
    with closing(psycopg.connect(entrance.superuser_url, client_encoding=encoding)) as caller:
        for call in (
            lambda: dilamme.submit(caller, "test.echo", {"text": TEXT}),
            lambda: dilamme.submit_many(caller, [{"type": "test.echo"}]),
        ):
            with pytest.raises(ConfigurationError, match=f"speaks {encoding}.*client_encoding='UTF8'"):
                call()
        caller.execute("SET client_encoding = 'UTF8'")
        dilamme.submit(caller, "test.echo", {"text": TEXT})


@pytest.mark.case("E6")
def test_a_callers_own_settings_change_nothing(connection: Connection, entrance: Entrance, workshop: Workshop) -> None:
    with closing(psycopg.connect(entrance.superuser_url)) as caller:
        for situation in ("arrays", "spelling", "meaning", "plans"):
            for name, value in SITUATIONS[situation].items():
                caller.execute("SELECT set_config(%s, %s, false)", (name, value))
        parent = dilamme.submit(caller, "test.echo", {"text": TEXT}, max_attempts=7)
        dilamme.submit(caller, "test.echo", dependency_ids=[parent], on_dependency_failure="cancel")
        dilamme.submit(caller, "test.echo", interval_seconds=60)
        mixed: list[dict[str, Any]] = [{"type": "test.echo"}, {"type": "test.echo", "max_attempts": 2}]
        some, limited = dilamme.submit_many(caller, mixed)
        caller.commit()
    workshop.work()
    assert [row["max_attempts"] for row in rows(connection, [parent, some, limited])] == [7, None, 2]
    assert read.find_job(connection, workshop.settings, parent).result == {"text": TEXT}
    assert read.read_stats(connection, workshop.settings).jobs.completed.count == 5
