"""One attempt of a handler: what it can say, what it can do wrong, and how its attempt ends."""

import asyncio
import json
import logging
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given

from dilamme.domain.job import Claim, Reason
from dilamme.domain.outcome import MESSAGE_CHARACTERS_MAX, Bury, Complete, Outcome, RetryLater, Return
from dilamme.domain.retry import Backoff
from dilamme.handlers.context import Context
from dilamme.handlers.registry import JobType
from dilamme.handlers.signals import Fail, Retry, Snooze
from dilamme.settings import Settings
from dilamme.worker.execute import RESULT_BYTES_MAX, SNOOZE_SECONDS_MAX, execute, unknown_type
from tests.unit.claims import claim
from tests.unit.strategies import NOW, json_values

SETTINGS = Settings()
PARENT = UUID(int=7)


def a_context(job: Claim, ask: Callable[[UUID, UUID | None], Any] = lambda job_id, parent_id: ({}, [])) -> Context:
    """A context with a minute left."""
    return Context(job, time.monotonic() + 60.0, ask)


def run(
    handler: Callable[[Any, Any], Any], job: Claim | None = None, resolve: Callable[[Any], Any] = lambda v: v
) -> Outcome:
    """How an attempt of the handler ends, for a chance of one half."""
    job = job or claim()
    return execute(job, JobType(job.type, handler), a_context(job), resolve, SETTINGS.policy, rand=lambda: 0.5)


def raising(error: BaseException) -> Callable[[Any, Any], Any]:
    """A handler that raises."""

    def handler(payload: Any, context: Any) -> Any:
        raise error

    return handler


