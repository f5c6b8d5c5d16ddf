"""`TimingWheel`: every item once, at its time, whatever the clock does."""

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from dilamme.domain.timing_wheel import TimingWheel

# Eight slots of ten microseconds: small enough for a few draws to land on every boundary and in every revolution.
SLOT_US, SLOTS = 10, 8
REVOLUTION_US = SLOT_US * SLOTS
near = st.integers(-3 * REVOLUTION_US, 5 * REVOLUTION_US)
boundaries = st.integers(-20, 60).map(lambda slot: slot * SLOT_US)
far = st.integers(-(10**15), 10**15)
times = near | boundaries | far


def wheel_of(dues: Iterable[int], start_us: int = 0) -> TimingWheel[int]:
    """A wheel in which each item is its own due time."""
    wheel: TimingWheel[int] = TimingWheel(SLOT_US, SLOTS, start_us)
    for due in dues:
        wheel.insert(due, due)
    return wheel


class AnyClock(RuleBasedStateMachine):
    """Insertions and looks in every order, on a clock that stands, runs, jumps and goes back, beside a plain list."""

    @initialize(start=times)
    def begin(self, start: int) -> None:
        self.wheel: TimingWheel[tuple[int, str]] = TimingWheel(SLOT_US, SLOTS, start)
        self.model: list[tuple[int, str]] = []
        self.now = start
        self.inserted = 0

    @rule(due=times)
    def insert_at(self, due: int) -> None:
        self.inserted += 1
        entry = (due, f"item {self.inserted}")
        self.wheel.insert(due, entry)
        self.model.append(entry)

    @rule(ahead=near)
    def insert_near_now(self, ahead: int) -> None:
        self.insert_at(self.now + ahead)

    @rule(step=st.integers(0, 2 * REVOLUTION_US) | st.integers(0, 3).map(lambda slots: slots * SLOT_US))
    def let_time_pass(self, step: int) -> None:
        self.look_at(self.now + step)

    @rule(now=times)
    def look_at(self, now: int) -> None:
        due = self.wheel.advance(now)
        assert sorted(due) == sorted(entry for entry in self.model if entry[0] <= now)
        self.model = [entry for entry in self.model if entry[0] > now]
        self.now = now

    @rule()
    def sleep_until_the_next(self) -> None:
        until = self.wheel.next_due()
        if until is not None:
            self.look_at(until)

    @invariant()
    def it_knows_when_to_wake_and_what_it_holds(self) -> None:
        assert len(self.wheel) == len(self.model)
        assert self.wheel.next_due() == min((due for due, _ in self.model), default=None)


TestAnyClock = AnyClock.TestCase
TestAnyClock.settings = settings(max_examples=80, stateful_step_count=30)


@given(st.lists(times), times)
def test_a_loop_that_sleeps_until_the_next_is_handed_each_item_at_its_time(dues: list[int], start: int) -> None:
    wheel, handed = wheel_of(dues, start), []
    while (now := wheel.next_due()) is not None:
        due = wheel.advance(now)
        assert set(due) == {now}
        handed += due
    assert handed == sorted(dues)


@pytest.mark.parametrize("due", [-1, 0, 1, 9, 10, 79, 80, 81, 160, 799, 800, 10**15])
def test_an_item_comes_at_its_microsecond_and_not_one_before(due: int) -> None:
    wheel = wheel_of([due])
    assert wheel.advance(due - 1) == []
    assert wheel.advance(due) == [due]
    assert wheel.advance(due) == []


def test_a_jump_over_many_revolutions_hands_out_all_that_it_passed() -> None:
    wheel = wheel_of([5, 75, 85, 10_000, 10_001])
    assert sorted(wheel.advance(10_000)) == [5, 75, 85, 10_000]
    assert len(wheel) == 1
    assert wheel.next_due() == 10_001


def test_an_item_overdue_when_it_comes_is_handed_out_at_the_next_look() -> None:
    wheel = wheel_of([])
    wheel.advance(55)
    wheel.insert(12, 12)
    assert wheel.next_due() == 12
    assert wheel.advance(55) == [12]


def test_a_clock_that_goes_back_brings_nothing_early_and_loses_nothing() -> None:
    wheel = wheel_of([60, 70])
    wheel.advance(65)
    assert wheel.advance(20) == []
    wheel.insert(30, 30)
    assert wheel.advance(25) == []
    assert wheel.advance(30) == [30]
    assert wheel.advance(70) == [70]


def test_items_need_not_compare_or_hash() -> None:
    wheel: TimingWheel[dict[str, object]] = TimingWheel(SLOT_US, SLOTS, 0)
    for _ in range(2):
        wheel.insert(7, {})
    assert wheel.next_due() == 7
    assert wheel.advance(7) == [{}, {}]


@pytest.mark.parametrize(("slot_us", "slots"), [(0, 8), (-1, 8), (10, 0), (10, -1)])
def test_a_wheel_without_slots_or_width_is_refused(slot_us: int, slots: int) -> None:
    with pytest.raises(ValueError, match="needs a slot"):
        TimingWheel(slot_us, slots, 0)
