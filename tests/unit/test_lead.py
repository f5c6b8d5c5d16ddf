"""The scheduler's beat."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dilamme.scheduler.lead import next_deadline

# Binary fractions: sums and products of them are exact, so that the grid can be held to equality.
exact = st.integers(0, 2**40).map(lambda count: count / 1024)
ticks = st.integers(1, 2**14).map(lambda count: count / 1024)


@given(exact, exact, ticks)
def test_the_next_beat_lies_on_the_grid_and_is_late_by_less_than_a_beat(
    deadline: float, lag: float, tick: float
) -> None:
    now = deadline + lag
    following, missed = next_deadline(deadline, now, tick)
    assert Fraction(following - deadline) == (missed + 1) * Fraction(tick)
    assert following > now - tick


@given(exact, exact, ticks)
def test_no_earlier_beat_would_do_and_those_between_are_counted_as_missed(
    deadline: float, lag: float, tick: float
) -> None:
    now = deadline + lag
    following, missed = next_deadline(deadline, now, tick)
    assert following - tick <= now
    assert missed == max(0, lag // tick - 1)


@pytest.mark.parametrize(
    ("now", "following", "missed"),
    [(100.0, 101.0, 0), (100.9, 101.0, 0), (101.01, 101.0, 0), (104.5, 104.0, 3), (99.5, 101.0, 0)],
)
def test_a_late_tick_is_followed_by_the_last_beat_that_has_passed_and_those_before_are_not_made_up_for(
    now: float, following: float, missed: int
) -> None:
    assert next_deadline(100.0, now, 1.0) == (following, missed)


def test_a_thousand_beats_do_not_drift() -> None:
    deadline = 0.0
    for _ in range(1000):
        deadline, _ = next_deadline(deadline, deadline + 0.3, 1.0)
    assert deadline == 1000.0
