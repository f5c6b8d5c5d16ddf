"""What one worker remembers of how long jobs take."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dilamme.domain.durations import Durations

seconds = st.floats(0, 1e6)


def test_a_worker_that_has_seen_nothing_takes_one_job_a_runner() -> None:
    assert Durations().batch_size(runners=4, wait_seconds=1.0, limit=500) == 4


def test_a_batch_keeps_the_runners_busy_for_half_of_what_a_claimed_job_may_wait() -> None:
    durations = Durations()
    durations.record([("echo", 0.01)] * 10)
    assert durations.batch_size(runners=4, wait_seconds=1.0, limit=500) == 200


def test_slow_jobs_make_batches_of_one_job_a_runner() -> None:
    durations = Durations()
    durations.record([("slow", 60.0)])
    assert durations.batch_size(runners=4, wait_seconds=1.0, limit=500) == 4


@given(st.lists(seconds), st.integers(1, 64), st.floats(0.001, 1000), st.integers(1, 5000))
def test_a_batch_is_never_empty_and_never_over_the_most(
    taken: list[float], runners: int, wait: float, most: int
) -> None:
    durations = Durations()
    durations.record(("echo", one) for one in taken)
    size = durations.batch_size(runners, wait, most)
    assert min(runners, most) <= size <= most


def test_jobs_that_take_no_time_fill_the_batch() -> None:
    durations = Durations()
    durations.record([("echo", 0.0)] * 3)
    assert durations.batch_size(runners=1, wait_seconds=1.0, limit=500) == 500


def test_recent_jobs_count_and_older_ones_are_forgotten() -> None:
    durations = Durations()
    durations.record([("slow", 100.0)] * 100)
    durations.record([("echo", 0.5)] * 64)
    assert durations.typical_seconds == pytest.approx(0.5)


def test_a_type_that_was_seldom_seen_has_no_percentile() -> None:
    durations = Durations()
    durations.record([("rare", 1.0)] * 19)
    durations.record([("other", 1.0)] * 100)
    assert durations.high_seconds("rare") is None
    assert durations.high_seconds("never") is None


def test_of_a_type_that_was_seen_often_enough_nearly_all_jobs_stay_under_its_high() -> None:
    durations = Durations()
    durations.record([("echo", 0.1)] * 19 + [("echo", 3.0)] + [("slow", 60.0)] * 20)
    assert durations.high_seconds("echo") == 3.0


def test_an_outlier_is_forgotten_after_128_jobs_of_its_type() -> None:
    durations = Durations()
    durations.record([("echo", 60.0)] + [("echo", 0.1)] * 127)
    assert durations.high_seconds("echo") == 60.0
    durations.record([("echo", 0.1)])
    assert durations.high_seconds("echo") == 0.1
