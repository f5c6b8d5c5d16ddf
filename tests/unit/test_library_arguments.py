"""What the library refuses before it touches the caller's connection."""

from typing import Any
from uuid import UUID

import psycopg
import pytest

from dilamme import settings, submit, submit_many, wake
from dilamme.domain.errors import ConfigurationError, Fault, InvalidInput, TooLarge
from dilamme.wire.requests import BATCH_JOBS_MAX


class Untouchable(psycopg.Connection[Any]):
    """A connection that must not be used."""

    def __init__(self) -> None:
        pass

    def __del__(self, *_: Any) -> None:
        pass

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":
            return Untouchable
        raise AssertionError(f"the connection was touched: {name}")


CONNECTION: Any = Untouchable()


@pytest.mark.parametrize(
    ("arguments", "pointer"),
    [
        ({"priority": 0}, "/priority"),
        ({"payload": float("nan")}, "/payload"),
        ({"scheduled_at": "tomorrow"}, "/scheduled_at"),
        ({"interval_seconds": 0.5}, "/interval_seconds"),
        ({"dependency_ids": ["not an id"]}, "/dependency_ids/0"),
        ({"max_attempts": 26}, "/max_attempts"),
        ({"on_dependency_failure": "explode"}, "/on_dependency_failure"),
    ],
)
def test_a_wrong_argument_is_refused_by_its_name(arguments: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        submit(CONNECTION, "email.send", **arguments)
    assert [fault.pointer for fault in refused.value.faults] == [pointer]


def test_a_wrong_type_is_refused() -> None:
    with pytest.raises(InvalidInput):
        submit(CONNECTION, "Email Send")


def test_a_payload_that_is_too_large_is_refused_as_such() -> None:
    with pytest.raises(TooLarge):
        submit(CONNECTION, "email.send", "x" * 300_000)


def test_a_wrong_job_of_a_batch_is_refused_with_its_place() -> None:
    with pytest.raises(InvalidInput) as refused:
        submit_many(CONNECTION, [{"type": "a"}, {"type": "a", "priority": 9}])
    assert refused.value.faults == (Fault("/jobs/1/priority", "must be less than or equal to 3"),)


def test_jobs_of_a_batch_that_wait_for_each_other_are_refused() -> None:
    batch = [{"type": "a", "ref": "x", "dependency_refs": ["y"]}, {"type": "a", "ref": "y", "dependency_refs": ["x"]}]
    with pytest.raises(InvalidInput, match="these jobs wait for each other"):
        submit_many(CONNECTION, batch)


@pytest.mark.parametrize("count", [0, BATCH_JOBS_MAX + 1])
def test_a_batch_of_none_or_of_too_many_is_refused(count: int) -> None:
    with pytest.raises(InvalidInput, match=f"must hold 1 to 1000 jobs, not {count}"):
        submit_many(CONNECTION, ({"type": "a"} for _ in range(count)))


@pytest.mark.case("W7")
def test_a_batch_with_too_many_dependencies_is_refused_as_the_argument_is_named() -> None:
    jobs = [{"type": "a", "dependency_ids": [UUID(int=1)] * 1000}] * 51
    with pytest.raises(InvalidInput) as refused:
        submit_many(CONNECTION, jobs)
    assert [fault.pointer for fault in refused.value.faults] == ["/jobs/50/dependency_ids"]


@pytest.mark.parametrize("dependencies", [(UUID(int=1),), {UUID(int=1)}, (one for one in [UUID(int=1)]), []])
def test_dependencies_may_be_given_in_any_iterable(dependencies: Any) -> None:
    for call in (
        lambda: submit(CONNECTION, "email.send", dependency_ids=dependencies),
        lambda: submit_many(CONNECTION, [{"type": "email.send", "dependency_ids": dependencies}]),
    ):
        with pytest.raises(AssertionError, match="the connection was touched"):  # so nothing was refused before
            call()


@pytest.mark.parametrize("dependencies", [None, 5, UUID(int=1), str(UUID(int=1))])
def test_one_dependency_that_is_in_no_list_is_refused(dependencies: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        submit(CONNECTION, "email.send", dependency_ids=dependencies)
    assert [fault.pointer for fault in refused.value.faults] == ["/dependency_ids"]


@pytest.mark.parametrize("jobs", [{"type": "a"}, "abc", ["abc"], [None], [("type", "a")]])
def test_what_is_no_mapping_is_refused_with_its_place(jobs: Any) -> None:
    with pytest.raises(InvalidInput, match="/jobs/0: must be a mapping"):
        submit_many(CONNECTION, jobs)


@pytest.mark.parametrize("connection", [None, "postgresql://", object(), psycopg.AsyncConnection])
def test_what_is_no_connection_is_told_what_is(connection: Any) -> None:
    with pytest.raises(TypeError, match="psycopg 3, not async"):
        submit(connection, "email.send")
    with pytest.raises(TypeError, match=r"driver_connection"):
        submit_many(connection, [{"type": "a"}])


@pytest.mark.parametrize("missing", ["WORKER", "SCHEDULER"])
def test_waking_needs_to_know_whom_and_learns_it_later(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    for name in ("WORKER", "SCHEDULER"):
        monkeypatch.setenv(f"DILAMME_{name}_FUNCTION", name.lower())
    monkeypatch.delenv(f"DILAMME_{missing}_FUNCTION")
    settings.load.cache_clear()
    with pytest.raises(ConfigurationError, match=f"DILAMME_{missing}_FUNCTION is not set"):
        wake(CONNECTION)
    monkeypatch.setenv(f"DILAMME_{missing}_FUNCTION", "found")
    with pytest.raises(AssertionError, match="the connection was touched"):
        wake(CONNECTION)
    settings.load.cache_clear()
