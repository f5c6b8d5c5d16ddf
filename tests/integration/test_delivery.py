"""Events that come twice or late, two schedulers, invocations that fail (CASES.md, *Crashes and doubles*)."""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import datetime
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from dilamme.aws.invoke import InvokeFailed
from dilamme.domain.errors import DatabaseUnavailable
from dilamme.domain.worker_event import WorkerEvent
from dilamme.scheduler.lead import Led, lead
from dilamme.scheduler.tick import Dispatch
from dilamme.settings import Settings
from dilamme.store.connection import Connection, connect
from dilamme.store.slots import Occupancy, count_slots, provide_slots, reserve, reserve_or_look, start
from dilamme.testing.clock import Clock
from dilamme.usecases import wake
from tests.integration.scheduler import Scheduler
from tests.integration.workshop import Workshop
from tests.support.entrance import Enter, Entrance
from tests.support.invocations import Invocations, worker_event
from tests.support.jobs import ECHO, put, put_many, row, tally
from tests.support.rivals import meanwhile
from tests.support.waiting import wait_until
from tests.support.wire import wire


@pytest.mark.case("C4")
def test_a_worker_event_that_comes_twice_at_once_works_once(connection: Connection, workshop: Workshop) -> None:
    """C4: eight deliveries in parallel, one worker; the others claim nothing."""
    put_many(connection, [{"payload": number} for number in range(20)])
    event = workshop.reserve()
    with ThreadPoolExecutor(max_workers=8) as executor:
        drained = list(executor.map(lambda _: workshop.work(event), range(8)))
    assert sorted((one.admitted, one.settled) for one in drained) == [(False, 0)] * 7 + [(True, 20)]
    assert sorted(payload for payload, _ in workshop.ran) == list(range(20))


@pytest.mark.case("C4")
def test_a_worker_event_that_comes_again_an_hour_later_works_no_more(
    connection: Connection, clock: Clock, scheduler: Scheduler, workshop: Workshop
) -> None:
    """C4: its token is spent, though there is work and its slot is free, or somebody else's."""
    event = workshop.reserve()
    workshop.work(event)
    clock.advance(3600)
    put(connection)
    assert not workshop.work(event).admitted
    someone = workshop.reserve()
    assert someone.slot == event.slot
    assert not workshop.work(event).admitted
    assert workshop.ran == []


def test_a_worker_that_comes_after_its_invitation_has_run_out_claims_nothing(
    connection: Connection, clock: Clock, scheduler: Scheduler, workshop: Workshop
) -> None:
    """C4: the tick has freed its slot."""
    event = workshop.reserve()
    put(connection)
    clock.advance(70)
    scheduler.tick()
    assert not workshop.work(event).admitted


class _Office:
    """Answers the scheduler's invocations with workers, as AWS would: each in a thread of its own."""

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop
        self.executor = ThreadPoolExecutor(max_workers=8)

    def serve(self, invocations: Invocations, until: Callable[[], bool]) -> None:
        while not until():
            for event in invocations.take_workers():
                self.executor.submit(self._workshop.work, event)
            time.sleep(0.005)
        self.executor.shutdown()


def _beats(enter: Enter, settings: Settings) -> tuple[Callable[[], Led], list[tuple[datetime, int]]]:
    """A scheduler to be run in a thread, and the times of its ticks by the database's clock."""
    connection, ticks = enter("scheduler"), list[tuple[datetime, int]]()

    def observe(dispatched: Dispatch, lag_seconds: float, seconds: float) -> None:
        ticks.append((dispatched.now, dispatched.invoked))

    def run() -> Led:
        return lead(connection, settings, uuid4(), 150, lambda: pytest.fail("no reason to reconnect"), observe)

    return run, ticks


