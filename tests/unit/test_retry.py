"""Backoff: half of it fixed, half of it random."""

import math
import random
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dilamme.domain.retry import Backoff

positive = st.floats(1e-3, 1e300)
fractions = st.floats(0, 1, exclude_max=True)
attempts = st.integers(1, 25)


def whole_seconds(backoff: Backoff, attempt: int) -> Fraction:
    """The backoff of the definition, in exact numbers: the base, doubled with each failure, up to the cap."""
    doubled = Fraction(backoff.base_seconds) * Fraction(2) ** (attempt - 1)
    return min(Fraction(backoff.cap_seconds), doubled)


@given(st.builds(Backoff, positive, positive), attempts, fractions)
def test_the_wait_lies_between_half_of_the_backoff_and_the_whole(backoff: Backoff, attempt: int, rand: float) -> None:
    whole = float(whole_seconds(backoff, attempt))
    assert whole / 2 <= backoff.delay_seconds(attempt, rand) <= whole


@given(st.builds(Backoff, positive, positive), attempts)
def test_the_random_half_is_used_from_end_to_end(backoff: Backoff, attempt: int) -> None:
    whole = float(whole_seconds(backoff, attempt))
    assert backoff.delay_seconds(attempt, 0.0) == whole / 2
    assert math.isclose(backoff.delay_seconds(attempt, math.nextafter(1, 0)), whole)


@given(st.builds(Backoff, positive, positive), st.integers(1, 10**9), fractions)
def test_no_number_of_attempts_leads_past_the_cap_or_out_of_range(backoff: Backoff, attempt: int, rand: float) -> None:
    assert 0 < backoff.delay_seconds(attempt, rand) <= backoff.cap_seconds


@given(st.builds(Backoff, positive, positive), st.integers(1, 100), fractions)
def test_a_later_attempt_never_waits_less_for_the_same_chance(backoff: Backoff, attempt: int, rand: float) -> None:
    assert backoff.delay_seconds(attempt, rand) <= backoff.delay_seconds(attempt + 1, rand)


def test_the_default_doubles_from_ten_seconds_to_an_hour() -> None:
    backoff = Backoff(base_seconds=10, cap_seconds=3600)
    halves = [backoff.delay_seconds(attempt, 0.0) for attempt in range(1, 12)]
    assert halves == [5, 10, 20, 40, 80, 160, 320, 640, 1280, 1800, 1800]


@pytest.mark.case("R1")
@pytest.mark.parametrize("seed", range(20))
def test_a_thousand_jobs_that_fail_together_spread_evenly_over_the_random_half(seed: int) -> None:
    rand = random.Random(seed)
    backoff = Backoff(base_seconds=10, cap_seconds=3600)
    attempt = 1 + seed % 12
    half = float(whole_seconds(backoff, attempt)) / 2
    delays = [backoff.delay_seconds(attempt, rand.random()) for _ in range(1000)]
    tenths = Counter(int((delay - half) / half * 10) for delay in delays)
    assert tenths.keys() == set(range(10))
    assert max(tenths.values()) <= 150
