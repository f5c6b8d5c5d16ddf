"""A job's way through the whole: dependencies, time, retries, dead letters, replay, recurrence."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.e2e.system import LIVE, System, moment, seconds_between
from tests.support.waiting import wait_until

SETTINGS = {"backoff_base_seconds": 0.5}

# A bound in time is held on a machine that does other things too: one calm round of three will do.
ROUNDS_MAX = 3


def test_a_diamond_runs_in_order_and_hands_results_down(system: System) -> None:
    ids = system.submit_all(
        [
            {"type": "e2e.sum", "payload": 1, "ref": "top"},
            {"type": "e2e.sum", "payload": 10, "ref": "left", "dependencyRefs": ["top"]},
            {"type": "e2e.sum", "payload": 100, "ref": "right", "dependencyRefs": ["top"]},
            {"type": "e2e.sum", "payload": 1000, "dependencyRefs": ["left", "right"]},
        ]
    )
    system.wait_for(ids[3])
    top, left, right, bottom = (system.job(job_id) for job_id in ids)
    assert [job["result"] for job in (top, left, right, bottom)] == [1, 11, 101, 1112]
    assert moment(top["finishedAt"]) <= min(moment(left["startedAt"]), moment(right["startedAt"]))
    assert max(moment(left["finishedAt"]), moment(right["finishedAt"])) <= moment(bottom["startedAt"])


def test_a_child_waits_for_a_parent_that_runs(system: System) -> None:
    parent, gate = system.submit_gated()
    child = system.submit("e2e.note", dependencyIds=[parent])
    bystander = system.submit("e2e.note")
    system.wait_for(bystander)
    assert system.starts(child) == []
    assert system.get(f"/jobs/{child}/why")["waitsOn"] == [{"id": parent, "status": "running"}]
    system.open(gate)
    system.wait_for(child)
    assert system.journal(parent, step="end")[0]["at"] <= system.starts(child)[0]["at"]


def test_jobs_for_later_start_within_a_tenth_of_a_second_of_their_time(
    system: System, record_testsuite_property: Callable[[str, object], None]
) -> None:
    # One goes before, so that every process on the way is past its cold start: a worker is there, and free, and no
    # scheduler is still coming that would take the lead.
    system.wait_for(system.submit("demo.echo", scheduledAt=system.soon(1)))
    wait_until(lambda: _all_have_come(system))
    rounds: list[list[float]] = []
    while len(rounds) < ROUNDS_MAX and not (rounds and max(rounds[-1]) <= 0.1):
        rounds.append(_seconds_late(system))
    record_testsuite_property("seconds late", rounds)
    assert min(map(min, rounds)) >= 0
    assert max(rounds[-1]) <= 0.1, rounds


def _all_have_come(system: System) -> bool:
    counts = system.stack.dispatcher.counts()["scheduler"]
    return counts["accepted"] == counts["started"]


def _seconds_late(system: System) -> list[float]:
    times = [system.soon(2.3 + 0.37 * place) for place in range(10)]
    ids = system.submit_all([{"type": "demo.echo", "scheduledAt": time} for time in times])
    return [seconds_between(job["scheduledAt"], job["startedAt"]) for job in system.wait_for_all(ids)]


def test_a_job_that_fails_twice_completes_on_the_third_attempt(system: System) -> None:
    job = system.wait_for(system.submit("demo.fail", {"times": 2}))
    assert job["attempt"] == 3
    assert job["result"] == {"attempts": 3}
    assert [(error["reason"], error["attempt"]) for error in job["errors"]] == [("error", 1), ("error", 2)]
    # Half of the backoff is fixed, half random; it doubles.
    first, second = (moment(error["at"]) for error in job["errors"])
    assert second - first >= timedelta(seconds=0.25)
    assert moment(job["startedAt"]) - second >= timedelta(seconds=0.5)


def test_three_failures_end_in_dead_and_on_the_queue_and_a_replay_brings_the_job_back(system: System) -> None:
    job_id = system.submit("demo.fail", {"times": 5})
    dead = system.wait_for(job_id, "dead")
    assert dead["attempt"] == 3
    assert [error["attempt"] for error in dead["errors"]] == [1, 2, 3]
    (letter,) = wait_until(lambda: system.letters(job_id))
    assert letter["type"] == letter["attributes"]["type"]["StringValue"] == "demo.fail"
    assert letter["attempts"] == 3
    assert letter["error"] == {"reason": "error", "message": "RuntimeError: failure 3 of 5, as asked for"}

    replay = system.post(f"/jobs/{job_id}/replay")
    assert replay.json["replayed"]
    # Its attempts count from the replay on, so it fails three times again; the old errors are kept.
    wait_until(lambda: len(system.letters(job_id)) == 2)
    again = system.job(job_id)
    assert (again["status"], again["attempt"]) == ("dead", 3)
    assert [error["attempt"] for error in again["errors"]] == [1, 2, 3] * 2


def test_a_replayed_job_completes_once_its_cause_is_gone(system: System) -> None:
    parent = system.submit("demo.fail", {"times": 1}, maxAttempts=1)
    child = system.submit("e2e.note", dependencyIds=[parent])
    system.wait_for(parent, "dead")
    system.query("UPDATE dilamme.jobs SET payload = '{\"times\": 0}' WHERE id = %s RETURNING id", parent)
    assert system.job(child)["status"] == "pending"
    assert system.post(f"/jobs/{parent}/replay").json["replayed"]
    assert system.wait_for(parent)["attempt"] == 1
    system.wait_for(child)
    second = system.post(f"/jobs/{parent}/replay")
    assert (second.status, second.json["replayed"]) == (200, False)


@pytest.mark.case("R7")
def test_a_recurring_job_keeps_its_grid_one_at_a_time_until_its_series_is_cancelled(system: System) -> None:
    first = system.job(system.submit("e2e.note", intervalSeconds=1))
    series = first["seriesId"]
    runs = wait_until(lambda: _occurrences(system, series, 5))
    slots = [moment(run["scheduledAt"]) for run in runs]
    assert slots[0] == moment(first["scheduledAt"])
    steps = {(slot - slots[0]) % timedelta(seconds=1) for slot in slots}
    assert steps == {timedelta(0)}
    assert len(set(slots)) == len(slots)
    assert all(len(system.starts(run["id"])) == 1 for run in runs)
    ends_and_starts = [moment(run[time]) for run in runs for time in ("startedAt", "finishedAt")]
    assert ends_and_starts == sorted(ends_and_starts)

    assert system.post(f"/series/{series}/cancel").json["cancelled"]
    known = {job["id"] for job in system.jobs(seriesId=series)}
    # Two intervals later, by a job that says when they are over:
    system.wait_for(system.submit("e2e.note", scheduledAt=system.soon(2)))
    jobs = system.jobs(seriesId=series)
    assert {job["id"] for job in jobs} <= known
    assert not [job for job in jobs if job["status"] in LIVE]


def _occurrences(system: System, series: str, number: int) -> list[dict[str, Any]]:
    """The finished occurrences, oldest first, once there are so many; never is more than one alive."""
    jobs = system.jobs(seriesId=series)
    assert sum(job["status"] in LIVE for job in jobs) <= 1
    done = [job for job in reversed(jobs) if job["status"] == "completed"]
    return done if len(done) >= number else []
