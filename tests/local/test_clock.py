"""The clock triggers the scheduler with EventBridge's event: at once, every interval, and as unreliably as a test likes."""

import itertools
from collections.abc import Callable, Iterator

import pytest

from dilamme_local.clock import Clock
from dilamme_local.faults import Kind
from tests.local.puppet_service import PuppetService, puppet
from tests.support.waiting import wait_until


@pytest.fixture
def scheduler(start: Callable[..., PuppetService]) -> PuppetService:
    return start(puppet("scheduler"))


@pytest.fixture
def tick(scheduler: PuppetService) -> Iterator[Callable[[float], Clock]]:
    """Starts a clock of this interval."""
    clocks: list[Clock] = []

    def start_clock(interval_seconds: float) -> Clock:
        clocks.append(Clock(scheduler.events, scheduler.faults, interval_seconds=interval_seconds))
        clocks[-1].start()
        return clocks[-1]

    yield start_clock
    for clock in clocks:
        clock.stop()


def accepted(service: PuppetService) -> int:
    return service.dispatcher.counts()["scheduler"]["accepted"]


def test_the_first_trigger_comes_at_once_and_is_a_scheduled_event(
    scheduler: PuppetService, tick: Callable[[float], Clock]
) -> None:
    tick(3600)
    event = scheduler.wait_for_calls("scheduler", 1)[0]["event"]
    assert event.keys() == {
        "version",
        "id",
        "detail-type",
        "source",
        "account",
        "time",
        "region",
        "resources",
        "detail",
    }
    assert (event["detail-type"], event["source"]) == ("Scheduled Event", "aws.events")


def test_triggers_follow_each_other_under_ids_of_their_own(
    scheduler: PuppetService, tick: Callable[[float], Clock]
) -> None:
    tick(0.1)
    calls = scheduler.wait_for_calls("scheduler", 3)
    assert all(first["event"]["id"] != second["event"]["id"] for first, second in itertools.pairwise(calls))


def test_a_doubled_trigger_comes_twice(scheduler: PuppetService, tick: Callable[[float], Clock]) -> None:
    scheduler.arm("clock", Kind.DOUBLE)
    tick(3600)
    scheduler.wait_for_calls("scheduler", 2)


def test_an_absent_trigger_is_skipped(scheduler: PuppetService, tick: Callable[[float], Clock]) -> None:
    scheduler.arm("clock", Kind.LOSE)
    tick(3600)
    wait_until(lambda: not scheduler.faults.armed())
    assert accepted(scheduler) == 0


def test_a_late_trigger_comes_in_the_end(scheduler: PuppetService, tick: Callable[[float], Clock]) -> None:
    scheduler.arm("clock", Kind.DELAY, seconds=0.2)
    tick(3600)
    wait_until(lambda: not scheduler.faults.armed())
    assert accepted(scheduler) == 0
    scheduler.wait_for_calls("scheduler", 1)


def test_a_test_can_trigger_by_hand(scheduler: PuppetService, tick: Callable[[float], Clock]) -> None:
    clock = tick(3600)
    clock.trigger()
    scheduler.wait_for_calls("scheduler", 2)


def test_a_stopped_clock_is_silent(scheduler: PuppetService, tick: Callable[[float], Clock]) -> None:
    clock = tick(0.01)
    scheduler.wait_for_calls("scheduler", 1)
    clock.stop()
    before = accepted(scheduler)
    scheduler.invoke("scheduler")
    assert accepted(scheduler) == before
