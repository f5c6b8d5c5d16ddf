"""Parents that end while children are being stored, interleaved step by step on two connections."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event
from uuid import UUID

import pytest

import dilamme
from dilamme.domain.job import Claim
from dilamme.domain.outcome import Complete
from dilamme.store.connection import Connection
from dilamme.usecases import settle as settle_usecase
from dilamme.usecases.settle import settle, settle_here
from tests.integration.workshop import Workshop
from tests.support.entrance import Enter
from tests.support.jobs import ECHO, bury, claim, claim_one, complete, put, put_many, row, rows, tally
from tests.support.rivals import is_blocked, meanwhile, wait_until_blocked
from tests.support.waiting import wait_until


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long enough to be seen waiting."""
    monkeypatch.setattr(settle_usecase, "LOCK_WAIT_SECONDS", 20.0)


def _open(connection: Connection, claimed: Claim) -> None:
    """Completes a claim in a transaction that stays open."""
    connection.execute("BEGIN")
    settle_here(connection, [(claimed, Complete(None))])


@pytest.mark.usefixtures("patient")
def test_a_completion_waits_for_a_child_that_is_being_stored_and_releases_it(
    connection: Connection, enter: Enter
) -> None:
    """The insertion holds the parent FOR SHARE; the completion gets its lock after the commit, and looks only then."""
    parent = put(connection)
    claimed = claim_one(connection)
    poster, worker = enter("api"), enter("worker")
    poster.execute("BEGIN")
    child = dilamme.submit(poster, ECHO, dependency_ids=[parent])
    with meanwhile(lambda: complete(worker, claimed)) as completing:
        wait_until_blocked(connection, worker)
        poster.execute("COMMIT")
        assert completing.result(20).due
    stored = row(connection, child)
    assert stored["unmet_dependencies"] == 0
    assert [one.id for one in claim(connection)] == [child]


def test_a_child_stored_while_its_parent_is_being_completed_waits_and_finds_it_completed(
    connection: Connection, enter: Enter
) -> None:
    """The other order: the completion holds the parent, the insertion waits, and counts no dependency as open."""
    parent = put(connection)
    worker, poster = enter("worker"), enter("api")
    _open(worker, claim_one(connection))
    with meanwhile(lambda: put(poster, dependency_ids=[parent])) as posting:
        wait_until_blocked(connection, poster)
        worker.execute("COMMIT")
        child = posting.result(20)
    assert row(connection, child)["unmet_dependencies"] == 0
    assert [one.id for one in claim(connection)] == [child]


def test_a_child_stored_while_its_parents_completion_is_rolled_back_waits_for_the_next_one(
    connection: Connection, enter: Enter
) -> None:
    parent = put(connection)
    worker, poster = enter("worker"), enter("api")
    claimed = claim_one(connection)
    _open(worker, claimed)
    with meanwhile(lambda: put(poster, dependency_ids=[parent])) as posting:
        wait_until_blocked(connection, poster)
        worker.execute("ROLLBACK")
        child = posting.result(20)
    assert row(connection, child)["unmet_dependencies"] == 1
    complete(connection, claimed)
    assert row(connection, child)["unmet_dependencies"] == 0


@pytest.mark.usefixtures("patient")
def test_a_child_stored_while_its_parent_dies_is_cancelled_if_it_asked_for_that(
    connection: Connection, enter: Enter
) -> None:
    """Both orders end alike: the burial sees the child, or the child sees the burial."""
    parent = put(connection)
    claimed = claim_one(connection)
    poster, worker = enter("api"), enter("worker")
    poster.execute("BEGIN")
    child = dilamme.submit(poster, ECHO, dependency_ids=[parent], on_dependency_failure="cancel")
    with meanwhile(lambda: bury(worker, claimed)) as burying:
        wait_until_blocked(connection, worker)
        poster.execute("COMMIT")
        burying.result(20)
    assert row(connection, child)["status"] == "cancelled"
    late = put(connection, dependency_ids=[parent], on_dependency_failure="cancel")
    assert row(connection, late)["status"] == "cancelled"


def test_a_parent_held_by_a_callers_long_transaction_holds_up_no_other_of_its_batch(
    connection: Connection, enter: Enter
) -> None:
    """End in one batch, the others end at once; the held one is not to be had, and is had after the commit."""
    ids = put_many(connection, [{}] * 5)
    claimed = claim(connection)
    caller, worker = enter("api"), enter("worker")
    caller.execute("BEGIN")
    child = dilamme.submit(caller, ECHO, dependency_ids=[ids[2]])
    first = settle(worker, [(one, Complete(None)) for one in claimed])
    assert (first.done, first.locked) == ({*ids} - {ids[2]}, {ids[2]})
    caller.execute("COMMIT")
    assert settle(worker, [(claimed[2], Complete(None))]).done == {ids[2]}
    assert row(connection, child)["unmet_dependencies"] == 0


