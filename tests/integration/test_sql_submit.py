"""The SQL function `dilamme.submit`: what it refuses and how, whose rights it needs, and what it does among rivals."""

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.sql import SQL, Literal

import dilamme
from dilamme.store.connection import Connection
from dilamme.usecases import settle as settle_usecase
from tests.support.entrance import Enter, Entrance
from tests.support.jobs import ECHO, bury, claim, claim_one, complete, put, put_many, row, rows, tally
from tests.support.pages import blocks
from tests.support.rivals import meanwhile, wait_until_blocked
from tests.support.sql_submit import sql_submit

UNKNOWN = UUID(int=42)


@pytest.fixture
def app(connection: Connection, entrance: Entrance) -> Iterator[Connection]:
    """An application's session, under a role that may call the function and nothing else, as docs/library.md gives it."""
    connection.execute("CREATE ROLE app")
    connection.execute("; ".join(blocks("docs/library.md", "sql")[0].splitlines()))
    try:
        with closing(psycopg.connect(entrance.superuser_url, autocommit=True)) as session:
            session.execute("SET SESSION AUTHORIZATION app")
            yield session
    finally:
        connection.execute("DROP OWNED BY app; DROP ROLE app")


# (arguments, SQLSTATE, the argument that is named)
REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"type": None}, "22004", "type"),
    ({"type": "Email Send"}, "22023", "type"),
    ({"payload": "x" * 262_143}, "54000", "payload"),
    ({"payload": 10**309}, "22003", "payload"),
    ({"payload": json.loads("[" * 201 + "]" * 201)}, "22023", "payload"),
    ({"priority": None}, "22004", "priority"),
    ({"priority": 4}, "22023", "priority"),
    ({"priority": 2**40}, "22023", "priority"),
    ({"scheduled_at": "1969-12-31T23:59:59Z"}, "22008", "scheduled_at"),
    ({"scheduled_at": "3000-01-01T00:00:00Z"}, "22008", "scheduled_at"),
    ({"scheduled_at": "infinity"}, "22008", "scheduled_at"),
    ({"scheduled_at": "-infinity"}, "22008", "scheduled_at"),
    ({"interval_seconds": 0}, "22023", "interval_seconds"),
    ({"interval_seconds": 315_360_001}, "22023", "interval_seconds"),
    ({"dependency_ids": None}, "22004", "dependency_ids"),
    ({"dependency_ids": [None]}, "22004", "dependency_ids"),
    ({"dependency_ids": [[UNKNOWN, UNKNOWN]]}, "2202E", "dependency_ids"),
    ({"dependency_ids": [UNKNOWN] * 1_001}, "54000", "dependency_ids"),
    ({"dependency_ids": [UNKNOWN]}, "23503", "dependency_ids"),
    ({"max_attempts": 0}, "22023", "max_attempts"),
    ({"max_attempts": 26}, "22023", "max_attempts"),
    ({"on_dependency_failure": None}, "22004", "on_dependency_failure"),
    ({"on_dependency_failure": "explode"}, "22023", "on_dependency_failure"),
    ({"idempotency_key": ""}, "22023", "idempotency_key"),
    ({"idempotency_key": "a b"}, "22023", "idempotency_key"),
    ({"idempotency_key": "k" * 256}, "22023", "idempotency_key"),
]


@pytest.mark.parametrize(
    ("arguments", "state", "argument"), REFUSED, ids=[f"{name} {n}" for n, (_, _, name) in enumerate(REFUSED)]
)
def test_a_wrong_argument_is_refused_by_its_name_and_nothing_is_stored(
    connection: Connection, arguments: dict[str, Any], state: str, argument: str
) -> None:
    with pytest.raises(psycopg.Error) as refused:
        sql_submit(connection, **{"type": ECHO, "idempotency_key": "key", "interval_seconds": 60, **arguments})
    told = refused.value.diag
    assert (told.sqlstate, told.schema_name, told.column_name) == (state, "dilamme", argument)
    assert str(told.message_primary).startswith(argument)
    assert tally(connection) == {}
    for table in ("series", "idempotency_keys"):
        assert connection.execute(SQL(f"SELECT count(*) FROM dilamme.{table}")).fetchone() == (0,)


