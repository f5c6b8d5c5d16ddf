"""Handlers that misbehave (*Handlers that misbehave* in CASES.md): the process is shared, the harm is not.

One slot, so that all jobs meet in one worker; once with handlers in its own thread, once with four threads.
"""

from typing import Any

import pytest

from tests.e2e.conftest import Start
from tests.e2e.system import System, moment
from tests.support.processes import alive
from tests.support.waiting import wait_until

SETTINGS = {
    "worker_slots": 1,
    "worker_timeout_seconds": 40,
    "worker_reserve_seconds": 1,
    "lease_margin_seconds": 1,
    "job_timeout_seconds": 20,
    "backoff_base_seconds": 0.5,
    "ageing_seconds": 0,
}


@pytest.fixture(scope="module", params=[1, 4])
def system_of_module(request: pytest.FixtureRequest, start: Start) -> System:
    """A stack for each concurrency."""
    return start(worker_concurrency=request.param, **SETTINGS)


def submit_among(system: System, culprit: dict[str, Any], *neighbours: dict[str, Any]) -> tuple[str, list[str]]:
    """The ids of a job and of those around it, claimed together by one worker."""
    _, gate = system.submit_gated()
    half = len(neighbours) // 2
    ids = system.submit_all([*neighbours[:half], culprit, *neighbours[half:]])
    system.open(gate)
    return ids.pop(half), ids


def error_of(job: dict[str, Any]) -> tuple[str, str]:
    return job["lastError"]["reason"], job["lastError"]["message"]


# ===== H1: forks =====


@pytest.mark.case("H1")
@pytest.mark.parametrize(
    ("type_", "how"),
    [
        *(("bad.fork", how) for how in ("return", "raise", "exit", "execv", "ask", "log", "fork", "thread", "await")),
        *(("bad.async_fork", how) for how in ("return", "raise", "exit", "execv", "await")),
    ],
)
def test_a_child_ends_where_the_handlers_code_ends_and_no_job_runs_twice(system: System, type_: str, how: str) -> None:
    forking, neighbours = submit_among(system, {"type": type_, "payload": how}, *[{"type": "e2e.note"}] * 300)
    jobs = system.wait_for_all([forking, *neighbours])
    assert [(job["status"], job["attempt"], job["lastError"]) for job in jobs] == [("completed", 1, None)] * 301
    starts = [line["job"] for line in system.journal(*neighbours, forking, step="start")]
    assert sorted(starts) == sorted([forking, *neighbours])
    children = {line["pid"] for line in system.journal(forking, step="child")}
    assert children
    assert {line["pid"] for line in system.journal(*neighbours)}.isdisjoint(children)
    wait_until(lambda: not any(alive(child) for child in children))
    failed = how in ("raise", "execv", "ask")
    result = system.get(f"/jobs/{forking}")["result"]
    assert result == ("1" if failed else "0")


@pytest.mark.case("H1")
def test_processes_that_end_by_themselves_go_on_working(system: System) -> None:
    job = system.wait_for(system.submit("good.processes"))
    assert job["result"] == [[0, 1, 4, 9], [0, 1, 4, 9], 3]


# ===== H3: event loops =====


@pytest.mark.case("H3")
@pytest.mark.parametrize(
    ("type_", "how"),
    [
        *(("bad.loop", how) for how in ("close", "run", "other")),
        *(
            ("bad.async_loop", how)
            for how in (*("executor", "other executor", "factory", "stop", "close later", "instance", "policy"),)
        ),
    ],
)
def test_only_the_attempt_of_who_spoils_an_event_loop_can_fail(system: System, type_: str, how: str) -> None:
    culprit, neighbours = submit_among(
        system,
        {"type": type_, "payload": how, "maxAttempts": 1},
        *[{"type": "good.async"}, {"type": "good.gathered"}] * 12,
    )
    jobs = system.wait_for_all([culprit, *neighbours])
    assert [(job["status"], job["attempt"], job["lastError"]) for job in jobs[1:]] == [("completed", 1, None)] * 24


# ===== H2: what a process lacks =====


@pytest.mark.case("H2")
@pytest.mark.parametrize("type_", ["bad.descriptors", "bad.threads", "bad.policy"])
def test_a_process_that_lacks_what_it_needs_is_replaced_and_no_job_hangs(system: System, type_: str) -> None:
    """Within their timeout of 20 s, and long before the worker's time is up."""
    culprit, neighbours = submit_among(system, {"type": type_}, *[{"type": "good.async"}, {"type": "e2e.note"}] * 12)
    jobs = system.wait_for_all([culprit, *neighbours], seconds=15)
    assert [job["status"] for job in jobs[1:]] == ["completed"] * 24
    more = system.submit_all([{"type": "good.async"}] * 8)
    jobs += system.wait_for_all(more, seconds=15)
    for job in jobs:
        errors = [error["reason"] for error in system.job(job["id"])["errors"]]
        assert "worker_lost" not in errors
        assert len(errors) <= 1
    assert jobs[0]["status"] in ("completed", "dead")


