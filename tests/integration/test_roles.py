"""Each function's database role can do what its function does, and no more."""

import re
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

import dilamme
from dilamme import settings as settings_module
from dilamme.domain.job import Reason
from dilamme.domain.outcome import Bury, Complete, Outcome, RetryLater, Return
from dilamme.handlers.registry import JobType
from dilamme.scheduler import maintenance
from dilamme.settings import Settings
from dilamme.store import slots
from dilamme.store.connection import Connection
from dilamme.store.job_types import upsert_types
from dilamme.testing.clock import Clock
from dilamme.usecases import cancel, migrate, replay, rescue, wake
from dilamme.usecases.settle import settle
from tests.integration.scheduler import Scheduler
from tests.integration.workshop import Workshop
from tests.support.checkout import CHECKOUT
from tests.support.entrance import Enter, Entrance
from tests.support.jobs import ECHO, bury, claim, claim_one, complete, put, put_many, row, series_of, tally


def test_the_apis_role_suffices_for_what_the_api_does(
    connection: Connection, clock: Clock, enter: Enter, settings: Settings
) -> None:
    api = enter("api")
    migrate.check(api)
    parent = put(api, "key", interval_seconds=60)
    assert put(api, "key", interval_seconds=60) == parent
    put_many(
        api, [{"ref": "a", "dependency_ids": [parent]}, {"dependency_refs": ["a"], "on_dependency_failure": "cancel"}]
    )
    wake.wake(api, settings, due=True, later=True)
    cancel.cancel_job(api, parent)
    cancel.cancel_series(api, row(connection, parent)["series_id"])
    dead = put(api)
    bury(connection, claim_one(connection))
    assert replay.replay_job(api, dead)
    bury(connection, claim_one(connection))
    assert replay.replay_dead(api, None) == [dead]


