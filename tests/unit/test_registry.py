"""The job types that a worker knows, and what a handler can say."""

from datetime import timedelta
from typing import Any

import pytest

from dilamme.domain.errors import ConfigurationError
from dilamme.domain.registry import Fail, JobType, Registry, Retry, Snooze
from dilamme.domain.retry import SECONDS_MAX


def handler(payload: Any, context: Any) -> Any:
    """Does nothing."""


def other_handler(payload: Any, context: Any) -> Any:
    """Does nothing either."""


def test_a_registered_handler_is_found_by_its_type_with_what_it_asks_for() -> None:
    registry = Registry()
    decorated = registry.job(
        "email.send", max_attempts=5, timeout_seconds=30, backoff_base_seconds=1, backoff_cap_seconds=60
    )(handler)
    assert decorated is handler
    assert dict(registry) == {"email.send": JobType("email.send", handler, 5, 30, 1, 60)}


def test_what_a_type_does_not_ask_for_is_left_to_the_settings() -> None:
    registry = Registry()
    registry.job("echo")(handler)
    assert registry["echo"] == JobType("echo", handler, None, None, None, None)
    assert len(registry) == 1


def test_a_type_that_nobody_registered_is_not_there() -> None:
    assert Registry().get("os.system") is None


@pytest.mark.parametrize("type_", ["a", "email.send", "a" * 100, "a0_.-"])
def test_a_type_may_be_up_to_a_hundred_characters_from_a_small_letter_on(type_: str) -> None:
    registry = Registry()
    registry.job(type_)(handler)
    assert type_ in registry


@pytest.mark.parametrize("type_", ["", "A", "0", ".a", "a b", "a\n", "a" * 101, "ä", "a/b"])
def test_another_type_is_refused(type_: str) -> None:
    registry = Registry()
    with pytest.raises(ConfigurationError, match="must be up to 100 of a-z"):
        registry.job(type_)(handler)
    assert not registry


def test_a_type_registered_twice_is_refused_with_the_places_of_both_handlers() -> None:
    registry = Registry()
    registry.job("echo")(handler)
    with pytest.raises(ConfigurationError) as refused:
        registry.job("echo")(other_handler)
    assert f"by {__name__}.handler and {__name__}.other_handler" in str(refused.value)
    assert registry["echo"].handler is handler


@pytest.mark.parametrize("most", [0, -1, 26])
def test_attempts_that_the_table_could_not_hold_are_refused(most: int) -> None:
    with pytest.raises(ConfigurationError, match="max_attempts must lie between 1 and 25"):
        Registry().job("echo", max_attempts=most)(handler)


@pytest.mark.parametrize("name", ["timeout_seconds", "backoff_base_seconds", "backoff_cap_seconds"])
@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan"), SECONDS_MAX + 1])
def test_a_time_that_cannot_be_waited_for_is_refused_by_its_name(name: str, value: float) -> None:
    with pytest.raises(ConfigurationError, match=f"'echo': {name} must be"):
        Registry().add(JobType("echo", handler, **{name: value}))  # type: ignore[arg-type]


def test_a_timeout_that_does_not_fit_into_the_workers_time_is_refused_at_the_start() -> None:
    registry = Registry()
    registry.job("patient", timeout_seconds=295)(handler)
    registry.job("modest")(handler)
    registry.refuse_timeouts_over(295)
    with pytest.raises(ConfigurationError, match=r"'patient' asks for a timeout of 295 s, but the worker has 294\.5 s"):
        registry.refuse_timeouts_over(294.5)


def test_a_retry_may_name_its_time_and_its_message() -> None:
    assert Retry().after_seconds is None
    assert Retry(after=60).after_seconds == 60
    assert str(Retry("the mail server is away", after=1)) == "the mail server is away"


def test_a_snooze_says_how_long_and_a_failure_says_why() -> None:
    assert Snooze(60).seconds == 60
    assert str(Snooze(60)) == "snoozed for 60 s"
    assert str(Fail("no such customer")) == "no such customer"


@pytest.mark.parametrize("seconds", ["soon", timedelta(minutes=1), [60]])
def test_a_time_that_is_no_number_fails_in_the_handler_that_names_it(seconds: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        Retry(after=seconds)
    with pytest.raises((TypeError, ValueError)):
        Snooze(seconds)


def test_a_decorator_without_its_type_is_an_error_at_start() -> None:
    with pytest.raises(ConfigurationError, match="@job needs the job's type"):
        Registry().job(print)  # type: ignore[arg-type]
