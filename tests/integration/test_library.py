"""`dilamme.submit` in a transaction of the caller's own: the job exists exactly if the caller's data does."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import psycopg
import psycopg.rows as rows_as
import pytest
from psycopg.abc import Buffer
from psycopg.pq import Format

import dilamme
from dilamme import settings
from dilamme.domain.errors import Conflict, InvalidInput, SchemaError
from dilamme.store.connection import Connection
from dilamme.testing.databases import Databases
from tests.integration.workshop import Workshop
from tests.support.entrance import Entrance
from tests.support.jobs import ECHO, row, rows, tally

UNKNOWN = UUID(int=42)


@pytest.fixture
def caller(entrance: Entrance) -> Iterator[Connection]:
    """A connection as applications open theirs: not in autocommit mode."""
    with closing(psycopg.connect(entrance.superuser_url)) as caller:
        caller.execute("CREATE TABLE orders (number integer)")
        caller.commit()
        yield caller


@pytest.fixture
def eager(entrance: Entrance, caller: Connection) -> Iterator[Connection]:
    """The same, in autocommit mode."""
    with closing(psycopg.connect(entrance.superuser_url, autocommit=True)) as eager:
        yield eager


def _orders(connection: Connection) -> int:
    found = connection.execute("SELECT count(*) FROM orders").fetchone()
    assert found is not None
    count: int = found[0]
    return count


@pytest.mark.parametrize("first", ["the job", "the data"])
@pytest.mark.parametrize(("end", "jobs", "orders"), [("commit", {"pending": 1}, 1), ("rollback", {}, 0)])
def test_job_and_data_share_one_fate(
    connection: Connection, caller: Connection, first: str, end: str, jobs: dict[str, int], orders: int
) -> None:
    """Also where the submission opens the transaction."""
    if first == "the job":
        dilamme.submit(caller, ECHO, {"order": 1})
    caller.execute("INSERT INTO orders VALUES (1)")
    if first == "the data":
        dilamme.submit(caller, ECHO, {"order": 1})
    assert tally(connection) == {}
    getattr(caller, end)()
    assert tally(connection) == jobs
    assert _orders(connection) == orders


def test_in_autocommit_mode_a_job_is_stored_at_once(connection: Connection, eager: Connection) -> None:
    dilamme.submit(eager, ECHO)
    assert tally(connection) == {"pending": 1}


def _round_trips(caller: Connection, step: Callable[[], object]) -> int:
    with tempfile.TemporaryFile() as messages:
        caller.pgconn.trace(messages.fileno())
        step()
        caller.pgconn.untrace()
        messages.seek(0)
        return messages.read().count(b"ReadyForQuery")


def test_in_autocommit_mode_a_plain_job_is_one_round_trip_and_what_needs_more_is_one_transaction(
    connection: Connection, eager: Connection
) -> None:
    assert (
        _round_trips(eager, lambda: dilamme.submit(eager, ECHO)) == 2
    )  # the look at the published types, once in 30 s
    assert _round_trips(eager, lambda: dilamme.submit(eager, ECHO)) == 1
    assert _round_trips(eager, lambda: dilamme.submit_many(eager, [{"type": ECHO}] * 3)) == 1
    batch: list[dict[str, Any]] = [{"type": ECHO, "ref": "a"}, {"type": ECHO, "dependency_refs": ["a"]}]
    assert _round_trips(eager, lambda: dilamme.submit_many(eager, batch)) == 4
    assert _round_trips(eager, lambda: dilamme.submit(eager, ECHO, idempotency_key="key")) == 4
    assert tally(connection) == {"pending": 8}


@pytest.mark.parametrize(("fails", "jobs"), [(False, {"pending": 2}), (True, {})])
def test_in_autocommit_mode_a_block_of_the_callers_decides(
    connection: Connection, eager: Connection, fails: bool, jobs: dict[str, int]
) -> None:
    try:
        with eager.transaction():
            dilamme.submit(eager, ECHO)
            dilamme.submit_many(eager, [{"type": ECHO}])
            assert tally(connection) == {}
            if fails:
                raise psycopg.Rollback
    finally:
        assert tally(connection) == jobs


def test_a_refused_submission_leaves_the_callers_transaction_usable_and_nothing_behind(
    connection: Connection, caller: Connection
) -> None:
    """Neither job nor series nor key; the caller's own rows are committed."""
    caller.execute("INSERT INTO orders VALUES (1)")
    with pytest.raises(InvalidInput, match=str(UNKNOWN)):
        dilamme.submit(caller, ECHO, dependency_ids=[UNKNOWN], interval_seconds=60, idempotency_key="key")
    with pytest.raises(InvalidInput):
        dilamme.submit(caller, "No Type", idempotency_key="key")
    kept = dilamme.submit(caller, ECHO, idempotency_key="other")
    with pytest.raises(Conflict):
        dilamme.submit(caller, ECHO, priority=1, idempotency_key="other")
    caller.commit()
    assert tally(connection) == {"pending": 1}
    assert row(connection, kept)["idempotency_key"] == "other"
    assert _orders(connection) == 1
    assert connection.execute("SELECT array_agg(key) FROM dilamme.idempotency_keys").fetchone() == (["other"],)
    assert connection.execute("SELECT count(*) FROM dilamme.series").fetchone() == (0,)


