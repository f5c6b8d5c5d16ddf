"""Why a job is not running, in each of the ways in which it may not be."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from dilamme.domain.job import Head
from dilamme.domain.priority import order_key
from dilamme.settings import Settings
from dilamme.store.connection import Connection
from dilamme.testing.clock import Clock
from dilamme.usecases import read
from tests.functions import states
from tests.functions.door import get, post, submit

pytestmark = pytest.mark.usefixtures("door")


@pytest.fixture(autouse=True)
def healthy(clock: Clock, connection: Connection) -> None:
    """A scheduler leads, a worker has made its types known, time stands still."""
    states.lead(connection)
    for name in ("demo.echo", "email.send"):
        states.know_type(connection, name)


def why(job: dict[str, Any]) -> dict[str, Any]:
    answer = get(f"/jobs/{job['id']}/why")
    assert answer.status == 200, answer.text
    told: dict[str, Any] = answer.json
    assert told["id"] == job["id"]
    assert told["detail"] == " ".join(reason["detail"] for reason in told["reasons"])
    return told


def causes(told: dict[str, Any]) -> list[str]:
    return [reason["cause"] for reason in told["reasons"]]


def test_it_is_not_due_yet(clock: Clock) -> None:
    job = submit(scheduledAt=(clock.now + timedelta(seconds=12)).isoformat())
    told = why(job)
    assert causes(told) == ["not_due"]
    assert told["detail"] == "It is due in 12 s."
    assert told["dueInSeconds"] == 12
    assert told["rank"] is told["effectivePriority"] is told["waitsOn"] is None


def test_it_waits_for_its_retry(connection: Connection) -> None:
    job = submit(maxAttempts=5)
    connection.execute(
        "UPDATE dilamme.jobs SET attempt = 2, ready_at = dilamme.clock() + interval '90 s' WHERE id = %s", (job["id"],)
    )
    assert why(job)["detail"] == "It is due in 90 s, for attempt 3 of 5."


def test_it_waits_on_jobs_and_on_their_status(connection: Connection) -> None:
    runs, waits, done = submit(), submit(), submit()
    states.finish(connection, done["id"], "completed")
    states.start(connection, runs["id"])
    told = why(submit(dependencyIds=[done["id"], waits["id"], runs["id"]]))
    assert causes(told) == ["dependencies"]
    assert told["waitsOn"] == [
        {"id": runs["id"], "status": "running"},
        {"id": waits["id"], "status": "pending"},
    ]
    assert told["waitsOnCount"] == 2
    assert told["detail"] == f"It waits on {runs['id']} (running), {waits['id']} (pending)."


def test_it_waits_on_more_jobs_than_one_wants_to_read_the_hopeless_ones_in_front(connection: Connection) -> None:
    parents = [submit()["id"] for _ in range(25)]
    child = submit(dependencyIds=parents)
    states.finish(connection, parents[-1], "dead")
    told = why(child)
    assert [parent["id"] for parent in told["waitsOn"]] == [parents[-1], *parents[:19]]
    assert told["waitsOnCount"] == 25
    assert "and 5 more" in told["detail"]
    assert "replayed" in told["detail"]


def test_it_is_blocked_and_not_due_either(clock: Clock) -> None:
    told = why(submit(dependencyIds=[submit()["id"]], scheduledAt=(clock.now + timedelta(hours=5)).isoformat()))
    assert causes(told) == ["dependencies", "not_due"]
    assert "due in 5 h" in told["detail"]


def test_it_is_in_line(clock: Clock, connection: Connection) -> None:
    for _ in range(3):
        submit(priority=1)
    job = submit(priority=3)
    clock.advance(20)
    states.lead(connection)
    told = why(job)
    assert causes(told) == ["in_line"]
    assert told["detail"] == "It is 4th in line, priority 3, and has waited 20 s."
    assert (told["rank"], told["rankCapped"], told["priority"], told["effectivePriority"]) == (4, False, 3, 3)
    assert told["waitedSeconds"] == 20


def test_it_has_aged(clock: Clock, connection: Connection) -> None:
    job = submit(priority=3)
    clock.advance(74)
    states.lead(connection)
    submit(priority=1)
    told = why(job)
    assert told["detail"] == "It is 1st in line, effective priority 1 (was 3, waited 74 s)."
    assert told["effectivePriority"] == 1


def test_its_rank_is_the_comparators_among_all_that_are_ready(
    clock: Clock, connection: Connection, settings: Settings
) -> None:
    jobs = []
    for number in range(60):
        clock.advance((7 * number) % 5)
        jobs.append(submit(priority=1 + number % 3))
    states.start(connection, jobs[10]["id"])
    submit(scheduledAt="2040-01-01T00:00:00Z", priority=1)
    submit(dependencyIds=[jobs[0]["id"]], priority=1)
    rows = connection.execute(
        "SELECT id, priority, ready_at, created_at FROM dilamme.jobs"
        " WHERE status = 'pending' AND unmet_dependencies = 0 AND ready_at <= dilamme.clock()"
    ).fetchall()
    order = sorted((Head(*row) for row in rows), key=order_key(clock.now, settings.ageing_seconds))
    assert {head.id: why({"id": str(head.id)})["rank"] for head in order} == {
        head.id: place for place, head in enumerate(order, 1)
    }


def test_a_long_line_is_counted_only_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "RANK_MAX", 10)
    monkeypatch.setattr("dilamme.wire.why.RANK_MAX", 10)
    ids = [job["id"] for job in post("/jobs/batch", {"jobs": [{"type": "demo.echo"}] * 30}).json["jobs"]]
    assert [(told["rank"], told["rankCapped"]) for told in map(why, ({"id": ids[place]} for place in (9, 10, 29)))] == [
        (10, False),
        (10, True),
        (10, True),
    ]
    assert "behind at least 10 others" in why({"id": ids[29]})["detail"]


def test_all_workers_are_busy(connection: Connection, settings: Settings) -> None:
    job = submit()
    states.occupy(connection, settings.worker_slots - 1)
    told = why(job)
    assert "workers_busy" in causes(told)
    assert f"All workers ({settings.worker_slots}) are busy." in told["detail"]
    assert (told["workersFree"], told["workerSlots"]) == (0, settings.worker_slots)


def test_no_worker_knows_its_type(connection: Connection) -> None:
    job = submit("nobody.knows")
    assert causes(why(job)) == ["in_line", "unknown_type"]
    connection.execute(
        "UPDATE dilamme.jobs SET unknown_since = dilamme.clock(), ready_at = dilamme.clock() + interval '30 s' WHERE id = %s",
        (job["id"],),
    )
    told = why(job)
    assert causes(told) == ["not_due"]
    assert "does not know the type nobody.knows" in told["detail"]


def test_no_scheduler_is_alive(connection: Connection) -> None:
    job, later = submit(), submit(scheduledAt="2040-01-01T00:00:00Z")
    states.lead(connection, ticked_ago=timedelta(seconds=90))
    assert causes(why(later)) == ["not_due"]  # an idle scheduler stops, and is back in time
    told = why(job)
    assert causes(told) == ["in_line", "no_scheduler"]
    assert "No scheduler has ticked for 90 s" in told["detail"]
    connection.execute("UPDATE dilamme.scheduler_lease SET last_tick_at = NULL, expires_at = '-infinity'")
    assert "No scheduler has ticked yet" in why(job)["detail"]


def test_it_is_running(clock: Clock, connection: Connection) -> None:
    job = submit()
    connection.execute("UPDATE dilamme.worker_slots SET state = 'free', token = NULL, held_until = NULL")
    (worker,) = states.occupy(connection, 1)
    states.start(connection, job["id"], worker)
    clock.advance(8)
    told = why(job)
    assert causes(told) == ["running"]
    assert told["detail"] == "It has been running for 8 s, attempt 1 of 3, on worker slot 1."
    assert told["worker"] == str(worker)
    assert told["startedAt"] == "2030-01-01T00:00:00Z"
    clock.advance(60)
    assert "Its lease has run out" in why(job)["detail"]
    connection.execute("UPDATE dilamme.worker_slots SET state = 'free', token = NULL, held_until = NULL")
    assert "let go of its slot" in why(job)["detail"]


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        ("completed", "It completed 30 min ago, in attempt 1 after 0 ms."),
        ("dead", "It died 30 min ago, in attempt 1 of 3: error, boom. Replay it to try again."),
        ("cancelled", "It was cancelled 30 min ago: error, boom."),
    ],
)
def test_it_has_ended(status: str, sentence: str, clock: Clock, connection: Connection) -> None:
    job = submit()
    states.finish(connection, job["id"], status, error=None if status == "completed" else "boom")
    clock.advance(1800)
    told = why(job)
    assert causes(told) == [status]
    assert told["detail"] == sentence
    assert told["finishedAt"] == "2030-01-01T00:00:00Z"
    assert told["workersFree"] is None


def test_a_job_that_is_not_there_has_no_reasons() -> None:
    assert get(f"/jobs/{uuid4()}/why").status == 404
    assert get(f"/jobs/{UUID(int=0)}/why").status == 404
