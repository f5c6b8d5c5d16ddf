"""Workers that are killed, crash, overrun or are called twice (*Crashes and doubles* in CASES.md).

The function's time is cut from 300 s to 10 s, so that a lease is seconds; the scheduler is triggered every five.
"""

import json
from typing import Any

import boto3
import pytest
from botocore.config import Config

from dilamme_local.faults import Kind
from tests.e2e.system import System, kill, moment
from tests.support.processes import alive
from tests.support.waiting import wait_until

SETTINGS = {
    "worker_timeout_seconds": 10,
    "worker_reserve_seconds": 1,
    "lease_margin_seconds": 1,
    "job_timeout_seconds": 8,
    "backoff_base_seconds": 0.5,
    "trigger_seconds": 5,
    "clock_seconds": 5,
    "idle_exit_seconds": 0.5,
}
TICK_SECONDS = 1
# What a worker's start and this test's own look may add on a busy machine to a time that CASES.md gives in ticks.
SLACK_SECONDS = 1


@pytest.mark.case("C1")
def test_a_killed_workers_jobs_run_again_and_its_neighbours_are_unharmed(system: System) -> None:
    """C1: within two ticks of the platform's report, which comes at once."""
    job_id, gate = system.submit_gated()
    neighbours = system.submit_all([{"type": "e2e.gate", "payload": {"gate": gate}}] * 7)
    wait_until(lambda: all(system.starts(one) for one in neighbours))
    victim = system.worker_of(job_id)
    held = {one for one in (job_id, *neighbours) if system.worker_of(one) == victim}
    system.spare_worker()
    killed_at = kill(victim)
    wait_until(lambda: all(len(system.starts(one)) == 2 for one in held))
    assert max(system.starts(one)[1]["at"] for one in held) - killed_at <= 2 * TICK_SECONDS + SLACK_SECONDS
    system.open(gate)
    for job in system.wait_for_all([job_id, *neighbours]):
        assert job["status"] == "completed"
        assert job["attempt"] == (2 if job["id"] in held else 1)
        assert (job["lastError"] or {}).get("reason") == ("worker_lost" if job["id"] in held else None)


@pytest.mark.case("C2")
def test_a_killed_workers_job_runs_again_after_its_lease_when_the_report_is_lost(system: System) -> None:
    """C2: within the lease and one tick."""
    system.arm("rescue", Kind.LOSE)
    job_id, gate = system.submit_gated()
    ((lease_ends_at,),) = system.query("SELECT lease_expires_at FROM dilamme.jobs WHERE id = %s", job_id)
    kill(system.worker_of(job_id))
    system.open(gate)
    job = system.wait_for(job_id)
    assert job["attempt"] == 2
    assert job["lastError"]["reason"] == "worker_lost"
    late = (moment(job["startedAt"]) - lease_ends_at).total_seconds()
    assert 0 <= late <= TICK_SECONDS + SLACK_SECONDS


@pytest.mark.case("C3")
def test_a_job_that_kills_its_process_starts_three_times_and_is_dead(system: System) -> None:
    job_id = system.submit("e2e.crash", maxAttempts=3)
    job = system.wait_for(job_id, "dead")
    assert [error["reason"] for error in job["errors"]] == ["worker_lost"] * 3
    assert [start["attempt"] for start in system.starts(job_id)] == [1, 2, 3]
    (letter,) = wait_until(lambda: system.letters(job_id))
    assert (letter["attempts"], letter["error"]["reason"]) == (3, "worker_lost")
    assert len(system.starts(job_id)) == 3


@pytest.mark.case("C4")
def test_an_event_that_is_delivered_twice_and_again_later_runs_its_job_once(system: System) -> None:
    system.arm("worker", Kind.DOUBLE)
    before = system.stack.dispatcher.counts()["worker"]["succeeded"]
    job_id, gate = system.submit_gated()
    wait_until(lambda: system.stack.dispatcher.counts()["worker"]["succeeded"] > before)  # the double has come and gone
    worker = system.worker_of(job_id)
    assert _invoke_again(system, worker.invocation.event) == {"admitted": False, "settled": 0}
    system.open(gate)
    assert system.wait_for(job_id)["attempt"] == 1
    wait_until(lambda: not system.running("worker"))
    assert _invoke_again(system, worker.invocation.event) == {"admitted": False, "settled": 0}
    assert len(system.starts(job_id)) == 1


def _invoke_again(system: System, event: bytes) -> Any:
    client = boto3.Session("local", "local", None, "us-east-1").client(
        "lambda", endpoint_url=system.stack.lambda_url, config=Config(retries={"total_max_attempts": 1})
    )
    return json.loads(client.invoke(FunctionName="worker", Payload=event)["Payload"].read())


@pytest.mark.case("C12")
def test_five_hundred_jobs_complete_beside_one_that_kills_its_process(system: System) -> None:
    echoes: list[dict[str, Any]] = [{"type": "demo.echo", "payload": place} for place in range(500)]
    ids = system.submit_all([*echoes[:250], {"type": "e2e.crash"}, *echoes[250:]])
    crash = ids.pop(250)
    jobs = system.wait_for_all([*ids, crash])
    assert [job["status"] for job in jobs] == ["completed"] * 500 + ["dead"]
    assert len(system.starts(crash)) == 3


@pytest.mark.case("C13")
def test_a_handler_past_its_timeout_is_ended_and_retried_without_an_overlap(system: System) -> None:
    """C13: its timeout is 5 s, and it would sleep for 60."""
    job_id = system.submit("e2e.overrun", maxAttempts=2)
    neighbours = system.submit_all([{"type": "demo.sleep", "payload": {"seconds": 0.5}}] * 8)
    job = system.wait_for(job_id, "dead", seconds=60)
    assert [error["reason"] for error in job["errors"]] == ["timeout", "timeout"]
    first, second = ([line for line in system.journal(job_id) if line["attempt"] == attempt] for attempt in (1, 2))
    assert 4.5 <= first[-1]["at"] - first[0]["at"] < 10
    # Half of the backoff is fixed.
    assert second[0]["at"] >= moment(job["errors"][0]["at"]).timestamp() + 0.25
    assert first[-1]["at"] < second[0]["at"]
    assert first[0]["pid"] != second[0]["pid"]
    for neighbour in system.wait_for_all(neighbours):
        assert (neighbour["status"], neighbour["attempt"]) == ("completed", 1)
    wait_until(lambda: not any(alive(run[0]["pid"]) for run in (first, second)))