class Unspeakable(Exception):
    """An exception that cannot be told."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


# ===== success =====


def test_a_handler_gets_its_payload_and_a_context_that_knows_the_attempt() -> None:
    seen: list[Any] = []
    run(
        lambda payload, context: seen.append(
            (payload, context.job_id, context.type, context.attempt, context.max_attempts)
        )
    )
    assert seen == [({"to": "a@b.c"}, UUID(int=1), "email.send", 1, 3)]


def test_a_handler_that_returns_nothing_has_no_result() -> None:
    assert run(lambda payload, context: None) == Complete(None)


@given(json_values)
def test_what_a_handler_returns_is_kept_as_json(value: Any) -> None:
    outcome = run(lambda payload, context: value)
    assert isinstance(outcome, Complete)
    assert outcome.result is None if value is None else json.loads(outcome.result or "") == value


@pytest.mark.parametrize(("value", "text"), [(False, "false"), (0, "0"), ("", '""'), ([], "[]"), ({}, "{}")])
def test_false_and_empty_results_are_results(value: Any, text: str) -> None:
    assert run(lambda payload, context: value) == Complete(text)


def test_what_an_async_handler_returns_is_awaited() -> None:
    async def handler(payload: Any, context: Any) -> Any:
        await asyncio.sleep(0)
        return payload

    assert run(handler, resolve=asyncio.run) == Complete('{"to":"a@b.c"}')


# ===== results that cannot be kept =====


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (float("nan"), "is not JSON"),
        ("\0", "holds the character NUL"),
        ("\ud800", "half a surrogate pair"),
        ({1, 2}, "is not JSON"),
        (object(), "is not JSON"),
        ({"at": NOW}, "is not JSON"),
        ("x" * RESULT_BYTES_MAX, f"is {RESULT_BYTES_MAX + 2} bytes of JSON; at most {RESULT_BYTES_MAX} are stored"),
    ],
)
def test_a_result_that_cannot_be_stored_is_a_failure_that_says_so(result: Any, why: str) -> None:
    outcome = run(lambda payload, context: result)
    assert isinstance(outcome, RetryLater)
    assert outcome.reason is Reason.RESULT
    assert outcome.message.startswith("the handler's result ")
    assert why in outcome.message


def test_a_result_of_just_the_size_is_kept() -> None:
    result = "x" * (RESULT_BYTES_MAX - 2)
    assert run(lambda payload, context: result) == Complete(f'"{result}"')


# ===== failure =====


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("bad address"), "ValueError: bad address"),
        (KeyError("to"), "KeyError: 'to'"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt: "),
        (ExceptionGroup("both", [ValueError(), TypeError()]), "ExceptionGroup: both (2 sub-exceptions)"),
        (Unspeakable(), "Unspeakable: (its text could not be made)"),
    ],
)
def test_whatever_a_handler_raises_fails_its_attempt_and_nothing_else(error: BaseException, message: str) -> None:
    assert run(raising(error)) == RetryLater(Reason.ERROR, message, 7.5)


def test_the_last_attempt_that_fails_is_buried_with_its_message() -> None:
    assert run(raising(ValueError("boom")), claim(attempt=3)) == Bury(Reason.ERROR, "ValueError: boom")


def test_a_failure_is_logged_with_its_stack_and_the_jobs_id(caplog: pytest.LogCaptureFixture) -> None:
    run(raising(ValueError("boom")))
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[1] is not None
    assert str(record.exc_info[1]) == "boom"
    assert vars(record)["job_id"] == str(UUID(int=1))


def test_a_message_without_end_is_cut() -> None:
    outcome = run(raising(ValueError("x" * 10**6)))
    assert isinstance(outcome, RetryLater)
    assert len(outcome.message) == MESSAGE_CHARACTERS_MAX


# ===== what a handler can say =====


def test_retry_is_a_failure_with_the_time_that_the_handler_named() -> None:
    assert run(raising(Retry("later", after=60))) == RetryLater(Reason.RETRY, "later", 60)


def test_retry_without_a_time_takes_the_backoff() -> None:
    assert run(raising(Retry("later"))) == RetryLater(Reason.RETRY, "later", 7.5)


def test_retry_on_the_last_attempt_is_the_end() -> None:
    assert run(raising(Retry("later", after=1)), claim(attempt=3)) == Bury(Reason.RETRY, "later")


@pytest.mark.case("H6")
@pytest.mark.parametrize(
    ("asked", "retried", "snoozed"),
    [
        (0, 0, 1),
        (1e-9, 1e-9, 1),
        (0.5, 0.5, 1),
        (True + 1, 2, 2),
        ("60", 60, 60),
        (10**12, SNOOZE_SECONDS_MAX, SNOOZE_SECONDS_MAX),
        (float("inf"), SNOOZE_SECONDS_MAX, SNOOZE_SECONDS_MAX),
    ],
)
def test_a_time_that_a_handler_names_is_a_year_at_most_and_a_second_at_least_where_it_costs_no_attempt(
    asked: Any, retried: float, snoozed: float
) -> None:
    assert run(raising(Retry("later", after=asked))) == RetryLater(Reason.RETRY, "later", retried)
    assert run(raising(Snooze(asked))) == Return(snoozed)


NO_SECONDS = [
    -5,
    -1e-9,
    float("nan"),
    float("-inf"),
    "nan",
    "soon",
    True,
    timedelta(minutes=1),
    10**400,
    None,
    [60],
    "x" * 10**6,
]


@pytest.mark.case("H6")
@pytest.mark.parametrize("asked", NO_SECONDS, ids=lambda asked: repr(asked)[:20])
def test_what_is_no_number_of_seconds_fails_the_attempt_with_words_that_say_so(asked: Any) -> None:
    def snooze(payload: Any, context: Any) -> Any:
        raise Snooze(asked)

    def retry(payload: Any, context: Any) -> Any:
        raise Retry(after=asked)

    for handler, name in ((snooze, "Snooze"), (retry, "Retry")):
        outcome = run(handler)
        if handler is retry and asked is None:
            continue  # that is no time named
        assert isinstance(outcome, RetryLater)
        assert outcome.reason is Reason.ERROR
        assert re.match(rf"(Type|Value)Error: {name} takes (the|its) seconds", outcome.message), outcome.message
        assert len(outcome.message) < 300
        assert outcome.delay_seconds == 7.5


@pytest.mark.case("H6")
@pytest.mark.parametrize("asked", [-5, float("nan"), "soon", timedelta(minutes=1)], ids=repr)
def test_a_signals_time_that_was_set_past_its_init_is_looked_at_too(asked: Any) -> None:
    snooze, retry = Snooze(60), Retry(after=60)
    snooze.seconds = retry.after_seconds = asked
    for signal, name in ((snooze, "Snooze"), (retry, "Retry")):
        outcome = run(raising(signal))
        assert isinstance(outcome, RetryLater)
        assert outcome.reason is Reason.ERROR
        assert f"{name} takes" in outcome.message


def test_snooze_costs_no_attempt_even_on_the_last_one() -> None:
    assert run(raising(Snooze(60)), claim(attempt=3)) == Return(60, unknown=False)


def test_fail_buries_at_once_with_attempts_left() -> None:
    assert run(raising(Fail("no such customer"))) == Bury(Reason.FAIL, "no such customer")


def refuse() -> None:
    """Fails as a library does."""
    raise ConnectionError("refused")


@pytest.mark.case("H9")
@pytest.mark.parametrize(
    ("signal", "reason", "words"),
    [
        (partial(Retry, after=2), Reason.RETRY, "the handler asked for a retry"),
        (partial(Retry, "later"), Reason.RETRY, "later"),
        (partial(Fail, "no use"), Reason.FAIL, "no use"),
        (Fail, Reason.FAIL, "the handler gave up"),
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_the_cause_of_a_signal_stands_in_the_error_and_its_traceback_in_the_log(
    signal: Callable[[], Retry | Fail], reason: Reason, words: str, named: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def handler(payload: Any, context: Any) -> Any:
        try:
            refuse()
        except ConnectionError as error:
            if named:
                raise signal() from error
            raise signal()  # noqa: B904

    outcome = run(handler)
    assert isinstance(outcome, RetryLater | Bury)
    assert (outcome.reason, outcome.message) == (reason, f"{words} (caused by ConnectionError: refused)")
    (record,) = caplog.records
    assert "ConnectionError: refused" in logging.Formatter().format(record)


@pytest.mark.case("H9")
def test_the_cause_of_a_snooze_stands_in_the_log_since_no_error_is_stored(caplog: pytest.LogCaptureFixture) -> None:
    def handler(payload: Any, context: Any) -> Any:
        raise Snooze(60) from ConnectionError("refused")

    caplog.set_level(logging.INFO)
    assert run(handler) == Return(60)
    (record,) = caplog.records
    assert "ConnectionError: refused" in logging.Formatter().format(record)


@pytest.mark.case("H9")
def test_a_signal_from_none_tells_no_cause(caplog: pytest.LogCaptureFixture) -> None:
    def handler(payload: Any, context: Any) -> Any:
        try:
            refuse()
        except ConnectionError:
            raise Fail("no use") from None

    assert run(handler) == Bury(Reason.FAIL, "no use")
    assert not caplog.records


@pytest.mark.case("H9")
def test_a_cause_that_cannot_be_told_or_is_its_own_cause_ends_the_attempt_all_the_same() -> None:
    def handler(payload: Any, context: Any) -> Any:
        raise Retry("later", after=2) from Unspeakable()

    assert run(handler) == RetryLater(Reason.RETRY, "later (caused by Unspeakable: (its text could not be made))", 2)
    own = Retry("later", after=2)
    own.__cause__ = own
    outcome = run(raising(own))
    assert isinstance(outcome, RetryLater)
    assert outcome.message == "later (caused by Retry: later)"


@pytest.mark.case("H9")
def test_a_cause_without_end_leaves_room_for_the_signals_own_words() -> None:
    def handler(payload: Any, context: Any) -> Any:
        raise Fail("no use") from ValueError("x" * 10**6)

    outcome = run(handler)
    assert isinstance(outcome, Bury)
    assert outcome.message.startswith("no use (caused by ValueError: xxx")
    assert len(outcome.message) == MESSAGE_CHARACTERS_MAX


def test_words_that_cannot_be_told_do_not_take_the_runner_with_them() -> None:
    outcome = run(raising(Fail(Unspeakable())))  # type: ignore[arg-type]
    assert outcome == Bury(Reason.FAIL, "(its text could not be made)")


def test_a_retry_whose_time_stands_in_the_place_of_its_message_is_an_error_that_says_so() -> None:
    def handler(payload: Any, context: Any) -> Any:
        raise Retry(60)  # type: ignore[arg-type]

    outcome = run(handler)
    assert isinstance(outcome, RetryLater)
    assert (outcome.reason, outcome.message) == (
        Reason.ERROR,
        "TypeError: Retry takes a message; the time is Retry(after=60)",
    )


class RateLimited(Retry):
    """Keeps its own number, and forgets its parent's."""

    def __init__(self, limit: int) -> None:
        self.limit = limit