def test_a_refused_submission_that_opened_the_transaction_does_not_end_it(
    connection: Connection, caller: Connection
) -> None:
    with pytest.raises(InvalidInput):
        dilamme.submit(caller, ECHO, dependency_ids=[UNKNOWN])
    caller.execute("INSERT INTO orders VALUES (1)")
    assert _orders(connection) == 0
    caller.commit()
    assert _orders(connection) == 1


def test_jobs_of_one_callers_transaction_may_depend_on_each_other(connection: Connection, caller: Connection) -> None:
    parent = dilamme.submit(caller, ECHO)
    child = dilamme.submit(caller, ECHO, dependency_ids=[parent])
    first, second = dilamme.submit_many(
        caller,
        [{"type": ECHO, "ref": "first"}, {"type": ECHO, "dependency_refs": ["first"], "dependency_ids": [child]}],
    )
    caller.commit()
    assert [one["unmet_dependencies"] for one in rows(connection, [parent, child, first, second])] == [0, 1, 0, 2]


def test_a_job_is_stored_as_it_was_described(connection: Connection, caller: Connection) -> None:
    at = datetime(2031, 5, 4, 3, 2, 1, tzinfo=UTC)
    job_id = dilamme.submit(
        caller, ECHO, {"a": [1, None]}, priority=1, scheduled_at=at, max_attempts=5, on_dependency_failure="cancel"
    )
    caller.commit()
    stored = row(connection, job_id)
    assert (stored["type"], stored["payload"], stored["priority"]) == (ECHO, {"a": [1, None]}, 1)
    assert (stored["scheduled_at"], stored["ready_at"]) == (at, at)
    assert (stored["max_attempts"], stored["on_dependency_failure"]) == (5, "cancel")


def test_a_batch_is_all_or_nothing_and_names_what_is_wrong(connection: Connection, caller: Connection) -> None:
    with pytest.raises(InvalidInput) as refused:
        dilamme.submit_many(caller, [{"type": ECHO}, {"type": ECHO, "priority": 4}])
    assert [fault.pointer for fault in refused.value.faults] == ["/jobs/1/priority"]
    with pytest.raises(InvalidInput, match="1 to 1000"):
        dilamme.submit_many(caller, [])
    with pytest.raises(InvalidInput, match="1 to 1000"):
        dilamme.submit_many(caller, [{"type": ECHO}] * 1001)
    caller.commit()
    assert tally(connection) == {}


@pytest.mark.parametrize("key", ["", " ", "k" * 256, "é", "\0", "\ud800", "a\n", 1, b"key", UUID(int=1), ["key"]])
def test_an_idempotency_key_is_held_to_the_apis_rule(connection: Connection, caller: Connection, key: Any) -> None:
    """An empty one would stand for all the jobs whose key was forgotten."""
    with pytest.raises(InvalidInput, match="/idempotency_key: must be 1 to 255 visible ASCII characters"):
        dilamme.submit(caller, ECHO, idempotency_key=key)
    with pytest.raises(InvalidInput, match="/idempotency_key"):
        dilamme.submit_many(caller, [{"type": ECHO}], idempotency_key=key)
    caller.commit()
    assert tally(connection) == {}


def test_whatever_is_wrong_is_named_as_the_argument_is(caller: Connection) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"dependency_ids": ["no id"]}, "/jobs/0/dependency_ids/0"),
        ({"dependency_ids": [UNKNOWN]}, "/jobs/0/dependency_ids/0"),
        ({"dependency_refs": ["nobody"]}, "/jobs/0/dependency_refs/0"),
        ({"ref": "me", "dependency_refs": ["me"]}, "/jobs/0/dependency_refs"),
    ]
    for fields, pointer in wrong:
        with pytest.raises(InvalidInput) as refused:
            dilamme.submit_many(caller, [{"type": ECHO, **fields}])
        assert [fault.pointer for fault in refused.value.faults] == [pointer]


def test_no_payload_is_an_empty_one_in_a_batch_too(connection: Connection, caller: Connection) -> None:
    ids = [dilamme.submit(caller, ECHO, None), *dilamme.submit_many(caller, [{"type": ECHO, "payload": None}])]
    caller.commit()
    assert [one["payload"] for one in rows(connection, ids)] == [{}, {}]


