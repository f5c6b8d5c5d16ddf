"""Why a job is not running, in sentences and in fields."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dilamme.domain.job import Status
from dilamme.domain.why import RANK_MAX, Cause, Facts, Why, explain, ordinal, span
from tests.unit.strategies import NOW

ID, PARENT, OTHER = UUID(int=1), UUID(int=2), UUID(int=3)


def why(
    waits_on: list[dict[str, Any]] | None = None, ahead: int = 0, free: int = 1, ageing_seconds: float = 30, **job: Any
) -> Why:
    """The answer for a job that became ready just now, with these differences."""
    row = {
        "id": ID,
        "type": "email.send",
        "status": "pending",
        "priority": 3,
        "attempt": 0,
        "max_attempts": 3,
        "unmet_dependencies": 0,
        "ready_at": NOW,
        "started_at": None,
        "finished_at": None,
        "unknown_since": None,
        "last_error": None,
        "worker": None,
        "slot": None,
        "lease_expires_at": None,
        "type_is_known": True,
        "scheduler_alive": True,
        "last_tick_at": NOW,
        "now": NOW,
        **job,
    }
    return explain(Facts(row, waits_on or [], ahead, free, 4, ageing_seconds))


def causes(answer: Why) -> list[Cause]:
    """The reasons' names, the weightiest first."""
    return [reason.cause for reason in answer.reasons]


def test_a_job_in_line_is_told_its_place_and_its_priority() -> None:
    answer = why(ahead=340, ready_at=NOW - timedelta(seconds=10))
    assert causes(answer) == [Cause.IN_LINE]
    assert answer.detail == "It is 341st in line, priority 3, and has waited 10 s."
    assert (answer.rank, answer.rank_capped, answer.effective_priority, answer.waited_seconds) == (341, False, 3, 10)


def test_a_job_that_has_aged_is_told_what_it_was() -> None:
    answer = why(ready_at=NOW - timedelta(seconds=74))
    assert answer.detail == "It is 1st in line, effective priority 1 (was 3, waited 74 s)."
    assert answer.effective_priority == 1


@pytest.mark.parametrize(("ahead", "rank", "capped"), [(RANK_MAX - 1, RANK_MAX, False), (RANK_MAX, RANK_MAX, True)])
def test_a_place_far_behind_is_capped_and_says_so(ahead: int, rank: int, capped: bool) -> None:
    answer = why(ahead=ahead)
    assert (answer.rank, answer.rank_capped) == (rank, capped)
    assert ("behind at least 10,000 others" in answer.detail) == capped


def test_a_job_for_later_is_told_when_it_is_due_and_has_no_place() -> None:
    answer = why(ready_at=NOW + timedelta(seconds=12))
    assert causes(answer) == [Cause.NOT_DUE]
    assert answer.detail == "It is due in 12 s."
    assert (answer.due_in_seconds, answer.rank, answer.effective_priority) == (12, None, None)


def test_a_job_that_is_to_be_retried_is_told_for_which_attempt() -> None:
    answer = why(ready_at=NOW + timedelta(seconds=12), attempt=1)
    assert answer.detail == "It is due in 12 s, for attempt 2 of 3."


def test_a_job_of_a_type_that_no_worker_knew_is_told_that_it_is_tried_again() -> None:
    answer = why(ready_at=NOW + timedelta(seconds=12), unknown_since=NOW)
    assert "does not know the type email.send" in answer.detail


def test_a_blocked_job_is_told_whom_it_waits_for() -> None:
    parents = [{"id": PARENT, "status": "running"}, {"id": OTHER, "status": "pending"}]
    answer = why(waits_on=parents, unmet_dependencies=5)
    assert causes(answer) == [Cause.DEPENDENCIES]
    assert answer.detail == f"It waits on {PARENT} (running), {OTHER} (pending) and 3 more."
    assert answer.waits_on is not None
    assert [parent.id for parent in answer.waits_on] == [PARENT, OTHER]
    assert (answer.waits_on_count, answer.rank) == (5, None)