def _hold(workshop: Workshop, caller: Connection, dependency: UUID) -> Event:
    """A handler after which a caller's open transaction holds ``dependency``, for a child of it."""
    held = Event()

    @workshop.registry.job("test.hold")
    def hold(payload: object, context: object) -> None:
        caller.execute("BEGIN")
        dilamme.submit(caller, ECHO, dependency_ids=[dependency])
        held.set()

    return held


@pytest.mark.parametrize("held_by_caller", ["the parent", "its child"])
def test_a_worker_goes_on_while_a_callers_transaction_holds_what_one_of_its_jobs_must_change(
    connection: Connection, enter: Enter, workshop: Workshop, held_by_caller: str
) -> None:
    """The caller adds a child to a running parent, or a grandchild to its child, which the parent's end counts down.

    All others are completed while that transaction is open, the parent after it.
    """
    parent = put(connection, type="test.hold")
    child = put(connection, dependency_ids=[parent])
    workshop.timed(ECHO, 0.001)
    caller = enter("api")
    held = _hold(workshop, caller, parent if held_by_caller == "the parent" else child)
    with meanwhile(workshop.work) as working:
        assert held.wait(20)
        put_many(connection, [{}] * 20)
        wait_until(lambda: tally(connection).get("completed") == 20, "the others are completed")
        assert row(connection, parent)["status"] == "running"
        caller.execute("COMMIT")
        working.result(20)
    assert tally(connection) == {"completed": 23}


@pytest.mark.case("D6")
def test_a_caller_who_holds_a_child_and_asks_for_its_parent_meets_no_deadlock(
    connection: Connection, enter: Enter
) -> None:
    """D6: the worker holds the parent and asks for the child. It yields, long before PostgreSQL would choose a victim."""
    parent = put(connection)
    child = put(connection, dependency_ids=[parent])
    claimed = claim_one(connection)
    caller, worker = enter("api"), enter("worker")
    with caller.transaction():
        dilamme.submit(caller, ECHO, dependency_ids=[child])
        with meanwhile(lambda: settle(worker, [(claimed, Complete(None))])) as settling:
            wait_until(lambda: settling.done() or is_blocked(connection, worker), "the worker asks for the child")
            late = dilamme.submit(caller, ECHO, dependency_ids=[parent])
            assert settling.result(20).locked == {parent}
    assert complete(worker, claimed).done == {parent}
    assert [one["unmet_dependencies"] for one in rows(connection, [child, late])] == [0, 0]


@pytest.mark.case("D6")
def test_children_posted_on_two_parents_in_either_order_while_a_batch_settles_them_meet_no_deadlock(
    connection: Connection, enter: Enter
) -> None:
    """D6, by force: four callers against a worker, sixty rounds; every child is released in the end."""
    posters, worker = [enter("api") for _ in range(4)], enter("worker")
    children: list[UUID] = []
    with ThreadPoolExecutor(max_workers=5) as executor:
        for _ in range(60):
            pair = put_many(connection, [{"priority": 1}] * 2)
            claimed = claim(connection, limit=2)[::-1]
            orders = [pair, pair[::-1], pair, pair[::-1]]
            posting = [
                executor.submit(put, poster, dependency_ids=order)
                for poster, order in zip(posters, orders, strict=True)
            ]
            settling = executor.submit(settle, worker, [(one, Complete(None)) for one in claimed])
            children += [one.result(20) for one in posting]
            for one in claimed:
                if one.id not in settling.result(20).done:
                    complete(connection, one)
    assert {stored["unmet_dependencies"] for stored in rows(connection, children)} == {0}


@pytest.mark.case("K6")
def test_the_last_parent_reports_its_child_even_if_a_younger_statement_came_to_it_first(
    connection: Connection, enter: Enter
) -> None:
    """K6: the older one waits at another child. Meanwhile the younger one counts the child down, and ends."""
    one, other, later = put_many(connection, [{}, {}, {"scheduled_at": "2999-01-01T00:00:00Z"}])
    before = put(connection, dependency_ids=[one, later])
    child = put(connection, dependency_ids=[one, other])
    older, younger, blocker = enter("worker"), enter("worker"), enter("api")
    claims = {claimed.id: claimed for claimed in claim(connection)}
    blocker.execute("BEGIN")
    blocker.execute("SELECT FROM dilamme.jobs WHERE id = %s FOR NO KEY UPDATE", (before,))
    older.execute("BEGIN")
    with meanwhile(lambda: settle_here(older, [(claims[one], Complete(None))])) as completing:
        wait_until_blocked(connection, older)
        assert not complete(younger, claims[other]).due
        blocker.execute("COMMIT")
        assert completing.result(20).due
    older.execute("COMMIT")
    assert [claimed.id for claimed in claim(connection)] == [child]
