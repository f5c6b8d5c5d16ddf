"""The job types that a worker knows, and what a handler can say."""

import copy
import functools
import inspect
import pickle
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from dilamme.domain.errors import ConfigurationError
from dilamme.domain.retry import SECONDS_MAX
from dilamme.handlers.registry import JobType, Registry
from dilamme.handlers.signals import Fail, Retry, Snooze


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


@pytest.mark.parametrize("most", [0, -1, 26, 2.5, 3.0, True, "5", Decimal(5)])
def test_attempts_that_the_table_could_not_hold_are_refused(most: Any) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Registry().job("echo", max_attempts=most)(handler)
    assert str(refused.value) == f"job type 'echo': max_attempts must be a whole number from 1 to 25, not {most!r}"


@pytest.mark.parametrize("name", ["timeout_seconds", "backoff_base_seconds", "backoff_cap_seconds"])
@pytest.mark.parametrize(
    "value",
    [0, -1, float("inf"), float("nan"), SECONDS_MAX + 1, 10**400, True, "30", Decimal(5), timedelta(seconds=30)],
)
def test_a_time_that_cannot_be_waited_for_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Registry().job("echo", **{name: value})(handler)
    assert str(refused.value).startswith(f"job type 'echo': {name} must be a number of seconds")
    assert str(refused.value).endswith(f"not {value!r}")


def test_times_are_kept_as_the_numbers_that_a_worker_reckons_with() -> None:
    registry = Registry()
    registry.job("echo", timeout_seconds=30, backoff_base_seconds=1, backoff_cap_seconds=60)(handler)
    kept = registry["echo"]
    times = (kept.timeout_seconds, kept.backoff_base_seconds, kept.backoff_cap_seconds)
    assert [type(seconds) for seconds in times] == [float] * 3


# ===== what can be a handler =====


class Sender:
    """Something to call, and something with a method to register."""

    def __init__(self, payload: Any = None, context: Any = None) -> None:
        self.sent = (payload, context)

    def __call__(self, payload: Any, context: Any) -> Any:
        """Does nothing."""

    def send(self, payload: Any, context: Any) -> Any:
        """Does nothing either."""


def injecting(wrapped: Callable[..., Any]) -> Callable[..., Any]:
    """Gives what it decorates an argument of its own."""

    @functools.wraps(wrapped)
    def wrapper(*args: Any, **named: Any) -> Any:
        return wrapped(*args, database=None, **named)

    return wrapper


class InjectingProxy:
    """The same as the library wrapt does it: by an object that looks like the function within."""

    def __init__(self, wrapped: Callable[..., Any]) -> None:
        self.__wrapped__ = wrapped

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.__wrapped__(*args, database=None, **named)


def needing(payload: Any, context: Any, database: Any) -> Any:
    """Needs one more."""


def needing_by_its_word(*args: Any) -> Any:
    """Says that it needs one more."""


needing_by_its_word.__signature__ = inspect.signature(needing)  # type: ignore[attr-defined]


async def async_handler(payload: Any, context: Any) -> Any:
    """Does nothing, later."""


@pytest.mark.parametrize(
    "registered",
    [
        handler,
        async_handler,
        lambda payload, context, more=None: None,
        lambda *args: None,
        functools.partial(needing, database=None),
        functools.partial(async_handler),
        functools.lru_cache(handler),
        injecting(needing),
        InjectingProxy(needing),
        needing_by_its_word,
        Sender,
        Sender(),
        Sender().send,
        print,
        max,  # a built-in one, whose signature nobody knows
    ],
)
def test_whatever_can_be_called_with_a_payload_and_a_context_is_a_handler(registered: Any) -> None:
    registry = Registry()
    registry.job("echo")(registered)
    assert registry["echo"].handler is registered


def generate(payload: Any, context: Any) -> Iterator[Any]:
    yield payload


async def generate_async(payload: Any, context: Any) -> AsyncIterator[Any]:
    yield payload


class Generating:
    """A handler by its looks."""

    def __call__(self, payload: Any, context: Any) -> Iterator[Any]:
        yield payload, context


@pytest.mark.parametrize("registered", [5, None, "print", {}, classmethod(handler)])
def test_what_cannot_be_called_is_no_handler(registered: Any) -> None:
    registry = Registry()
    with pytest.raises(ConfigurationError, match=r"'echo': .* cannot be called; decorate handler\(payload, context\)"):
        registry.job("echo")(registered)
    assert not registry


@pytest.mark.parametrize(
    "registered", [generate, generate_async, functools.partial(generate), Generating(), Generating().__call__]
)
def test_a_generator_would_run_nothing_so_it_is_no_handler(registered: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"'echo': .* is a generator, of which a call runs nothing: return"):
        Registry().job("echo")(registered)


@pytest.mark.parametrize(
    ("registered", "why"),
    [
        (lambda payload: None, "too many positional arguments"),
        (lambda: None, "too many positional arguments"),
        (needing, "missing a required argument: 'database'"),
        (lambda payload, context, *, database: None, "argument: 'database'"),
        (lambda payload, *, context: None, "too many positional arguments"),
        (Sender.send, "missing a required argument: 'context'"),
        (functools.partial(handler, {}), "too many positional arguments"),
        (type("Nothing", (), {"__init__": lambda self: None}), "too many positional arguments"),
    ],
)
def test_a_signature_that_a_job_could_not_call_is_refused_before_there_is_a_job(registered: Any, why: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Registry().job("echo")(registered)
    assert str(refused.value).startswith("job type 'echo': ")
    assert " cannot be called as handler(payload, context): " in str(refused.value)
    assert str(refused.value).endswith(why)


# ===== what fits into the worker's time =====


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
    assert str(Fail()) == "the handler gave up"


class RateLimited(Retry):
    """Keeps its own number, and forgets its parent's."""

    def __init__(self, limit: int) -> None:
        self.limit = limit


class Tomorrow(Snooze):
    """A snooze whose constructor takes nothing."""

    def __init__(self) -> None:
        super().__init__(86_400)


@pytest.mark.parametrize(
    "word",
    [
        Snooze(60),
        Tomorrow(),
        Retry("the mail server is away", after=1),
        Retry(),
        RateLimited(3),
        Fail("no such customer"),
        Fail(),
    ],
)
@pytest.mark.parametrize("copied", [lambda word: pickle.loads(pickle.dumps(word)), copy.copy, copy.deepcopy])
def test_a_word_comes_out_of_another_process_as_it_was_said(word: Exception, copied: Callable[[Any], Any]) -> None:
    heard = copied(word)
    assert (type(heard), str(heard), vars(heard)) == (type(word), str(word), vars(word))


def test_a_snooze_without_its_time_says_what_it_takes() -> None:
    with pytest.raises(TypeError, match=r"^Snooze takes the seconds: Snooze\(60\)$"):
        raise Snooze


@pytest.mark.parametrize("seconds", ["soon", timedelta(minutes=1), [60]])
def test_a_time_that_is_no_number_fails_in_the_handler_that_names_it(seconds: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        Retry(after=seconds)
    with pytest.raises((TypeError, ValueError)):
        Snooze(seconds)


def test_a_decorator_without_its_type_is_an_error_at_start() -> None:
    with pytest.raises(ConfigurationError, match="@job needs the job's type"):
        Registry().job(print)  # type: ignore[arg-type]