@pytest.mark.parametrize("status", ["dead", "cancelled"])
def test_a_job_on_one_that_has_failed_is_told_what_would_help(status: str) -> None:
    assert "A dead one has to be replayed first" in why([{"id": PARENT, "status": status}], unmet_dependencies=1).detail


def test_a_job_that_is_blocked_and_for_later_is_told_both() -> None:
    answer = why([{"id": PARENT, "status": "running"}], unmet_dependencies=1, ready_at=NOW + timedelta(hours=3))
    assert causes(answer) == [Cause.DEPENDENCIES, Cause.NOT_DUE]
    assert answer.detail == " ".join(reason.detail for reason in answer.reasons)


@pytest.mark.parametrize(
    ("fields", "cause", "sentence"),
    [
        ({"free": 0}, Cause.WORKERS_BUSY, "All workers (4) are busy."),
        ({"type_is_known": False}, Cause.UNKNOWN_TYPE, "knows the type email.send: deploy a handler for it."),
        (
            {"scheduler_alive": False, "last_tick_at": NOW - timedelta(minutes=5)},
            Cause.NO_SCHEDULER,
            "No scheduler has ticked since 5 min",
        ),
        ({"scheduler_alive": False, "last_tick_at": None}, Cause.NO_SCHEDULER, "No scheduler has ticked yet"),
    ],
)
def test_what_else_keeps_a_job_in_line_is_told_after_its_place(
    fields: dict[str, Any], cause: Cause, sentence: str
) -> None:
    answer = why(**fields)
    assert causes(answer) == [Cause.IN_LINE, cause]
    assert sentence in answer.detail


def test_a_running_job_is_told_where_and_since_when() -> None:
    answer = why(
        status="running",
        attempt=2,
        worker=OTHER,
        slot=7,
        started_at=NOW - timedelta(seconds=5),
        lease_expires_at=NOW + timedelta(seconds=1),
    )
    assert causes(answer) == [Cause.RUNNING]
    assert answer.detail == "It is running since 5 s, attempt 2 of 3, on worker slot 7."
    assert (answer.worker, answer.rank, answer.workers_free) == (OTHER, None, None)


def test_a_running_job_past_its_lease_is_told_that_it_will_be_freed() -> None:
    answer = why(status="running", attempt=1, started_at=NOW, lease_expires_at=NOW)
    assert answer.detail.endswith("on a worker that has let go of its slot. Its lease has run out: the next tick frees it.")


ENDED = {"started_at": NOW - timedelta(seconds=70), "finished_at": NOW - timedelta(seconds=60), "attempt": 3}


def test_a_job_that_has_ended_is_told_how() -> None:
    error = {"reason": "timeout", "message": "too slow"}
    assert why(status="completed", **ENDED).detail == "It completed 60 s ago, in attempt 3 after 10 s."
    assert why(status="dead", last_error=error, **ENDED).detail == (
        "It died 60 s ago, in attempt 3 of 3: timeout, too slow. Replay it to try again."
    )
    assert why(status="cancelled", **ENDED).detail == "It was cancelled 60 s ago."


@pytest.mark.parametrize("status", Status)
def test_every_status_has_an_answer(status: Status) -> None:
    assert why(status=status, lease_expires_at=NOW, **ENDED).reasons


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0 ms"),
        (0, "0 ms"),
        (0.012, "12 ms"),
        (1, "1 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7_199, "120 min"),
        (7_200, "2 h"),
        (172_799, "48 h"),
        (172_800, "2 days"),
        (86_400 * 36_500, "36,500 days"),
    ],
)
def test_a_length_of_time_is_said_in_one_unit(seconds: float, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (13, "13th"), (21, "21st")],
)
def test_a_place_is_said_as_an_ordinal(number: int, text: str) -> None:
    assert ordinal(number) == text


@given(st.integers(0, 10**6), st.integers(1, 9))
def test_ordinals_of_the_teens_are_all_th(hundreds: int, teen: int) -> None:
    assert ordinal(hundreds * 100 + 10 + teen).endswith("th")
