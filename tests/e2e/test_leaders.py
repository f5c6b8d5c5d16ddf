"""Schedulers that come twice, are killed, or cannot reach Lambda (*Crashes and doubles* in CASES.md).

The clock is silent: these tests trigger.
"""

import json
import time
from typing import Any

import pytest

from dilamme_local.dispatcher import Running
from dilamme_local.faults import Kind
from tests.e2e.system import System, kill
from tests.support.waiting import wait_until

SETTINGS = {"clock_seconds": None}


@pytest.mark.case("C5")
def test_doubled_triggers_run_each_job_once_and_double_no_tick(system: System) -> None:
    """C5, scaled to 20 s: two schedulers every five seconds, and a thousand jobs."""
    began = time.monotonic()
    ids: list[str] = []
    for place in range(4):
        system.stack.clock.trigger()
        system.stack.clock.trigger()
        ids += system.submit_all([{"type": "e2e.note"}] * 250)
        # The pace of the triggers; nothing waits for it.
        time.sleep(max(0, began + 5 * (place + 1) - time.monotonic()))
    jobs = system.wait_for_all(ids)
    assert {(job["status"], job["attempt"]) for job in jobs} == {("completed", 1)}
    starts = [line["job"] for line in system.journal(step="start")]
    assert sorted(starts) == sorted(ids)
    wait_until(lambda: _all_have_led(system), seconds=60)
    led = _led(system)
    assert len(led) >= 8
    # A leader ticks when it comes, and once a second from then on; two who both thought they led would tick twice.
    assert sum(one["ticks"] for one in led) <= time.monotonic() - began + len(led)


def _all_have_led(system: System) -> bool:
    """The triggers that met two schedulers already are tried again later, as on AWS."""
    counts = system.stack.dispatcher.counts()["scheduler"]
    return counts["accepted"] == counts["succeeded"]


def _led(system: System) -> list[dict[str, Any]]:
    lines = (system.folder / "logs" / "scheduler.log").read_text().splitlines()
    return [json.loads(line) for line in lines if '"message":"led"' in line]


def lead(system: System, seconds: float) -> tuple[str, Running]:
    """A leader that has a job to wait for, due in so many seconds: the job and the leader."""
    job_id = system.submit("e2e.note", scheduledAt=system.soon(seconds))
    leader = wait_until(system.leader)
    assert leader is not None
    return job_id, leader


@pytest.mark.case("C6")
def test_a_killed_leader_is_replaced_within_five_seconds_of_its_end(system: System) -> None:
    """C6, by the platform's report."""
    _, leader = lead(system, 45)
    killed_at = kill(leader)
    wait_until(lambda: (successor := system.leader()) and successor.pid != leader.pid)
    assert time.time() - killed_at <= 5


@pytest.mark.case("C6")
def test_a_leader_that_is_killed_unreported_is_replaced_by_the_next_trigger(system: System) -> None:
    """C6, without the report: what fell due waits for the trigger, and not longer."""
    job_id, leader = lead(system, 4)
    system.arm("rescue", Kind.LOSE)
    kill(leader)
    due_at = system.job(job_id)["scheduledAt"]
    wait_until(lambda: system.get("/stats")["at"] > due_at)
    assert system.leader() is None
    assert system.job(job_id)["status"] == "pending"
    system.stack.clock.trigger()
    system.wait_for(job_id)


@pytest.mark.case("C7")
def test_a_job_whose_invokes_fail_for_three_ticks_starts_on_the_fourth_at_its_first_attempt(system: System) -> None:
    """C7: 429, 500 and silence; each call is tried twice. The post's own call fails first."""
    system.stack.clock.trigger()
    wait_until(system.leader)
    for kind in (Kind.THROTTLE, Kind.THROTTLE, Kind.FAIL, Kind.HANG):
        system.arm("worker", kind, times=2)
    job_id = system.submit("e2e.note")
    wait_until(lambda: _refused(system, job_id))
    job = system.wait_for(job_id)
    assert (job["attempt"], job["errors"]) == (1, [])
    assert len(system.starts(job_id)) == 1


def _refused(system: System, job_id: str) -> bool:
    """Have all the calls failed? As long as some have still to, the job has not started."""
    job = system.job(job_id)
    still_armed = bool(system.stack.faults.armed())
    assert not still_armed or (job["status"], job["attempt"]) == ("pending", 0)
    return not still_armed


def test_a_worker_whose_invokes_answer_is_lost_keeps_its_slot(system: System) -> None:
    """Freed by the caller who heard nothing, the slot would be given to one worker too many."""
    system.wait_for(system.submit("demo.echo"))
    wait_until(lambda: not system.running("worker"))
    system.arm("worker", Kind.MUTE, times=2)
    _, gate = system.submit_gated()
    assert not system.stack.faults.armed()
    assert system.get("/stats")["workers"]["active"] == len(system.running("worker")) == 1
    system.open(gate)