# ===== what else belongs to the whole process =====

HARMLESS = (
    *(
        "folder",
        "path",
        "variables",
        "socket timeout",
        "collector",
        "locale",
        "warnings",
        "decimal",
        "seed",
        "umask",
        "trace",
    ),
    *("atexit", "switch interval", "standard input", "hooks", "integers"),
)


def test_what_handlers_change_for_the_whole_process_does_not_reach_the_worker(system: System) -> None:
    """It goes on, connects anew, and wakes a scheduler for the job that snoozes, all in the same process."""
    system.spare_worker()
    culprits = [{"type": "bad.state", "payload": what} for what in HARMLESS]
    last, first = submit_among(
        system, {"type": "e2e.snooze", "payload": {"seconds": 1}}, *culprits, *[{"type": "good.async"}] * 20
    )
    system.wait_for_all([*first, last])
    system.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'dilamme_worker'")
    more = system.submit_all([{"type": "e2e.note"}] * 8)
    jobs = system.wait_for_all([*first, last, *more])
    assert [(job["status"], job["attempt"], job["lastError"]) for job in jobs] == [("completed", 1, None)] * len(jobs)
    assert len({line["pid"] for line in system.journal(*first, last, *more)}) == 1


@pytest.mark.parametrize("what", ["recursion", "interrupt", "signal", "all descriptors"])
def test_what_ends_the_process_costs_its_neighbours_an_attempt_and_no_time(system: System, what: str) -> None:
    culprit, neighbours = submit_among(
        system, {"type": "bad.state", "payload": what}, *[{"type": "good.async"}, {"type": "e2e.note"}] * 6
    )
    jobs = system.wait_for_all([culprit, *neighbours], seconds=15)
    assert [job["status"] for job in jobs[1:]] == ["completed"] * 12
    assert all(job["attempt"] <= 2 for job in jobs)


# ===== H8: the interpreter =====


@pytest.mark.case("H8")
def test_a_handler_that_never_lets_the_interpreter_go_ends_its_process_soon_after_its_timeout(system: System) -> None:
    """Its timeout is 3 s. On its first attempt there are neighbours, on its last one it runs alone."""
    culprit, neighbours = submit_among(
        system, {"type": "bad.backtrack"}, *[{"type": "e2e.sleep", "payload": {"seconds": 0.5}}] * 3
    )
    job = system.wait_for(culprit, "dead", seconds=30)
    assert [error["reason"] for error in job["errors"]] == ["timeout", "timeout"]
    first, last = system.starts(culprit)
    assert 3 <= moment(job["errors"][0]["at"]).timestamp() - first["at"] <= 3 + 3
    assert 3 <= moment(job["errors"][1]["at"]).timestamp() - last["at"] <= 3 + 3
    held_at = system.journal(culprit, step="hold")[0]["at"]
    for neighbour in system.wait_for_all(neighbours):
        assert neighbour["status"] == "completed"
        assert [error["reason"] for error in system.job(neighbour["id"])["errors"]] in ([], ["worker_lost"])
        ends = [line["at"] for line in system.journal(neighbour["id"], step="end")]
        assert len(ends) == 1
        assert ends[0] - held_at < 3 + 6
    wait_until(lambda: not alive(last["pid"]))
    log = (system.folder / "logs" / "worker.log").read_text()
    assert "Timeout (0:00:0" in log
    assert "in backtrack" in log


@pytest.mark.case("H8")
def test_a_handler_that_holds_the_interpreter_within_its_time_is_left_alone(system: System) -> None:
    """For longer than the watchdog waits between two beats, and its grace."""
    culprit, neighbours = submit_among(
        system, {"type": "good.hold", "payload": 4 * 10**8}, *[{"type": "e2e.sleep", "payload": {"seconds": 0.1}}] * 8
    )
    jobs = system.wait_for_all([culprit, *neighbours])
    assert [(job["status"], job["attempt"]) for job in jobs] == [("completed", 1)] * 9
    (start,) = system.starts(culprit)
    held_seconds = moment(system.job(culprit)["finishedAt"]).timestamp() - start["at"]
    assert 3.5 < held_seconds < 19