@pytest.mark.case("C5")
def test_two_schedulers_double_neither_a_tick_nor_a_job(
    connection: Connection, enter: Enter, settings: Settings, invocations: Invocations, workshop: Workshop
) -> None:
    """C5, smaller: the second takes the lead in the first's stride; 300 jobs, each run once."""
    quick = settings.model_copy(update={"tick_seconds": 0.05, "leader_seconds": 3.0, "idle_exit": False})
    numbers = list(range(300))
    put_many(connection, [{"payload": number} for number in numbers])
    (first, first_ticks), (second, second_ticks) = _beats(enter, quick), _beats(enter, quick)
    office = _Office(workshop)
    with meanwhile(first) as leading:
        wait_until(lambda: first_ticks, "the first scheduler ticks")
        with meanwhile(second) as succeeding:
            office.serve(invocations, until=lambda: tally(connection).get("completed") == 300)
            assert leading.result(20).taken_over
            assert not succeeding.result(20).taken_over
    assert sorted(payload for payload, _ in workshop.ran) == numbers
    assert max(first_ticks) < min(second_ticks)
    assert len(second_ticks) > 5


@pytest.mark.case("C5")
def test_a_scheduler_that_was_replaced_ticks_no_more(
    connection: Connection, enter: Enter, settings: Settings, scheduler: Scheduler, invocations: Invocations
) -> None:
    """C5: between two of its ticks another has taken the lead."""
    put(connection)
    with closing(Scheduler(enter("scheduler"), settings)):
        assert scheduler.tick() is None
    assert list(invocations) == []


@pytest.mark.case("C7")
def test_a_job_whose_invocations_fail_has_lost_no_attempt_and_starts_with_the_fourth(
    connection: Connection, clock: Clock, scheduler: Scheduler, invocations: Invocations, workshop: Workshop
) -> None:
    """C7: three ticks, three refusals; each time the slot is free again at once."""
    job_id = put(connection)
    invocations.failing = 3
    slots = scheduler.settings.worker_slots
    for _ in range(3):
        dispatched = scheduler.tick()
        assert dispatched is not None
        assert (dispatched.invoked, dispatched.refused) == (0, 1)
        assert count_slots(connection, slots) == Occupancy(free=slots, invited=0, started=0)
        assert row(connection, job_id)["attempt"] == 0
        clock.advance(1)
    scheduler.tick()
    (event,) = invocations.take_workers()
    assert event.ids == [job_id]
    workshop.work(event)
    assert (row(connection, job_id)["status"], row(connection, job_id)["attempt"]) == ("completed", 1)