class _TextLoader(psycopg.adapt.Loader):
    def load(self, data: Buffer) -> str:
        return bytes(data).hex() if self.format else bytes(data).decode()


class _BinaryTextLoader(_TextLoader):
    format = Format.BINARY


class _JsonDumper(psycopg.types.json.JsonbDumper):
    pass


def test_what_the_callers_connection_makes_of_values_does_not_matter(
    connection: Connection, caller: Connection
) -> None:
    for loader in (_TextLoader, _BinaryTextLoader):
        for name in ("uuid", "timestamptz", "text", "jsonb", "bool"):
            caller.adapters.register_loader(name, loader)
    caller.adapters.register_dumper(list, _JsonDumper)
    caller.adapters.register_dumper(UUID, _JsonDumper)
    first = dilamme.submit(caller, ECHO, idempotency_key="key")
    again = dilamme.submit(caller, ECHO, idempotency_key="key")
    second, _ = dilamme.submit_many(caller, [{"type": ECHO, "dependency_ids": [first]}, {"type": ECHO}])
    caller.commit()
    assert (again, type(again)) == (first, type(first))
    assert row(connection, second)["unmet_dependencies"] == 1


CONNECTIONS: dict[str, dict[str, Any]] = {
    "rows as dictionaries": {"row_factory": rows_as.dict_row},
    "rows as their first column": {"row_factory": rows_as.scalar_row},
    "rows as objects": {"row_factory": rows_as.class_row(SimpleNamespace)},
    "values bound by the client, as Django does": {"cursor_factory": psycopg.ClientCursor},
    "placeholders as PostgreSQL's": {"cursor_factory": psycopg.RawCursor},
}


@pytest.mark.parametrize("kind", CONNECTIONS)
def test_whatever_cursors_and_rows_the_callers_connection_makes_the_jobs_are_stored(
    connection: Connection, entrance: Entrance, kind: str
) -> None:
    with closing(psycopg.connect(entrance.superuser_url, **CONNECTIONS[kind])) as caller:
        first = dilamme.submit(caller, ECHO, {"a": 1}, interval_seconds=60, idempotency_key="key")
        assert dilamme.submit(caller, ECHO, {"a": 1}, interval_seconds=60, idempotency_key="key") == first
        second, third = dilamme.submit_many(
            caller, [{"type": ECHO, "dependency_ids": [first], "ref": "a"}, {"type": ECHO, "dependency_refs": ["a"]}]
        )
        caller.commit()
    assert [one["unmet_dependencies"] for one in rows(connection, [first, second, third])] == [0, 1, 1]
    assert row(connection, first)["payload"] == {"a": 1}


@pytest.fixture
def unprepared(databases: Databases) -> Iterator[Connection]:
    """An application's connection to a database that nobody has migrated."""
    name = databases.create_empty()
    with closing(psycopg.connect(databases.server.url(name))) as caller:
        caller.execute("CREATE TABLE orders (number integer)")
        caller.commit()
        yield caller
    databases.drop(name)


CALLS: dict[str, Callable[[Connection], object]] = {
    "submit": lambda caller: dilamme.submit(caller, ECHO),
    "submit with a key": lambda caller: dilamme.submit(caller, ECHO, idempotency_key="one"),
    "submit_many": lambda caller: dilamme.submit_many(caller, [{"type": ECHO}] * 2),
}


@pytest.mark.parametrize("call", CALLS)
def test_in_a_database_without_the_schema_it_says_so_and_the_callers_data_stand(
    unprepared: Connection, call: str
) -> None:
    unprepared.execute("INSERT INTO orders VALUES (1)")
    with pytest.raises(SchemaError, match="run the migrate function") as refused:
        CALLS[call](unprepared)
    assert isinstance(refused.value.__cause__, psycopg.errors.UndefinedTable)
    unprepared.commit()
    assert _orders(unprepared) == 1


def test_a_wake_in_a_database_without_the_schema_says_so_too(
    unprepared: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        settings,
        "load",
        lambda: settings.read({"DILAMME_WORKER_FUNCTION": "worker", "DILAMME_SCHEDULER_FUNCTION": "scheduler"}),
    )
    with pytest.raises(SchemaError, match="run the migrate function"):
        dilamme.wake(unprepared)
    assert not unprepared.autocommit


def test_a_handler_gets_what_it_annotates_its_context_with(connection: Connection, workshop: Workshop) -> None:
    seen = []

    @workshop.registry.job("test.context")
    def handle(payload: dict[str, int], context: dilamme.Context) -> None:
        seen.append((isinstance(context, dilamme.Context), context.type, context.attempt))

    dilamme.submit(connection, "test.context")
    workshop.work()
    assert seen == [(True, "test.context", 1)]
