"""Which end a failure leads to, and what of its text is kept."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dilamme.domain.job import Reason
from dilamme.domain.outcome import MESSAGE_CHARACTERS_MAX, Bury, RetryLater, after_failure, after_loss, shorten
from dilamme.domain.retry import Backoff

BACKOFF = Backoff(base_seconds=10, cap_seconds=3600)
any_text = st.text(st.characters(categories=None))  # with NUL and half surrogate pairs


@dataclass(frozen=True)
class Attempt:
    """The part of a claim that the decision looks at."""

    attempt: int
    max_attempts: int
    timeout_seconds: float = 60
    overdue: bool = False


left = st.builds(lambda spent, rest: Attempt(spent, spent + rest), st.integers(1, 24), st.integers(1, 24))
last = st.integers(1, 25).flatmap(lambda most: st.builds(Attempt, st.integers(most, most + 3), st.just(most)))


@given(left, st.floats(0, 1, exclude_max=True))
def test_a_failure_with_attempts_left_is_retried_after_its_backoff(job: Attempt, rand: float) -> None:
    outcome = after_failure(job, Reason.ERROR, "boom", BACKOFF, rand)
    assert outcome == RetryLater(Reason.ERROR, "boom", BACKOFF.delay_seconds(job.attempt, rand))


@given(last, st.sampled_from(Reason), st.one_of(st.none(), st.floats(0, 10)))
def test_the_last_failure_buries_even_if_the_handler_named_a_time(
    job: Attempt, reason: Reason, after_seconds: float | None
) -> None:
    assert after_failure(job, reason, "boom", BACKOFF, 0.5, after_seconds) == Bury(reason, "boom")


@pytest.mark.parametrize("after_seconds", [0.0, 1.0, 10**6])
def test_a_time_that_the_handler_named_beats_the_backoff(after_seconds: float) -> None:
    outcome = after_failure(Attempt(1, 3), Reason.RETRY, "later", BACKOFF, 0.5, after_seconds)
    assert outcome == RetryLater(Reason.RETRY, "later", after_seconds)


def test_a_handler_that_always_asks_for_another_attempt_is_dead_after_its_three() -> None:
    outcomes = [after_failure(Attempt(attempt, 3), Reason.RETRY, "", BACKOFF, 0, 1) for attempt in (1, 2, 3)]
    assert [type(outcome) for outcome in outcomes] == [RetryLater, RetryLater, Bury]


def test_a_job_whose_worker_is_lost_for_the_first_time_runs_again_at_once() -> None:
    outcome = after_loss(Attempt(1, 3), BACKOFF, 0.5)
    assert isinstance(outcome, RetryLater)
    assert (outcome.reason, outcome.delay_seconds) == (Reason.WORKER_LOST, 0)


def test_a_job_whose_worker_is_lost_again_waits_for_its_backoff() -> None:
    outcome = after_loss(Attempt(2, 3), BACKOFF, 0.5)
    assert isinstance(outcome, RetryLater)
    assert outcome.delay_seconds == BACKOFF.delay_seconds(2, 0.5)


@pytest.mark.case("H8")
def test_a_job_whose_time_was_over_when_its_worker_was_lost_has_timed_out_and_waits_for_its_backoff() -> None:
    message = "its worker's process ended, and its 2.5 s were over"
    late = after_loss(Attempt(1, 3, timeout_seconds=2.5, overdue=True), BACKOFF, 0.5)
    assert late == RetryLater(Reason.TIMEOUT, message, BACKOFF.delay_seconds(1, 0.5))
    assert after_loss(Attempt(3, 3, timeout_seconds=2.5, overdue=True), BACKOFF, 0.5) == Bury(Reason.TIMEOUT, message)


@pytest.mark.parametrize("most", [1, 3])
def test_a_job_that_loses_every_worker_is_buried_as_such_with_its_last_attempt(most: int) -> None:
    outcome = after_loss(Attempt(most, most), BACKOFF, 0.5)
    assert isinstance(outcome, Bury)
    assert outcome.reason is Reason.WORKER_LOST


@given(any_text)
def test_what_is_kept_of_a_message_is_text_that_postgresql_can_hold(message: str) -> None:
    kept = shorten(message)
    kept.encode()
    assert "\0" not in kept
    assert len(kept) == len(message)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_a_message_that_can_be_kept_is_kept_as_it_is(message: str) -> None:
    assert shorten(message) == message


@pytest.mark.parametrize("length", [MESSAGE_CHARACTERS_MAX + 1, 5_000, 10**6])
def test_a_message_that_is_too_long_is_cut_to_size_and_says_how_long_it_was(length: int) -> None:
    kept = shorten("ä" * length)
    assert len(kept) == MESSAGE_CHARACTERS_MAX
    assert kept.startswith("ääää")
    assert kept.endswith(f" … ({length} characters)")


def test_a_message_of_just_the_size_is_not_cut() -> None:
    message = "x" * MESSAGE_CHARACTERS_MAX
    assert shorten(message) == message


def test_the_message_of_either_end_is_shortened() -> None:
    too_long = "\0" * (MESSAGE_CHARACTERS_MAX + 1)
    for job in (Attempt(1, 3), Attempt(3, 3)):
        assert after_failure(job, Reason.ERROR, too_long, BACKOFF, 0).message == shorten(too_long)