def test_a_payload_that_is_null_is_refused_and_one_that_is_left_out_is_an_empty_object(connection: Connection) -> None:
    with pytest.raises(psycopg.errors.NullValueNotAllowed, match="payload must not be NULL: leave it out"):
        connection.execute("SELECT dilamme.submit('test.echo', NULL)")
    job_id = sql_submit(connection, type=ECHO)
    assert row(connection, job_id)["payload"] == {}


def test_the_unknown_dependencies_are_all_told(connection: Connection) -> None:
    known = put(connection)
    with pytest.raises(psycopg.errors.ForeignKeyViolation, match=f"no job has the id {UNKNOWN}") as refused:
        sql_submit(connection, type=ECHO, dependency_ids=[UUID(int=43), known, UNKNOWN])
    assert refused.value.diag.message_detail == f"{UNKNOWN}, {UUID(int=43)}"


def test_the_ids_of_a_session_are_in_the_order_of_its_calls_and_of_the_seventh_version(connection: Connection) -> None:
    before = datetime.now(UTC)
    one_by_one = [sql_submit(connection, type=ECHO) for _ in range(300)]
    together = connection.execute("SELECT dilamme.submit('test.echo') FROM generate_series(1, 2000)").fetchall()
    ids = one_by_one + [job_id for (job_id,) in together]
    assert sorted(ids) == ids
    assert len({*ids}) == 2300
    assert {(one.version, one.variant) for one in ids} == {(7, "specified in RFC 4122")}
    for one, after in ((ids[0], before), (ids[-1], datetime.now(UTC))):
        assert abs(datetime.fromtimestamp((one.int >> 80) / 1000, UTC) - after) < timedelta(seconds=10)


# ===== whose rights