def test_the_rights_that_docs_give_an_application_suffice_for_the_library(
    connection: Connection, entrance: Entrance, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    grants = re.findall("```sql\n(.*?)```", (CHECKOUT / "docs" / "aws.md").read_text(encoding="utf-8"), re.DOTALL)
    connection.execute("CREATE ROLE app")
    try:
        connection.execute("; ".join(grants))
        with closing(psycopg.connect(entrance.superuser_url)) as caller:
            caller.execute("SET SESSION AUTHORIZATION app")
            parent = dilamme.submit(caller, ECHO, interval_seconds=60, idempotency_key="key")
            assert dilamme.submit(caller, ECHO, interval_seconds=60, idempotency_key="key") == parent
            dilamme.submit_many(
                caller,
                [{"type": ECHO, "ref": "a", "dependency_ids": [parent]}, {"type": ECHO, "dependency_refs": ["a"]}],
            )
            dilamme.submit(caller, ECHO, scheduled_at=datetime.now(UTC) + timedelta(seconds=30))
            caller.commit()
            monkeypatch.setattr(settings_module, "load", lambda: settings)
            dilamme.wake(caller)
        assert tally(connection) == {"pending": 4}
        assert slots.count_slots(connection, settings.worker_slots).invited == 1
    finally:
        connection.execute("DROP OWNED BY app; DROP ROLE app")


def test_the_workers_role_suffices_for_every_way_a_claim_can_end(
    connection: Connection, clock: Clock, enter: Enter, settings: Settings
) -> None:
    worker = enter("worker")
    migrate.check(worker)
    upsert_types(worker, [JobType("test.echo", lambda payload, context: None, max_attempts=4)])
    upsert_types(worker, [JobType("test.echo", lambda payload, context: None, max_attempts=5)])
    parent, *others = put_many(connection, [{"interval_seconds": 60}, {}, {}, {"interval_seconds": 60}])
    child = put(connection, dependency_ids=[parent])
    victim = put(connection, dependency_ids=[others[2]], on_dependency_failure="cancel", interval_seconds=60)
    ends: list[Outcome] = [
        Complete('"done"'),
        RetryLater(Reason.ERROR, "again", 1),
        Return(1),
        Bury(Reason.FAIL, "no"),
    ]
    settled = settle(worker, list(zip(claim(worker), ends, strict=True)))
    assert settled.done == {parent, *others}
    assert row(connection, child)["unmet_dependencies"] == 0
    assert row(connection, victim)["status"] == "cancelled"
    assert [len(series_of(connection, job_id)) for job_id in (parent, others[2])] == [2, 2]


@pytest.mark.case("K2")
def test_a_handler_may_submit_whatever_the_library_takes(
    connection: Connection, enter: Enter, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = enter("worker")
    parent = dilamme.submit(worker, ECHO, interval_seconds=60, idempotency_key="key")
    assert dilamme.submit(worker, ECHO, interval_seconds=60, idempotency_key="key") == parent
    later = datetime.now(UTC) + timedelta(seconds=30)
    batch: list[dict[str, Any]] = [
        {"type": ECHO, "ref": "a", "dependency_ids": [parent], "scheduled_at": later},
        {"type": ECHO, "dependency_refs": ["a"], "on_dependency_failure": "cancel", "interval_seconds": 60},
    ]
    stored = dilamme.submit_many(worker, batch, idempotency_key="batch")
    assert dilamme.submit_many(worker, batch, idempotency_key="batch") == stored
    monkeypatch.setattr(settings_module, "load", lambda: settings)
    dilamme.wake(worker)
    assert tally(connection) == {"pending": 3}
    assert slots.count_slots(connection, settings.worker_slots).invited == 1


def test_the_workers_role_suffices_for_a_whole_invocation(connection: Connection, workshop: Workshop) -> None:
    parent = put(connection)
    put(connection, dependency_ids=[parent])
    workshop.work()
    assert tally(connection) == {"completed": 2}


def test_the_schedulers_role_suffices_for_a_tick_and_its_chores(
    connection: Connection, clock: Clock, enter: Enter, settings: Settings, scheduler: Scheduler
) -> None:
    """With an expired claim to free and one to bury, a letter to send, a counter to mend, jobs to prune."""
    lost = put(connection)
    claim_one(connection)
    last = put(connection, max_attempts=1, interval_seconds=60)
    claim_one(connection)
    parent = put(connection, scheduled_at="2100-01-01T00:00:00Z")
    child = put(connection, dependency_ids=[parent])
    connection.execute("UPDATE dilamme.jobs SET unmet_dependencies = 2 WHERE id = %s", (child,))
    clock.advance(400)
    assert scheduler.tick() is not None
    assert (row(connection, lost)["status"], row(connection, last)["status"]) == ("pending", "dead")
    assert row(connection, child)["unmet_dependencies"] == 1
    assert connection.execute("SELECT count(*) FROM dilamme.outbox").fetchone() == (0,)
    put(connection, "key")
    complete(connection, *claim(connection))
    clock.advance(366 * 86_400)
    assert maintenance.prune(enter("scheduler"), settings) >= 3


def test_the_rescues_role_suffices_for_both_reports(
    connection: Connection, clock: Clock, enter: Enter, settings: Settings, scheduler: Scheduler
) -> None:
    """With a job to free, and one to bury whose child asked to be cancelled and whose series goes on."""
    rescuer = enter("rescue")
    again, last = put_many(connection, [{}, {"max_attempts": 1, "interval_seconds": 60}])
    child = put(connection, dependency_ids=[last], on_dependency_failure="cancel")
    worker = claim_one(connection).token
    connection.execute("UPDATE dilamme.jobs SET worker = %s WHERE id = %s", (worker, again))
    claim_one(connection, worker=worker)
    assert rescue.rescue_worker(rescuer, settings, worker).done == {again, last}
    assert row(connection, child)["status"] == "cancelled"
    assert len(series_of(connection, last)) == 2
    assert rescue.rescue_leader(rescuer, settings, scheduler.leader.owner)


FORBIDDEN = {
    "api": [
        "UPDATE dilamme.jobs SET result = '1'",
        "UPDATE dilamme.jobs SET worker = gen_random_uuid()",
        "UPDATE dilamme.jobs SET unmet_dependencies = 0",
        "UPDATE dilamme.series SET interval_seconds = 1",
        "UPDATE dilamme.scheduler_lease SET epoch = 1",
        "SELECT message FROM dilamme.outbox",
        "DELETE FROM dilamme.jobs",
        "DELETE FROM dilamme.job_dependencies",
        "UPDATE dilamme.job_dependencies SET parent_id = child_id",
        "INSERT INTO dilamme.job_types (type, updated_at) VALUES ('x', now())",
        "INSERT INTO dilamme.outbox (id, job_id, message, send_at) SELECT gen_random_uuid(), gen_random_uuid(), '{}', now()",
        "DELETE FROM dilamme.worker_slots",
        "UPDATE dilamme.idempotency_keys SET key = 'x'",
        "DELETE FROM dilamme.series",
    ],
    "worker": [
        "UPDATE dilamme.idempotency_keys SET key = 'x'",
        "UPDATE dilamme.jobs SET replayed = true",
        "SELECT message FROM dilamme.outbox",
        "DELETE FROM dilamme.jobs",
        "DELETE FROM dilamme.outbox",
        "INSERT INTO dilamme.worker_slots (slot) VALUES (99)",
        "DELETE FROM dilamme.job_types",
    ],
    "scheduler": [
        "SELECT result FROM dilamme.jobs",
        "SELECT job_ids FROM dilamme.idempotency_keys",
        "UPDATE dilamme.jobs SET result = '1'",
        "UPDATE dilamme.jobs SET attempt = 0",
        "UPDATE dilamme.outbox SET message = '{}'",
        "INSERT INTO dilamme.series (id, interval_seconds, created_at) VALUES (gen_random_uuid(), 1, now())",
        "UPDATE dilamme.job_types SET max_attempts = 1",
        "DELETE FROM dilamme.scheduler_lease",
        "INSERT INTO dilamme.idempotency_keys (key, request_hash, job_ids, refs) VALUES ('x', '', '{}', '[]')",
    ],
    "rescue": [
        "SELECT result FROM dilamme.jobs",
        "SELECT idempotency_key FROM dilamme.jobs",
        "SELECT key FROM dilamme.idempotency_keys",
        "SELECT message FROM dilamme.outbox",
        "UPDATE dilamme.jobs SET unmet_dependencies = 0",
        "UPDATE dilamme.scheduler_lease SET epoch = 1",
        "DELETE FROM dilamme.jobs",
        "DELETE FROM dilamme.outbox",
        "UPDATE dilamme.job_types SET max_attempts = 1",
        "DELETE FROM dilamme.worker_slots",
    ],
}
ANYBODY = [
    "UPDATE dilamme.jobs SET payload = '1'",
    "UPDATE dilamme.jobs SET type = 'x'",
    "UPDATE dilamme.jobs SET priority = 1",
    "UPDATE dilamme.jobs SET scheduled_at = now()",
    "UPDATE dilamme.jobs SET id = gen_random_uuid()",
    "DROP TABLE dilamme.jobs",
    "TRUNCATE dilamme.jobs",
    "ALTER TABLE dilamme.jobs DISABLE TRIGGER ALL",
    "CREATE TABLE dilamme.mine (x integer)",
    "CREATE OR REPLACE FUNCTION dilamme.clock() RETURNS timestamptz LANGUAGE sql AS 'SELECT now()'",
    "DELETE FROM dilamme.schema_migrations",
    "UPDATE dilamme.schema_migrations SET checksum = 'x'",
    "ALTER ROLE dilamme_api SUPERUSER",
    "CREATE ROLE mine",
    "COPY (SELECT 1) TO PROGRAM 'true'",
    "SELECT pg_read_file('/etc/passwd')",
]


@pytest.mark.case("K4")
@pytest.mark.parametrize("function", FORBIDDEN)
def test_the_columns_that_a_role_may_change_are_those_that_the_documents_say(
    privileges: Callable[[str], Connection], function: str
) -> None:
    (line,) = re.findall(
        rf"^\| {function} \| (.*) \|$", (CHECKOUT / "SECURITY.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    unreadable, changed = line.split(" | ")
    found = privileges(function).execute(
        "SELECT attname, has_column_privilege('dilamme.jobs', attname, 'SELECT'), has_column_privilege('dilamme.jobs', attname,"
        " 'UPDATE') FROM pg_attribute WHERE attrelid = 'dilamme.jobs'::regclass AND attnum > 0 AND NOT attisdropped"
    )
    rights = {name: (reads, updates) for name, reads, updates in found}
    assert {name for name, (reads, _) in rights.items() if not reads} == set(re.findall("`([a-z_]+)`", unreadable))
    assert {name for name, (_, updates) in rights.items() if updates} == set(re.findall("`([a-z_]+)`", changed))


@pytest.mark.case("K4")
@pytest.mark.parametrize(
    ("function", "statement"),
    [(function, statement) for function, mine in FORBIDDEN.items() for statement in [*mine, *ANYBODY]],
)
def test_a_role_can_do_no_more_than_its_function(
    privileges: Callable[[str], Connection], function: str, statement: str
) -> None:
    connection = privileges(function)
    with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction(force_rollback=True):
        connection.execute(statement)


@pytest.fixture(scope="module")
def privileges(databases: Any) -> Any:
    """One database for all statements that are refused anyway."""
    name = databases.create()
    opened: dict[str, Connection] = {}

    def enter(function: str) -> Connection:
        if function not in opened:
            opened[function] = psycopg.connect(databases.server.url(name, f"dilamme_{function}"), autocommit=True)
        return opened[function]

    yield enter
    for connection in opened.values():
        connection.close()
    databases.drop(name)


@pytest.mark.parametrize("function", FORBIDDEN)
def test_every_role_carries_its_limits(enter: Enter, function: str) -> None:
    """Invariant 12: on the role, since a transaction pooler would lose what a session sets."""
    connection = enter(function)
    for limit in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
        found = connection.execute("SELECT setting::integer FROM pg_settings WHERE name = %s", (limit,)).fetchone()
        assert found is not None
        assert 0 < found[0] <= 20_000