@pytest.mark.case("C7")
def test_a_worker_that_came_although_the_answer_to_its_invoke_was_lost_keeps_its_slot(
    connection: Connection, clock: Clock, scheduler: Scheduler, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C7: time-out on our side, delivery on the other; nobody else is let in beside it."""
    job_id = put(connection)

    def deliver_and_time_out(function: str, event: Mapping[str, Any]) -> None:
        arrived = worker_event(event)
        assert start(connection, arrived.slot, arrived.token, 310)
        raise InvokeFailed("no answer")

    monkeypatch.setattr(wake, "invoke", deliver_and_time_out)
    scheduler.tick()
    occupied = count_slots(connection, scheduler.settings.worker_slots)
    assert (occupied.started, occupied.invited) == (1, 0)
    assert row(connection, job_id)["status"] == "pending"


def test_a_worker_runs_what_it_was_handed_first(
    connection: Connection, clock: Clock, scheduler: Scheduler, invocations: Invocations, workshop: Workshop
) -> None:
    """The heap's choice of this tick, though a more urgent job has come since; then that one."""
    workshop.adjust(worker_concurrency=1)
    put(connection, priority=3, payload="chosen")
    scheduler.tick()
    put(connection, priority=1, payload="came since")
    (event,) = invocations.take_workers()
    workshop.work(event)
    assert [payload for payload, _ in workshop.ran] == ["chosen", "came since"]


@pytest.mark.case("C9")
def test_the_loop_outlives_a_database_that_is_away(
    connection: Connection, entrance: Entrance, settings: Settings, invocations: Invocations
) -> None:
    """C9: ticks fail with a word while it is away, and go on afterwards; what was posted meanwhile is dispatched."""
    quick = settings.model_copy(update={"tick_seconds": 0.05, "leader_seconds": 30.0, "idle_exit": False})
    ticks: list[Dispatch] = []
    with ExitStack() as stack:
        cable = stack.enter_context(wire("127.0.0.1", entrance.server.port))
        url = cable.over(entrance.url("scheduler"))
        own = stack.enter_context(closing(connect(url)))
        opened: list[Connection] = []

        def reconnect() -> Connection:
            opened.append(connect(url))
            return opened[-1]

        def run() -> Led:
            return lead(own, quick, uuid4(), 150, reconnect, lambda dispatched, lag, seconds: ticks.append(dispatched))

        leading = stack.enter_context(meanwhile(run))
        wait_until(lambda: ticks, "the scheduler ticks")
        cable.down = True
        cable.cut()
        job_id = put(connection)
        before = len(ticks)
        threading.Event().wait(0.5)
        assert not leading.done()
        assert len(ticks) <= before + 1
        cable.down = False
        wait_until(lambda: invocations, "a worker is called")
        assert job_id in invocations.take_workers()[0].ids
        _take_the_lead(connection)
        assert leading.result(20).taken_over
        for one in opened:
            one.close()


def _take_the_lead(connection: Connection) -> None:
    connection.execute("UPDATE dilamme.scheduler_lease SET epoch = epoch + 1")


@pytest.mark.case("C9")
def test_a_database_that_is_away_from_the_beginning_is_one_clear_error(entrance: Entrance) -> None:
    """C9: the invocation ends; the next trigger tries again."""
    with wire("127.0.0.1", entrance.server.port) as cable:
        cable.down = True
        with pytest.raises(DatabaseUnavailable, match="the database does not answer"):
            connect(cable.over(entrance.url("scheduler")))


@pytest.mark.case("C9")
def test_a_worker_outlives_a_database_that_is_away_and_runs_each_job_once(
    connection: Connection, entrance: Entrance, workshop: Workshop
) -> None:
    """C9: while jobs run the database goes; their results are stored when it is back."""
    entered, resume = threading.Event(), threading.Event()

    @workshop.registry.job("test.wait")
    def wait(payload: object, context: object) -> str:
        workshop.ran.append((payload, 1))
        entered.set()
        resume.wait(20)
        return "done"

    waiting = put(connection, type="test.wait", payload="waited")
    with wire("127.0.0.1", entrance.server.port) as cable:
        event = workshop.reserve()
        workshop.url = cable.over(workshop.url)
        with meanwhile(lambda: workshop.work(event)) as working:
            assert entered.wait(20)
            cable.down = True
            cable.cut()
            resume.set()
            others = put_many(connection, [{"payload": number} for number in range(5)])
            threading.Event().wait(0.5)
            assert row(connection, waiting)["status"] == "running"
            cable.down = False
            working.result(30)
    assert tally(connection) == {"completed": 1 + len(others)}
    assert sorted(map(str, (payload for payload, _ in workshop.ran))) == [*map(str, range(5)), "waited"]
    assert row(connection, waiting)["attempt"] == 1


def test_a_slot_in_use_is_not_reserved_again(connection: Connection) -> None:
    """Neither by a tick, which reserves for many at once, nor by a POST."""
    provide_slots(connection, 2)
    (first,) = reserve(connection, [uuid4()], 2, 60)
    assert start(connection, first.slot, first.token, 310)
    (second,) = reserve(connection, [uuid4(), uuid4()], 2, 60)
    assert second.slot != first.slot
    assert reserve(connection, [uuid4()], 2, 60) == []
    assert reserve_or_look(connection, uuid4(), 2, 60)[0] is None
    assert count_slots(connection, 2) == Occupancy(free=0, invited=1, started=1)


def test_an_event_for_a_slot_that_does_not_exist_claims_nothing(connection: Connection, workshop: Workshop) -> None:
    put(connection, type=ECHO)
    assert not workshop.work(WorkerEvent(slot=999, token=uuid4(), ids=[], ticked_at=None)).admitted


def test_a_connection_that_is_refused_raises_no_psycopg_error(entrance: Entrance) -> None:
    with pytest.raises(DatabaseUnavailable) as refused:
        connect(entrance.url("scheduler").replace(f"/{entrance.name}", "/no_such_database"))
    assert not isinstance(refused.value, psycopg.Error)