def test_a_role_with_the_two_rights_of_the_docs_can_submit_and_nothing_else(
    connection: Connection, app: Connection
) -> None:
    parent = sql_submit(app, type=ECHO, interval_seconds=60, idempotency_key="key")
    assert sql_submit(app, type=ECHO, interval_seconds=60, idempotency_key="key") == parent
    child = sql_submit(app, type=ECHO, dependency_ids=[parent], on_dependency_failure="cancel")
    assert row(connection, child)["unmet_dependencies"] == 1
    for statement in (
        "SELECT FROM dilamme.jobs",
        "INSERT INTO dilamme.series VALUES (gen_random_uuid(), 1, now())",
        "DELETE FROM dilamme.jobs",
        "UPDATE dilamme.jobs SET priority = 1",
        "SELECT FROM dilamme.idempotency_keys",
        "SELECT dilamme.canonical_json('1', true)",
        "SELECT dilamme.request_hash('a', '1', 2, NULL, NULL, '{}', NULL, 'wait', true)",
        "CREATE TABLE dilamme.mine ()",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            app.execute(SQL(statement))


def test_a_role_without_them_is_told_so(connection: Connection, app: Connection) -> None:
    connection.execute("REVOKE EXECUTE ON FUNCTION dilamme.submit FROM app")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied for function submit"):
        sql_submit(app, type=ECHO)
    connection.execute("REVOKE USAGE ON SCHEMA dilamme FROM app")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied for schema dilamme"):
        sql_submit(app, type=ECHO)
    assert tally(connection) == {}


def test_a_workers_role_may_call_it(enter: Enter) -> None:
    sql_submit(enter("worker"), type=ECHO)


def test_a_trigger_under_those_rights_stores_a_job(connection: Connection, app: Connection) -> None:
    connection.execute("CREATE SCHEMA AUTHORIZATION app")
    app.execute("CREATE TABLE orders (number integer)")
    app.execute("CREATE FUNCTION hello() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " PERFORM dilamme.submit('test.echo', to_jsonb(NEW)); RETURN NULL; END $$")  # fmt: skip
    app.execute("CREATE TRIGGER hello AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION hello()")
    app.execute("INSERT INTO orders VALUES (1), (2)")
    assert tally(connection) == {"pending": 2}


def test_what_a_caller_puts_into_its_own_schemas_does_not_run_with_the_owners_rights(
    connection: Connection, app: Connection
) -> None:
    """Temporary types come before all others unless the path names them last; and operators are found by the path too."""
    connection.execute("CREATE TABLE public.caught (who text); GRANT INSERT ON public.caught TO app")
    connection.execute("CREATE SCHEMA AUTHORIZATION app")
    app.execute("CREATE FUNCTION app.note(anyelement) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN"
                " IF current_user <> 'app' THEN INSERT INTO public.caught VALUES (current_user); END IF;"
                " RETURN true; END $$")  # fmt: skip
    app.execute("CREATE TEMP TABLE kept AS SELECT 1")  # makes the session's temporary schema
    for name in ("uuid", "text", "jsonb", "bytea", "timestamptz", "record"):
        base = "text" if name == "record" else name
        statement = f"CREATE DOMAIN pg_temp.{name} AS pg_catalog.{base} CHECK (app.note(VALUE))"
        app.execute(SQL(statement))
    app.execute("CREATE FUNCTION app.lies(bigint, integer) RETURNS boolean LANGUAGE sql AS 'SELECT app.note($1)'")
    app.execute("CREATE OPERATOR app.<> (LEFTARG = bigint, RIGHTARG = integer, FUNCTION = app.lies)")
    app.execute("SET search_path = app, pg_temp, pg_catalog")
    parent = app.execute("SELECT dilamme.submit('test.echo', interval_seconds => 5)").fetchone()
    app.execute("SELECT dilamme.submit('test.echo', '{\"a\": [1.5]}', 3, now(), 60, ARRAY[%s]::pg_catalog.uuid[], 3, 'cancel', 'k')",
                parent)  # fmt: skip
    assert connection.execute("SELECT * FROM public.caught").fetchall() == []
    assert tally(connection) == {"pending": 2}


SETTINGS = {
    "standard_conforming_strings": "off",
    "DateStyle": "German, DMY",
    "TimeZone": "Europe/Berlin",
    "IntervalStyle": "sql_standard",
    "extra_float_digits": "-10",
    "array_nulls": "off",
    "bytea_output": "escape",
    "plan_cache_mode": "force_generic_plan",
    "default_transaction_isolation": "repeatable read",
    "search_path": "nowhere",
}


def test_a_callers_settings_change_nothing(entrance: Entrance) -> None:
    arguments: dict[str, Any] = {
        "payload": {"é": [1 / 3, 1e16, 1e-7, "\\"], "a": None},
        "scheduled_at": datetime(2031, 3, 30, 1, 30, 0, 250_000, tzinfo=UTC),
        "idempotency_key": "key",
    }
    with closing(psycopg.connect(entrance.superuser_url, autocommit=True)) as session:
        kept = dilamme.submit(session, ECHO, **arguments)
        for name, value in SETTINGS.items():
            session.execute(SQL("SET {} = {}").format(SQL(name), Literal(value)))
        assert [sql_submit(session, type=ECHO, **arguments) for _ in range(7)] == [kept] * 7
        with pytest.raises(psycopg.errors.UniqueViolation):
            sql_submit(session, type=ECHO, **{**arguments, "priority": 1})


# ===== among rivals


def test_whoever_waits_for_a_key_gets_the_first_job_when_its_user_commits(connection: Connection, enter: Enter) -> None:
    first, second = enter("worker"), enter("worker")
    first.execute("BEGIN")
    kept = sql_submit(first, type=ECHO, idempotency_key="key")
    with meanwhile(lambda: sql_submit(second, type=ECHO, idempotency_key="key")) as storing:
        wait_until_blocked(connection, second)
        first.execute("COMMIT")
        assert storing.result(20) == kept
    assert tally(connection) == {"pending": 1}


def test_whoever_waits_for_a_key_gets_it_when_its_first_user_rolls_back(connection: Connection, enter: Enter) -> None:
    first, second = enter("worker"), enter("worker")
    first.execute("BEGIN")
    gone = dilamme.submit(first, ECHO, idempotency_key="key")
    with meanwhile(lambda: sql_submit(second, type=ECHO, idempotency_key="key")) as storing:
        wait_until_blocked(connection, second)
        first.execute("ROLLBACK")
        stored = storing.result(20)
    assert stored != gone
    assert tally(connection) == {"pending": 1}


def test_a_rival_with_the_same_key_and_another_job_is_refused(connection: Connection, enter: Enter) -> None:
    first, second = enter("worker"), enter("worker")
    first.execute("BEGIN")
    sql_submit(first, type=ECHO, idempotency_key="key")
    with meanwhile(lambda: sql_submit(second, type=ECHO, priority=1, idempotency_key="key")) as storing:
        wait_until_blocked(connection, second)
        first.execute("COMMIT")
        with pytest.raises(psycopg.errors.UniqueViolation, match="'key' stands for another request"):
            storing.result(20)
    assert tally(connection) == {"pending": 1}


def test_a_batchs_key_is_not_a_single_jobs(connection: Connection) -> None:
    dilamme.submit_many(connection, [{"type": ECHO}, {"type": ECHO}], idempotency_key="key")
    with pytest.raises(psycopg.errors.UniqueViolation):
        sql_submit(connection, type=ECHO, idempotency_key="key")


def test_a_completion_waits_for_a_child_that_is_being_stored_and_releases_it(
    connection: Connection, enter: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settle_usecase, "LOCK_WAIT_SECONDS", 20.0)
    parent = put(connection)
    claimed = claim_one(connection)
    poster, worker = enter("worker"), enter("worker")
    poster.execute("BEGIN")
    child = sql_submit(poster, type=ECHO, dependency_ids=[parent, parent])
    with meanwhile(lambda: complete(worker, claimed)) as completing:
        wait_until_blocked(connection, worker)
        poster.execute("COMMIT")
        assert completing.result(20).due
    assert row(connection, child)["unmet_dependencies"] == 0
    assert [one.id for one in claim(connection)] == [child]


def test_a_child_stored_while_its_parent_is_being_completed_finds_it_completed(
    connection: Connection, enter: Enter
) -> None:
    parent = put(connection)
    claimed = claim_one(connection)
    worker, poster = enter("worker"), enter("worker")
    worker.execute("BEGIN")
    complete(worker, claimed)
    with meanwhile(lambda: sql_submit(poster, type=ECHO, dependency_ids=[parent])) as storing:
        wait_until_blocked(connection, poster)
        worker.execute("COMMIT")
        child = storing.result(20)
    assert row(connection, child)["unmet_dependencies"] == 0
    assert [one.id for one in claim(connection)] == [child]


def test_a_child_of_a_job_that_dies_meanwhile_is_cancelled_from_the_start_and_begins_no_series(
    connection: Connection, enter: Enter
) -> None:
    parent = put(connection)
    claimed = claim_one(connection)
    worker, poster = enter("worker"), enter("worker")
    worker.execute("BEGIN")
    bury(worker, claimed)
    arguments: dict[str, Any] = {"dependency_ids": [parent], "on_dependency_failure": "cancel", "interval_seconds": 60}
    with meanwhile(lambda: sql_submit(poster, type=ECHO, **arguments)) as storing:
        wait_until_blocked(connection, poster)
        worker.execute("COMMIT")
        stored = row(connection, storing.result(20))
    assert (stored["status"], stored["series_id"], stored["errors"][0]["reason"]) == (
        "cancelled", None, "dependency_failed"
    )  # fmt: skip
    assert connection.execute("SELECT count(*) FROM dilamme.series").fetchone() == (0,)


def test_many_parents_are_locked_by_the_primary_key_also_by_a_session_that_began_with_an_empty_table(
    connection: Connection,
) -> None:
    """A session keeps its plans: one that read the whole table would read it at every call, until somebody analyses it."""
    for _ in range(10):  # as often as it takes for a plan to be kept
        sql_submit(connection, type=ECHO, dependency_ids=[sql_submit(connection, type=ECHO)])
    parents = put_many(connection, [{}] * 1000)
    connection.execute("SELECT pg_stat_force_next_flush()")
    before = connection.execute(
        "SELECT seq_tup_read FROM pg_stat_user_tables WHERE relid = 'dilamme.jobs'::regclass"
    ).fetchone()
    child = sql_submit(connection, type=ECHO, dependency_ids=parents)
    connection.execute("SELECT pg_stat_force_next_flush()")
    after = connection.execute(
        "SELECT seq_tup_read FROM pg_stat_user_tables WHERE relid = 'dilamme.jobs'::regclass"
    ).fetchone()
    assert after == before
    assert [one["unmet_dependencies"] for one in rows(connection, [child])] == [1000]
