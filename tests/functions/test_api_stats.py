"""The system at a glance."""

from datetime import timedelta
from typing import Any

import pytest

from dilamme.settings import Settings
from dilamme.store.connection import Connection
from dilamme.testing.clock import Clock
from dilamme.usecases import read
from tests.functions import states
from tests.functions.door import get, post, submit

pytestmark = pytest.mark.usefixtures("door")


def counts(tally: dict[str, Any]) -> list[int]:
    return [tally["count"], *(tally["byPriority"][priority]["count"] for priority in "123")]


def test_jobs_are_counted_by_status_and_priority(clock: Clock, connection: Connection) -> None:
    parent = submit(priority=1)
    submit(priority=3, dependencyIds=[parent["id"]])
    submit(priority=2, scheduledAt="2040-01-01T00:00:00Z")
    for status in ("completed", "dead", "cancelled"):
        states.finish(connection, submit(priority=2)["id"], status)
    states.finish(connection, submit(priority=3)["id"], "dead")
    states.start(connection, submit(priority=1)["id"])
    clock.advance(42)
    submit(priority=1)
    stats = get("/stats").json
    assert stats["at"] == "2030-01-01T00:00:42Z"
    assert {kind: counts(tally) for kind, tally in stats["jobs"].items()} == {
        "pending": [4, 2, 1, 1],
        "ready": [2, 2, 0, 0],
        "scheduled": [1, 0, 1, 0],
        "blocked": [1, 0, 0, 1],
        "running": [1, 1, 0, 0],
        "completed": [1, 0, 1, 0],
        "dead": [2, 0, 1, 1],
        "cancelled": [1, 0, 1, 0],
    }
    assert not any(tally["capped"] for tally in stats["jobs"].values())
    assert stats["oldestReadySeconds"] == 42


def test_an_empty_system_has_its_numbers_too(settings: Settings) -> None:
    stats = get("/stats").json
    assert all(counts(tally) == [0, 0, 0, 0] for tally in stats["jobs"].values())
    assert stats["oldestReadySeconds"] is None
    assert stats["workers"] == {
        "slots": settings.worker_slots,
        "active": 0,
        "invited": 0,
        "free": settings.worker_slots,
    }
    assert stats["scheduler"] == {"alive": False, "lastTickAt": None}


def test_workers_and_the_schedulers_pulse_are_shown(clock: Clock, connection: Connection, settings: Settings) -> None:
    states.occupy(connection, 3)
    submit()  # invites one more
    states.lead(connection, ticked_ago=timedelta(seconds=2))
    stats = get("/stats").json
    assert stats["workers"] == {
        "slots": settings.worker_slots,
        "active": 3,
        "invited": 1,
        "free": settings.worker_slots - 4,
    }
    assert stats["scheduler"] == {"alive": True, "lastTickAt": "2029-12-31T23:59:58Z"}
    clock.advance(10)
    assert get("/stats").json["scheduler"]["alive"] is False


def test_counts_stop_where_they_become_expensive_and_say_so(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "COUNT_MAX", 10)
    monkeypatch.setattr(read, "COUNT_MAX_FOR_THE_REST", 5)
    for priority, number in ((1, 12), (3, 4)):
        post("/jobs/batch", {"jobs": [{"type": "a", "priority": priority}] * number})
        post(
            "/jobs/batch",
            {"jobs": [{"type": "a", "priority": priority, "scheduledAt": "2040-01-01T00:00:00Z"}] * number},
        )
    parent = submit(scheduledAt="2040-01-01T00:00:00Z")
    post("/jobs/batch", {"jobs": [{"type": "a", "priority": 2, "dependencyIds": [parent["id"]]}] * 7})
    jobs = get("/stats").json["jobs"]
    assert counts(jobs["ready"]) == [14, 10, 0, 4]
    assert counts(jobs["scheduled"]) == [10, 5, 1, 4]
    assert counts(jobs["blocked"]) == [5, 0, 5, 0]
    for kind in ("ready", "scheduled", "blocked", "pending"):
        assert jobs[kind]["capped"] is True
    assert [jobs["ready"]["byPriority"][priority]["capped"] for priority in "123"] == [True, False, False]
    # Blocked jobs are counted together, so where the counting stopped no priority's number is the last word.
    assert [jobs["blocked"]["byPriority"][priority]["capped"] for priority in "123"] == [True, True, True]
    assert jobs["completed"]["capped"] is False
