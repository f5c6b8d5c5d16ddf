"""The platform's report of a lost worker in every order with the worker's own steps: before, beside and after them."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from uuid import UUID

import psycopg
import pytest

from dilamme.domain.job import Claim, Reason
from dilamme.domain.outcome import Complete, RetryLater
from dilamme.domain.worker_event import WorkerEvent
from dilamme.settings import Settings
from dilamme.store.connection import Connection
from dilamme.store.slots import count_slots
from dilamme.usecases import wake
from dilamme.usecases.rescue import rescue_worker, take_back_slot
from dilamme.usecases.settle import Settlement, settle_here
from tests.integration.entrance import Enter
from tests.integration.invocations import Invocations
from tests.integration.jobs import claim_one, complete, put, retry, row
from tests.integration.rivals import meanwhile, wait_until_blocked
from tests.integration.workshop import Workshop

LOST = UUID(int=7)


def _invite(connection: Connection, settings: Settings, invocations: Invocations) -> WorkerEvent:
    """What a worker would be invoked with."""
    assert wake.wake_worker(connection, settings)
    (event,) = invocations.take_workers()
    return event


def _report(connection: Connection, settings: Settings, token: UUID = LOST) -> Settlement:
    """As the platform does: again, if it failed."""
    while True:
        try:
            return rescue_worker(connection, settings, token)
        except psycopg.errors.LockNotAvailable:
            continue


def _patiently(step: Callable[[], Settlement]) -> Settlement:
    """As a worker does: a claim that somebody holds locked is settled in a later round."""
    while True:
        try:
            settlement = step()
        except psycopg.errors.LockNotAvailable:
            continue
        if not getattr(settlement, "locked", None):
            return settlement


def test_a_worker_that_comes_after_the_report_of_its_loss_claims_nothing(
    connection: Connection, settings: Settings, enter: Enter, invocations: Invocations, workshop: Workshop
) -> None:
    """Before: the platform gave the event up, and delivers it all the same. Its slot is gone; a tick calls another."""
    put(connection, payload="once")
    event = _invite(connection, settings, invocations)
    rescue_worker(enter("rescue"), settings, event.token)
    assert [function for function, _ in invocations] == ["scheduler"]
    assert not workshop.work(event).admitted
    assert workshop.work().admitted
    assert workshop.ran == [("once", 1)]


def test_a_report_beside_the_workers_own_settle_waits_for_it_and_finds_nothing(
    connection: Connection, settings: Settings, enter: Enter
) -> None:
    """During: the result counts, and the child is released once."""
    parent = put(connection)
    child = put(connection, dependency_ids=[parent])
    mine = claim_one(connection, worker=LOST)
    worker, rescuer = enter("worker"), enter("rescue")
    with ThreadPoolExecutor(max_workers=1) as executor:
        with worker.transaction():
            settle_here(worker, [(mine, Complete(None))])
            report = executor.submit(_report, rescuer, settings)
            wait_until_blocked(connection, rescuer)
        assert not report.result(20).done
    stored = row(connection, parent)
    assert (stored["status"], stored["attempt"], stored["errors"]) == ("completed", 1, [])
    assert row(connection, child)["unmet_dependencies"] == 0


def test_a_settle_beside_the_report_waits_for_it_and_is_dropped(connection: Connection, enter: Enter) -> None:
    """During, the other way round: the job is free, and its next attempt is not ended by the first one's result."""
    job_id = put(connection)
    mine = claim_one(connection, worker=LOST)
    worker, rescuer = enter("worker"), enter("rescue")
    with ThreadPoolExecutor(max_workers=1) as executor:
        with rescuer.transaction():
            settle_here(rescuer, [(mine, RetryLater(Reason.WORKER_LOST, "lost", 0.0))])
            settled = executor.submit(_patiently, lambda: complete(worker, mine))
            wait_until_blocked(connection, worker)
        assert not settled.result(20).done
    again = claim_one(connection)
    assert (again.id, again.attempt) == (job_id, 2)
    assert [error["reason"] for error in row(connection, job_id)["errors"]] == ["worker_lost"]


