"""The connection breaks after PostgreSQL has committed and before we hear of it (C16).

A real wire is cut between the two: the statement arrives and is carried out, its answer is lost.
"""

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from dilamme.store import lanes
from dilamme.store.connection import Connection, connect
from dilamme.usecases.submit import submit
from dilamme.wire.requests import Submission, parse
from tests.integration.workshop import Workshop
from tests.support.entrance import Entrance
from tests.support.invocations import Invocations
from tests.support.jobs import ECHO, put, put_many, row, rows, series_of, tally
from tests.support.wire import Wire, wire

FIRST_CLAIM, NEXT_CLAIM = b"WITH started AS", b"WITH head AS"
COMMIT = b"COMMIT"


@pytest.fixture
def cable(entrance: Entrance) -> Iterator[Wire]:
    with wire("127.0.0.1", entrance.server.port) as laid:
        yield laid


@pytest.fixture
def workshop(workshop: Workshop, entrance: Entrance, cable: Wire) -> Workshop:
    """A workshop whose workers are connected by the cable, and take the type for quick."""
    workshop.url = cable.over(entrance.url("worker"))
    workshop.timed(ECHO, 0.001)
    return workshop


@pytest.mark.case("C16")
@pytest.mark.parametrize("claim", [FIRST_CLAIM, NEXT_CLAIM], ids=["the first", "a later one"])
def test_jobs_of_a_claim_that_nobody_heard_of_are_returned_and_run_at_once(
    connection: Connection, workshop: Workshop, cable: Wire, claim: bytes
) -> None:
    """They do not wait for the lease, and the lost claim costs no attempt."""
    ids = put_many(connection, [{"payload": number} for number in range(10)])
    workshop.adjust(batch_jobs_max=4)
    event = workshop.reserve()
    cable.lose_reply(to=claim)
    workshop.work(event)
    assert cable.lost == 1
    assert sorted(payload for payload, _ in workshop.ran) == list(range(10))
    assert {(stored["status"], stored["attempt"]) for stored in rows(connection, ids)} == {("completed", 1)}


def test_a_worker_whose_start_broke_takes_nothing_from_a_twin_of_its_event(
    connection: Connection, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin started under the same token. What this one may put right is known by the fence of its own claim."""
    put_many(connection, [{}] * 3)
    event = workshop.reserve()
    start_and_claim = lanes.start_and_claim

    def broken(on: Connection, terms: lanes.Terms, fence: UUID, slot: int) -> Any:
        assert start_and_claim(connection, terms, uuid4(), slot)
        on.close()
        raise psycopg.OperationalError("the server closed the connection unexpectedly")

    monkeypatch.setattr(lanes, "start_and_claim", broken)
    with pytest.raises(psycopg.OperationalError):
        workshop.work(event)
    assert tally(connection) == {"running": 3}
    assert workshop.ran == []


def test_a_worker_whose_start_was_refused_asks_no_more(
    connection: Connection, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A migration that holds the table, say: nothing was claimed, and the report of this failure calls another worker."""

    def refused(*arguments: object) -> Any:
        raise psycopg.errors.LockNotAvailable("canceling statement due to lock timeout")

    event = workshop.reserve()
    monkeypatch.setattr(lanes, "start_and_claim", refused)
    workshop.before_reconnect = lambda: pytest.fail("no reason to reconnect")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        workshop.work(event)


@pytest.mark.case("C16")
def test_a_settle_that_nobody_heard_of_is_not_done_twice(
    connection: Connection, workshop: Workshop, cable: Wire
) -> None:
    """One run, one completion, one release of the child, one next occurrence."""
    parent = put(connection, payload="parent")
    child = put(connection, payload="child", dependency_ids=[parent, put(connection, type="test.nobody")])
    recurring = put(connection, payload="recurring", interval_seconds=3600)
    event = workshop.reserve()
    cable.lose_reply(to=COMMIT)
    workshop.work(event)
    assert cable.lost == 1
    assert sorted(payload for payload, _ in workshop.ran) == ["parent", "recurring"]
    assert {stored["status"] for stored in rows(connection, [parent, recurring])} == {"completed"}
    assert row(connection, child)["unmet_dependencies"] == 1
    assert [stored["status"] for stored in series_of(connection, recurring)] == ["completed", "pending"]


@pytest.mark.case("C16")
@pytest.mark.parametrize("nth", range(8))
def test_whichever_commits_reply_is_lost_every_job_is_run_and_settled_once(
    connection: Connection, workshop: Workshop, cable: Wire, nth: int
) -> None:
    """One of the first eight commits of a worker that completes, retries, buries and snoozes."""
    runs: list[str] = []

    @workshop.registry.job("test.once")
    def once(payload: str, context: Any) -> str:
        runs.append(payload)
        return payload

    @workshop.registry.job("test.dies", max_attempts=1)
    def dies(payload: str, context: Any) -> None:
        runs.append(payload)
        raise RuntimeError(payload)

    for number in range(6):
        put(connection, type="test.once", payload=f"once {number}")
        put(connection, type="test.dies", payload=f"dies {number}")
    event = workshop.reserve()
    cable.lose_reply(to=COMMIT, after=nth)
    workshop.work(event)
    assert cable.lost == 1
    assert len(runs) == len(set(runs)) == 12
    assert tally(connection) == {"completed": 6, "dead": 6}
    letters = connection.execute("SELECT count(*), count(DISTINCT job_id) FROM dilamme.outbox").fetchone()
    assert letters == (6, 6)


def test_a_slot_whose_release_nobody_heard_of_is_held_by_nobody(
    connection: Connection, workshop: Workshop, cable: Wire
) -> None:
    """The last look of a worker: it let go of its slot, and the answer was lost."""
    put(connection)
    event = workshop.reserve()
    cable.lose_reply(to=b"SET state = 'free', token = NULL")
    workshop.work(event)
    assert cable.lost == 1
    assert tally(connection) == {"completed": 1}
    assert connection.execute("SELECT count(*) FROM dilamme.worker_slots WHERE state <> 'free'").fetchone() == (0,)


def test_a_worker_that_lost_its_slot_unheard_claims_nothing_more_and_calls_another(
    connection: Connection, workshop: Workshop, cable: Wire, invocations: Invocations
) -> None:
    """Invariant 10: beside whoever has the slot now, it would be one too many."""
    event = workshop.reserve()
    cable.lose_reply(to=b"SET state = 'free', token = NULL")
    workshop.before_reconnect = lambda: put(connection)
    workshop.work(event)
    assert cable.lost == 1
    assert tally(connection) == {"pending": 1}
    assert [function for function, _ in invocations] == ["worker"]


def test_a_submission_that_nobody_heard_of_is_found_again_by_its_key(
    connection: Connection, entrance: Entrance, cable: Wire
) -> None:
    job = parse(Submission, {"type": ECHO})
    with connect(cable.over(entrance.url("api"))) as broken:
        cable.lose_reply(to=COMMIT)
        with pytest.raises(psycopg.OperationalError):
            submit(broken, [job], "key", single=True)
    assert cable.lost == 1
    again = submit(connection, [job], "key", single=True)
    assert not again.created
    assert tally(connection) == {"pending": 1}
    assert row(connection, again.ids[0])["status"] == "pending"