class Crowded(Snooze):
    """Likewise."""

    def __init__(self, limit: int) -> None:
        self.limit = limit


def test_a_retry_that_never_said_its_time_takes_the_backoff() -> None:
    assert run(raising(RateLimited(3))) == RetryLater(Reason.RETRY, "3", 7.5)


def test_a_snooze_that_never_said_its_time_is_an_error_that_says_so() -> None:
    assert run(raising(Crowded(3))) == RetryLater(
        Reason.ERROR, "Crowded: it has no seconds; its __init__ must call super().__init__(seconds)", 7.5
    )


@pytest.mark.parametrize(
    ("word", "outcome"),
    [
        (Snooze(60), Return(60)),
        (Retry("later", after=60), RetryLater(Reason.RETRY, "later", 60)),
        (Fail("no such customer"), Bury(Reason.FAIL, "no such customer")),
    ],
)
def test_the_only_word_out_of_a_task_group_is_heard(word: Exception, outcome: Outcome) -> None:
    async def handler(payload: Any, context: Any) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(within())

    async def within() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(say())
            group.create_task(asyncio.sleep(60))

    async def say() -> None:
        raise word

    assert run(handler, resolve=asyncio.run) == outcome


@pytest.mark.parametrize(
    "errors",
    [[Snooze(60), ValueError()], [Snooze(60), Snooze(60)], [ValueError()], [Fail(), ExceptionGroup("", [Fail()])]],
)
def test_a_group_that_says_more_than_one_thing_is_an_error(errors: list[Exception]) -> None:
    outcome = run(raising(ExceptionGroup("some", errors)))
    assert isinstance(outcome, RetryLater)
    assert outcome.reason is Reason.ERROR
    assert outcome.message.startswith("ExceptionGroup: some (")


