"""Ends of jobs that PostgreSQL does not take: only the job at fault fails, and nothing is sent for ever."""

import threading
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest

from dilamme.store import claims
from dilamme.store.connection import Connection
from dilamme.store.faults import BY_SQLSTATE, Remedy, remedy
from dilamme.usecases import settle as settle_usecase
from dilamme.usecases.settle import settle
from dilamme.worker import settling
from tests.integration.workshop import Workshop
from tests.support.jobs import ECHO, put, put_many, row, rows, tally

CULPRIT = "culprit"


def refuse(connection: Connection, sqlstate: str, when: str = "NEW.status = 'completed'") -> None:
    """From now on PostgreSQL refuses to store the end of the culprit."""
    connection.execute(f"""
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION 'as asked for' USING ERRCODE = '{sqlstate}';
        END $$;
        CREATE TRIGGER refuses BEFORE UPDATE ON dilamme.jobs FOR EACH ROW
            WHEN (NEW.payload = '"{CULPRIT}"' AND OLD.status = 'running' AND {when}) EXECUTE FUNCTION refuse()
    """)


@pytest.mark.case("W3")
@pytest.mark.parametrize("sqlstate", ["54000", "53200", "57014", "22003", "22P05", "23514", "P0001", "XX000"])
def test_the_one_at_fault_fails_with_the_reason_and_the_others_are_settled(
    connection: Connection, workshop: Workshop, sqlstate: str
) -> None:
    """W3: taken for a lost connection, the same was sent again until the worker's end."""
    refuse(connection, sqlstate)
    put_many(connection, [{"payload": number} for number in range(20)])
    culprit = put(connection, payload=CULPRIT, max_attempts=2)
    put_many(connection, [{"payload": number} for number in range(20)])
    workshop.timed(ECHO, 0.0001)
    workshop.work()
    assert len(workshop.ran) == 41
    assert tally(connection) == {"completed": 40, "pending": 1}
    (error,) = row(connection, culprit)["errors"]
    assert error["reason"] == "result"
    assert error["message"] == f"PostgreSQL refused its result ({sqlstate}): as asked for"
    connection.execute("UPDATE dilamme.jobs SET ready_at = dilamme.clock() WHERE status = 'pending'")
    workshop.work()
    assert row(connection, culprit)["status"] == "dead"


@pytest.mark.case("W3")
def test_one_whose_failure_is_refused_too_is_left_to_its_lease_and_the_worker_goes_on(
    connection: Connection, workshop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    refuse(connection, "22003", when="NEW.status <> 'running'")
    culprit = put(connection, payload=CULPRIT)
    put_many(connection, [{}] * 5)
    workshop.work()
    assert tally(connection) == {"completed": 5, "running": 1}
    assert "its lease will run out" in caplog.text
    assert row(connection, culprit)["status"] == "running"


@pytest.mark.case("W3")
def test_what_no_job_is_at_fault_for_ends_the_worker_loudly(connection: Connection, workshop: Workshop) -> None:
    refuse(connection, "42501")
    put(connection, payload=CULPRIT)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        workshop.work()


@pytest.mark.case("W3")
def test_what_only_stood_in_the_way_is_tried_again_on_the_same_connection(
    connection: Connection, workshop: Workshop
) -> None:
    """A full disk: the results are kept until there is room."""
    refuse(connection, "53100")
    put(connection, payload=CULPRIT)
    mended = threading.Timer(0.6, lambda: connection.execute("DROP TRIGGER refuses ON dilamme.jobs"))
    mended.start()
    workshop.work()
    mended.join()
    assert tally(connection) == {"completed": 1}
    assert len(workshop.ran) == 1


@pytest.mark.case("W3")
def test_every_sqlstate_that_the_driver_knows_has_its_remedy() -> None:
    known = {
        error.sqlstate: error
        for error in vars(psycopg.errors).values()
        if isinstance(error, type) and issubclass(error, psycopg.Error) and error.sqlstate
    }
    assert len(known) > 200
    found = {state: remedy(error()) for state, error in known.items()}
    assert set(found.values()) == set(Remedy)
    for state, wanted in {
        "08006": Remedy.RECONNECT, "57P01": Remedy.RECONNECT, "57P03": Remedy.RECONNECT, "25006": Remedy.RECONNECT,
        "53300": Remedy.RECONNECT, "40001": Remedy.REPEAT, "40P01": Remedy.REPEAT, "55P03": Remedy.REPEAT,
        "57014": Remedy.REPEAT, "53100": Remedy.REPEAT, "58030": Remedy.REPEAT, "54000": Remedy.SPLIT,
        "53200": Remedy.SPLIT, "22P05": Remedy.SPLIT, "23505": Remedy.SPLIT, "42P01": Remedy.GIVE_UP,
        "42501": Remedy.GIVE_UP, "28P01": Remedy.GIVE_UP, "0A000": Remedy.GIVE_UP,
    }.items():  # fmt: skip
        assert found[state] is wanted, state
    used = {max((prefix for prefix in BY_SQLSTATE if state.startswith(prefix)), key=len) for state in known}
    assert used == BY_SQLSTATE.keys()
    assert remedy(psycopg.OperationalError("the server closed the connection")) is Remedy.RECONNECT
    assert remedy(psycopg.ProgrammingError("a bug of ours")) is Remedy.GIVE_UP


def _watch(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The characters of results in each statement."""
    seen: list[int] = []
    complete = claims.complete

    def watching(on: Connection, ends: Sequence[Any]) -> Any:
        seen.append(sum(len(outcome.result or "") for _, outcome in ends))
        return complete(on, ends)

    monkeypatch.setattr(claims, "complete", watching)
    return seen


@pytest.mark.case("W2")
def test_a_settle_is_bounded_by_the_size_of_its_results(
    connection: Connection, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W2: large and small ones mixed, and one that is longer than the bound."""
    monkeypatch.setattr(settle_usecase, "PART_CHARACTERS_MAX", 10_000)
    seen = _watch(monkeypatch)
    payloads = ["x" * (20_000 if number == 30 else 3_000 if number % 3 else 10) for number in range(60)]
    ids = put_many(connection, [{"payload": payload} for payload in payloads])
    workshop.timed(ECHO, 0.0001)
    workshop.work()
    assert tally(connection) == {"completed": 60}
    assert [stored["result"] for stored in rows(connection, ids)] == payloads
    assert sorted(seen)[-2] <= 10_000
    assert max(seen) == 20_002


@pytest.mark.case("W2")
def test_no_job_starts_while_too_many_large_results_wait(
    connection: Connection, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W2: handlers return faster than PostgreSQL stores."""
    monkeypatch.setattr(settling, "LARGE_CHARACTERS_MIN", 1_000)
    monkeypatch.setattr(settling, "LARGE_CHARACTERS_MAX", 20_000)
    ran: list[int] = []

    def slow(on: Connection, ends: Any) -> Any:
        ran.append(len(workshop.ran))
        threading.Event().wait(0.05)
        return settle(on, ends)

    monkeypatch.setattr(settling, "settle", slow)
    workshop.adjust(worker_concurrency=4)
    workshop.timed(ECHO, 0.0001)
    put_many(connection, [{"payload": "x" * 3_000} for _ in range(100)])
    workshop.work()
    assert tally(connection) == {"completed": 100}
    # Between two settles: seven results fill the room, and four more may have been under way.
    assert max(later - soon for soon, later in zip([0, *ran], ran, strict=False)) <= 2 * (7 + 4)