@pytest.mark.parametrize(
    "ended",
    [
        pytest.param(complete, id="completed"),
        pytest.param(partial(retry, delay_seconds=60), id="to be retried"),
    ],
)
def test_a_report_after_the_workers_settle_frees_its_slot_and_no_job(
    connection: Connection,
    settings: Settings,
    enter: Enter,
    invocations: Invocations,
    ended: Callable[[Connection, Claim], Settlement],
) -> None:
    """After: the worker was killed between its last settle and the release of its slot."""
    job_id = put(connection)
    event = _invite(connection, settings, invocations)
    ended(connection, claim_one(connection, worker=event.token))
    before = row(connection, job_id)
    assert not rescue_worker(enter("rescue"), settings, event.token).done
    assert row(connection, job_id) == before
    assert count_slots(connection, settings.worker_slots).free == settings.worker_slots


def test_reports_that_come_together_count_as_one_loss(connection: Connection, settings: Settings, enter: Enter) -> None:
    """Doubled: one error, one attempt, one job."""
    job_id = put(connection)
    claim_one(connection, worker=LOST)
    rescuers = [enter("rescue") for _ in range(8)]
    with ThreadPoolExecutor(max_workers=8) as executor:
        reports = list(executor.map(lambda rescuer: _report(rescuer, settings), rescuers))
    assert sorted(len(report.done) for report in reports) == [0] * 7 + [1]
    stored = row(connection, job_id)
    assert (stored["status"], stored["attempt"], len(stored["errors"])) == ("pending", 1, 1)


def test_a_report_of_one_of_two_deliveries_lets_the_result_of_one_run_count(
    connection: Connection, settings: Settings, enter: Enter, invocations: Invocations, workshop: Workshop
) -> None:
    """The event came twice, and the platform gave the second delivery up while the first one works.

    Both have the same token, so the job is taken from the one that lives and runs again; whoever ends it first under
    the newer claim ends it, and what the older one brings is dropped.
    """
    workshop.adjust(worker_concurrency=1)  # with a runner to spare, the first worker could claim the freed job itself
    begun, go_on = threading.Event(), threading.Event()

    @workshop.registry.job("test.slow")
    def slow(payload: Any, context: Any) -> int:
        if context.attempt == 1:
            begun.set()
            assert go_on.wait(60)
        return int(context.attempt)

    job_id = put(connection, type="test.slow")
    child = put(connection, dependency_ids=[job_id, put(connection, scheduled_at="2999-01-01T00:00:00Z")])
    event = _invite(connection, settings, invocations)
    with meanwhile(lambda: workshop.work(event)) as first:
        try:
            assert begun.wait(60)
            assert not workshop.work(event).admitted
            assert rescue_worker(enter("rescue"), settings, event.token).done == {job_id}
            assert workshop.work().settled == 1
        finally:
            go_on.set()
    assert first.result(60).settled == 0
    stored = row(connection, job_id)
    assert (stored["status"], stored["attempt"], stored["result"]) == ("completed", 2, 2)
    assert row(connection, child)["unmet_dependencies"] == 1


def test_an_event_that_grew_too_old_gives_its_slot_back(
    connection: Connection, enter: Enter, settings: Settings, invocations: Invocations
) -> None:
    put(connection)
    event = _invite(connection, settings, invocations)
    take_back_slot(enter("rescue"), settings, event.token)
    assert count_slots(connection, settings.worker_slots).invited == 0
    assert len(list(invocations)) == 1, "a scheduler is called, who calls another worker"


def test_an_event_that_was_delivered_twice_and_grew_too_old_once_leaves_the_living_worker_alone(
    connection: Connection, enter: Enter, settings: Settings, workshop: Workshop
) -> None:
    """Else its job would run a second time beside it."""
    job_id = put(connection, type="test.reported")
    event = workshop.reserve()

    @workshop.registry.job("test.reported")
    def reported(payload: Any, context: Any) -> None:
        take_back_slot(enter("rescue"), settings, event.token)
        assert row(connection, job_id)["status"] == "running"
        assert count_slots(connection, settings.worker_slots).started == 1

    assert workshop.work(event).settled == 1
    assert row(connection, job_id)["status"] == "completed"
    assert row(connection, job_id)["attempt"] == 1