# ===== what a type asks for =====


def test_a_types_own_timeout_and_backoff_beat_the_settings() -> None:
    own = JobType("a", print, timeout_seconds=5, backoff_base_seconds=1, backoff_cap_seconds=2)
    policy = SETTINGS.policy
    assert (policy.timeout(own), policy.backoff(own)) == (5, Backoff(1, 2))
    plain = JobType("a", print)
    assert (policy.timeout(plain), policy.backoff(plain)) == (60, Backoff(10, 3600))


def test_a_failure_waits_for_the_backoff_of_its_type() -> None:
    job = claim()
    hasty = JobType(job.type, raising(ValueError()), backoff_base_seconds=1)
    outcome = execute(job, hasty, a_context(job), lambda value: value, SETTINGS.policy, rand=lambda: 0.0)
    assert outcome == RetryLater(Reason.ERROR, "ValueError: ", 0.5)


# ===== the context =====


def test_the_deadline_is_in_utc_and_as_far_away_as_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    job_context = Context(claim(), 1060.0, lambda job_id, parent_id: ({}, []))
    before = datetime.now(UTC)
    assert before + timedelta(seconds=60) <= job_context.deadline <= datetime.now(UTC) + timedelta(seconds=60)
    monkeypatch.setattr(time, "monotonic", lambda: 1047.5)
    assert job_context.remaining_seconds() == 12.5
    assert job_context.deadline <= datetime.now(UTC) + timedelta(seconds=60), "it does not move"


def test_the_results_of_dependencies_are_asked_for_once_and_only_if_they_are_wanted() -> None:
    asked: list[UUID] = []

    def ask(job_id: UUID, parent_id: UUID | None) -> Any:
        asked.append(job_id)
        return {PARENT: [1]}, []

    job_context = a_context(claim(), ask)
    assert asked == []
    assert [job_context.dependency_results, job_context.dependency_results] == [{PARENT: [1]}] * 2
    assert asked == [UUID(int=1)]


def test_the_handlers_logger_carries_the_job_beside_what_the_handler_adds(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    a_context(claim(attempt=2)).logger.info("sent to %s", "a@b.c", extra={"provider": "x"})
    (record,) = caplog.records
    assert record.getMessage() == "sent to a@b.c"
    assert {name: vars(record)[name] for name in ("job_id", "job_type", "attempt", "provider")} == {
        "job_id": str(UUID(int=1)),
        "job_type": "email.send",
        "attempt": 2,
        "provider": "x",
    }


# ===== types that nobody knows =====


def test_a_job_of_a_type_that_the_worker_does_not_know_is_returned_for_later() -> None:
    assert unknown_type(claim(), SETTINGS, NOW) == Return(30, unknown=True)
    assert unknown_type(claim(unknown_since=NOW - timedelta(seconds=3599)), SETTINGS, NOW) == Return(30, unknown=True)


def test_after_the_grace_a_job_of_an_unknown_type_is_dead_with_attempts_left() -> None:
    outcome = unknown_type(claim(unknown_since=NOW - timedelta(hours=1)), SETTINGS, NOW)
    assert isinstance(outcome, Bury)
    assert outcome.reason is Reason.UNKNOWN_TYPE
    assert "'email.send' since 2030-01-31T08:30:00" in outcome.message
