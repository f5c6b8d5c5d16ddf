"""With nothing to do the scheduler stops, and nothing triggers it here: what happens, happens because it was woken.

One test for each way in which work falls due (ARCHITECTURE, invariant 11), and each on a system that sleeps.
"""

import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable

import psycopg
import pytest

import dilamme
from tests.e2e.system import LIVE, System, kill, seconds_between
from tests.support.checkout import CHECKOUT
from tests.support.waiting import wait_until

SETTINGS = {"clock_seconds": None, "idle_exit_seconds": 1, "backoff_base_seconds": 2}
TICK_SECONDS = 1


Record = Callable[[str, object], None]


@pytest.fixture
def asleep(system: System) -> System:
    """A system whose workers have run and whose scheduler has stopped."""
    system.wait_for(system.submit("demo.echo"))
    fall_asleep(system)
    return system


def fall_asleep(system: System) -> None:
    wait_until(lambda: not system.running("scheduler") and not system.running("worker"))
    assert not system.get("/stats")["scheduler"]["alive"]


def check_waits(waits: list[float], record_testsuite_property: Record) -> None:
    """Seconds from ready to started: milliseconds as a rule, and never until a tick would have come."""
    record_testsuite_property("seconds to start", waits)
    assert statistics.median(waits) < TICK_SECONDS / 4
    assert max(waits) < TICK_SECONDS


@pytest.mark.case("C15")
def test_a_posted_job_starts_in_milliseconds_without_a_scheduler(
    asleep: System, record_testsuite_property: Record
) -> None:
    """C15: each is posted as the worker before sees an empty queue and leaves."""
    accepted = asleep.stack.dispatcher.counts()["scheduler"]["accepted"]
    waits = []
    for _ in range(40):
        job = asleep.wait_for(asleep.submit("demo.echo"))
        waits.append(seconds_between(job["readyAt"], job["startedAt"]))
    check_waits(waits, record_testsuite_property)
    # A POST that finds all slots taken, as on a very busy machine, rightly wakes a scheduler too: no more than one in twenty.
    assert asleep.stack.dispatcher.counts()["scheduler"]["accepted"] <= accepted + 2


@pytest.mark.case("C15")
def test_jobs_posted_while_workers_come_and_go_all_start_without_a_scheduler(
    asleep: System, record_testsuite_property: Record
) -> None:
    """C15, without a pause."""
    jobs = asleep.wait_for_all([asleep.submit("demo.echo") for _ in range(60)])
    waits = [seconds_between(job["readyAt"], job["startedAt"]) for job in jobs]
    check_waits(waits, record_testsuite_property)


def test_a_batch_is_shared_by_as_many_workers_as_it_needs(asleep: System) -> None:
    gate = asleep.new_gate()
    ids = asleep.submit_all([{"type": "e2e.gate", "payload": {"gate": gate}}] * 16)
    wait_until(lambda: all(asleep.starts(job_id) for job_id in ids))
    asleep.open(gate)
    assert {job["attempt"] for job in asleep.wait_for_all(ids)} == {1}


def test_a_job_for_later_starts_at_its_time(asleep: System) -> None:
    job = asleep.wait_for(asleep.submit("demo.echo", scheduledAt=asleep.soon(4)))
    assert 0 <= seconds_between(job["scheduledAt"], job["startedAt"]) < TICK_SECONDS


def test_a_retry_comes(asleep: System) -> None:
    job = asleep.wait_for(asleep.submit("e2e.retry", {"seconds": 3}))
    assert job["attempt"] == 2
    assert seconds_between(job["errors"][0]["at"], job["startedAt"]) >= 3


def test_a_snoozed_job_comes_back_at_no_cost(asleep: System) -> None:
    job_id = asleep.submit("e2e.snooze", {"seconds": 3})
    assert asleep.wait_for(job_id)["attempt"] == 1
    first, second = asleep.starts(job_id)
    assert second["at"] - first["at"] >= 3


