"""The grid of a recurring job."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dilamme.domain.recurrence import next_slot
from dilamme.wire.requests import INTERVAL_SECONDS_MAX
from tests.unit.strategies import moments

DAY = 86_400


def following(previous: datetime, interval_seconds: int, now: datetime) -> datetime:
    """The next slot, which must exist."""
    slot = next_slot(previous, interval_seconds, now)
    assert slot is not None
    return slot


intervals = st.one_of(st.integers(1, 5), st.integers(1, INTERVAL_SECONDS_MAX))


@st.composite
def runs(draw: st.DrawFn) -> tuple[datetime, int, datetime]:
    """A slot, an interval in seconds, and a time: often on the grid, or a microsecond beside it."""
    previous, interval = draw(moments), draw(intervals)
    near = st.builds(
        lambda slots, slip: previous + slots * timedelta(seconds=interval) + timedelta(microseconds=slip),
        st.integers(-1, 3),
        st.integers(-1, 1),
    )
    return previous, interval, draw(st.one_of(moments, near))


@given(runs())
def test_the_next_slot_lies_after_the_previous_one_and_after_now(run: tuple[datetime, int, datetime]) -> None:
    previous, interval, now = run
    assert following(previous, interval, now) > max(previous, now)


@given(runs())
def test_the_next_slot_lies_on_the_grid(run: tuple[datetime, int, datetime]) -> None:
    previous, interval, now = run
    assert (following(previous, interval, now) - previous) % timedelta(seconds=interval) == timedelta(0)


@given(runs())
def test_no_earlier_slot_would_do(run: tuple[datetime, int, datetime]) -> None:
    previous, interval, now = run
    assert following(previous, interval, now) - timedelta(seconds=interval) <= max(previous, now)


def test_a_nightly_job_whose_runs_end_four_hours_late_starts_at_the_same_time_every_day() -> None:
    slot = datetime(2030, 1, 1, 2, 30, tzinfo=UTC)
    for day in range(2, 7):
        slot = following(slot, DAY, slot + timedelta(hours=4))
        assert slot == datetime(2030, 1, day, 2, 30, tzinfo=UTC)


def test_after_an_outage_there_is_one_run_for_what_was_missed_and_then_the_grid() -> None:
    late = datetime(2030, 1, 1, 12, 2, tzinfo=UTC)
    assert following(datetime(2030, 1, 1, 10, 0, tzinfo=UTC), 300, late) == datetime(2030, 1, 1, 12, 5, tzinfo=UTC)


def test_a_run_of_twelve_seconds_at_an_interval_of_five_skips_two_slots() -> None:
    start = datetime(2030, 1, 1, tzinfo=UTC)
    assert following(start, 5, start + timedelta(seconds=12)) == start + timedelta(seconds=15)


def test_a_run_that_ends_on_the_very_slot_goes_to_the_one_behind_it() -> None:
    start = datetime(2030, 1, 1, tzinfo=UTC)
    assert following(start, 5, start + timedelta(seconds=5)) == start + timedelta(seconds=10)


def test_a_run_that_ends_before_its_slot_as_a_cancelled_one_does_goes_to_the_following() -> None:
    start = datetime(2030, 1, 1, tzinfo=UTC)
    assert following(start, 5, start - timedelta(days=1)) == start + timedelta(seconds=5)


@pytest.mark.case("K3")
@pytest.mark.parametrize("now", [datetime(2030, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)])
def test_the_grid_ends_with_the_year_9999(now: datetime) -> None:
    last = datetime(9999, 12, 30, 12, tzinfo=UTC)
    assert next_slot(last, INTERVAL_SECONDS_MAX, now) is None
    assert next_slot(last, 1, last) == last + timedelta(seconds=1)
