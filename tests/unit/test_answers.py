"""What the API answers: times in UTC, names in camelCase, and an effective priority only for who is in line."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dilamme.domain.job import Status
from dilamme.domain.priority import effective_priority
from dilamme.wire.answers import JobSummary, JobView, effective_priority_of, is_ready, rfc_3339
from tests.unit.strategies import NOW

ID = UUID("01890a5d-ac96-774b-bcce-b302099a8057")


def row(**fields: Any) -> dict[str, Any]:
    """A row of a job that has waited for a minute and a half, as the store reads it."""
    return {
        "id": ID,
        "type": "email.send",
        "priority": 3,
        "status": "pending",
        "scheduled_at": NOW - timedelta(seconds=90),
        "ready_at": NOW - timedelta(seconds=90),
        "created_at": NOW - timedelta(seconds=90),
        "started_at": None,
        "finished_at": None,
        "attempt": 0,
        "max_attempts": 3,
        "interval_seconds": None,
        "series_id": None,
        "on_dependency_failure": "wait",
        "unmet_dependencies": 0,
        "last_error": None,
        "now": NOW,
        **fields,
    }


def test_a_job_that_waits_for_a_worker_has_an_effective_priority() -> None:
    assert JobSummary.of(row(), ageing_seconds=30).effective_priority == 1
    assert JobSummary.of(row(), ageing_seconds=0).effective_priority == 3
    assert JobSummary.of(row(ready_at=NOW), ageing_seconds=30).effective_priority == 3


@pytest.mark.parametrize(
    "fields",
    [
        {"unmet_dependencies": 1},
        {"ready_at": NOW + timedelta(microseconds=1)},
        *({"status": status} for status in Status if status is not Status.PENDING),
    ],
)
def test_a_job_that_is_not_in_line_has_none(fields: dict[str, Any]) -> None:
    assert not is_ready(row(**fields))
    assert JobSummary.of(row(**fields), ageing_seconds=30).effective_priority is None


@given(st.integers(1, 3), st.integers(0, 10**9), st.sampled_from([0, 0.5, 30]))
def test_the_effective_priority_shown_is_the_comparators(priority: int, waited: int, ageing: float) -> None:
    ready_at = NOW - timedelta(microseconds=waited)
    shown = effective_priority_of(row(priority=priority, ready_at=ready_at), ageing)
    assert shown == effective_priority(priority, ready_at, NOW, ageing)


def test_a_job_is_written_in_camel_case_with_its_times_in_utc() -> None:
    error = {"reason": "error", "message": "boom", "attempt": 1, "at": "2030-01-31T09:29:00+00:00"}
    written = JobSummary.of(row(last_error=error), ageing_seconds=30).model_dump(mode="json", by_alias=True)
    assert written == {
        "id": str(ID),
        "type": "email.send",
        "priority": 3,
        "effectivePriority": 1,
        "status": "pending",
        "scheduledAt": "2030-01-31T09:28:30Z",
        "readyAt": "2030-01-31T09:28:30Z",
        "createdAt": "2030-01-31T09:28:30Z",
        "startedAt": None,
        "finishedAt": None,
        "attempt": 0,
        "maxAttempts": 3,
        "intervalSeconds": None,
        "seriesId": None,
        "onDependencyFailure": "wait",
        "unmetDependencies": 0,
        "lastError": {"reason": "error", "message": "boom", "attempt": 1, "at": "2030-01-31T09:29:00Z"},
    }


def full(**fields: Any) -> dict[str, Any]:
    """A job in full, written."""
    kept = {"payload": "{}", "payload_version": None, "result": None, "dependency_ids": [], "errors": [], **fields}
    return JobView.of(row(**kept), ageing_seconds=30).model_dump(mode="json", by_alias=True)


def test_a_job_in_full_has_what_a_summary_leaves_out() -> None:
    written = full(payload='{"to": "a@b.c"}', payload_version=2, result="[1]", dependency_ids=[ID])
    assert written["payloadVersion"] == 2
    assert (written["payload"], written["result"]) == ({"to": "a@b.c"}, [1])
    assert (written["dependencyIds"], written["errors"]) == ([str(ID)], [])
    assert written["effectivePriority"] == 1


@pytest.mark.parametrize("text", ["null", "false", "0", '""', "[]"])
def test_an_empty_payload_or_result_is_shown_as_it_is(text: str) -> None:
    written = full(payload=text, result=text)
    assert json.dumps([written["payload"], written["result"]]) == f"[{text}, {text}]"


def test_an_error_of_a_reason_that_a_newer_worker_gave_is_shown() -> None:
    error = {"reason": "of tomorrow", "message": "", "attempt": 1, "at": NOW}
    shown = JobSummary.of(row(last_error=error), ageing_seconds=30).last_error
    assert shown is not None
    assert shown.reason == "of tomorrow"


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2030, 1, 31, 9, 30, tzinfo=UTC), "2030-01-31T09:30:00Z"),
        (datetime(2030, 1, 31, 9, 30, 0, 5, tzinfo=UTC), "2030-01-31T09:30:00.000005Z"),
        (datetime(2030, 1, 31, 9, 30, tzinfo=timezone(timedelta(hours=-3))), "2030-01-31T12:30:00Z"),
    ],
)
def test_a_time_is_written_in_utc_with_a_z(moment: datetime, text: str) -> None:
    assert rfc_3339(moment) == text


@given(st.datetimes(datetime(1970, 1, 2), timezones=st.just(timezone(timedelta(hours=5)))))  # noqa: DTZ001
def test_no_time_loses_anything_by_being_written(moment: datetime) -> None:
    assert datetime.fromisoformat(rfc_3339(moment)) == moment