def test_a_recurring_job_comes_again_and_again(asleep: System) -> None:
    series = asleep.job(asleep.submit("e2e.note", intervalSeconds=3))["seriesId"]
    wait_until(lambda: sum(job["status"] == "completed" for job in asleep.jobs(seriesId=series)) >= 3)
    asleep.post(f"/series/{series}/cancel")
    assert not [job for job in asleep.jobs(seriesId=series) if job["status"] in LIVE]


def test_a_child_with_a_time_of_its_own_starts_after_its_release(asleep: System) -> None:
    parent, gate = asleep.submit_gated()
    child = asleep.submit("e2e.note", dependencyIds=[parent], scheduledAt=asleep.soon(4))
    assert not asleep.running("scheduler")
    asleep.open(gate)
    job = asleep.wait_for(child)
    assert seconds_between(job["scheduledAt"], job["startedAt"]) >= 0


def test_a_dead_letter_reaches_the_queue_and_a_replay_starts(asleep: System) -> None:
    job_id = asleep.submit("demo.fail", {"times": 9}, maxAttempts=1)
    wait_until(lambda: asleep.letters(job_id))
    fall_asleep(asleep)
    assert asleep.post(f"/jobs/{job_id}/replay").json["replayed"]
    wait_until(lambda: len(asleep.letters(job_id)) == 2)


def test_a_lost_workers_job_comes_again_after_its_backoff(asleep: System) -> None:
    job_id = asleep.submit("e2e.crash")
    job = asleep.wait_for(job_id, "dead")
    assert [error["reason"] for error in job["errors"]] == ["worker_lost"] * 3
    assert seconds_between(job["errors"][1]["at"], job["startedAt"]) >= 2
    wait_until(lambda: asleep.letters(job_id))


def test_a_job_whose_worker_is_lost_before_it_claims_comes_all_the_same(asleep: System) -> None:
    spare = asleep.spare_worker()
    os.kill(spare, signal.SIGSTOP)  # the event finds a process that does not get to it
    job_id = asleep.submit("e2e.note")
    (worker,) = wait_until(lambda: asleep.running("worker"))
    assert worker.pid == spare
    kill(worker)
    assert asleep.wait_for(job_id)["attempt"] == 1


def test_a_job_that_was_locked_when_its_worker_looked_is_not_forgotten(asleep: System) -> None:
    """A child is being added to it, in a transaction that lasts."""
    with psycopg.connect(asleep.stack.database_url) as ours:
        parent = dilamme.submit(ours, "e2e.note")
    with psycopg.connect(asleep.stack.database_url) as ours:
        child = dilamme.submit(ours, "e2e.note", dependency_ids=[parent])
        asleep.wait_for(asleep.submit("demo.echo"))
        wait_until(lambda: not asleep.running("worker"))
    asleep.wait_for(str(child))


APPLICATION = """
import os, psycopg, dilamme

with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
    connection.execute("CREATE TABLE IF NOT EXISTS orders (job uuid)")
    job = dilamme.submit(connection, "e2e.note", {"order": 1}, priority=1)
    connection.execute("INSERT INTO orders VALUES (%s)", [job])
    with connection.transaction(force_rollback=True):
        dilamme.submit(connection, "e2e.note")
dilamme.wake()
print(job)
"""


def test_an_application_submits_in_its_own_transaction_and_wakes_a_worker(asleep: System) -> None:
    variables = {
        "DATABASE_URL": asleep.stack.database_url,
        "DILAMME_WORKER_FUNCTION": "worker",
        "DILAMME_SCHEDULER_FUNCTION": "scheduler",
        "AWS_ENDPOINT_URL_LAMBDA": asleep.stack.lambda_url,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "PYTHONPATH": str(CHECKOUT / "shared"),
    }
    known = {job["id"] for job in asleep.jobs(type="e2e.note")}
    done = subprocess.run(
        [sys.executable, "-c", APPLICATION], env={**os.environ, **variables}, capture_output=True, text=True, check=True
    )
    job_id = done.stdout.strip()
    asleep.wait_for(job_id)
    assert asleep.query("SELECT job::text FROM orders") == [(job_id,)]
    assert {job["id"] for job in asleep.jobs(type="e2e.note")} - known == {job_id}
