"""What a single worker that runs one job at a time makes visible: the order, ageing, and its own time."""

import pytest

from tests.e2e.system import System
from tests.support.waiting import wait_until

AGEING_SECONDS = 3
SETTINGS = {
    "ageing_seconds": AGEING_SECONDS,
    "worker_slots": 1,
    "worker_concurrency": 1,
    "worker_timeout_seconds": 12,
    "worker_reserve_seconds": 1,
    "job_timeout_seconds": 10.5,
}


def order_of_starts(system: System, *ids: str) -> list[str]:
    return [line["job"] for line in system.journal(*ids, step="start")]


def test_p1_runs_before_p2_before_p3_and_equals_in_the_order_in_which_they_came(system: System) -> None:
    _, gate = system.submit_gated()
    batches = [
        system.submit_all([{"type": "e2e.note", "priority": priority} for priority in (3, 1, 2) * 5]) for _ in range(2)
    ]
    system.open(gate)
    ids = [job_id for batch in batches for job_id in batch]
    system.wait_for_all(ids)
    lanes = {priority: ids[place::3] for place, priority in enumerate((3, 1, 2))}
    assert order_of_starts(system, *ids) == lanes[1] + lanes[2] + lanes[3]


@pytest.mark.case("O1")
def test_a_p3_that_ages_overtakes_what_came_later(system: System) -> None:
    _, gate = system.submit_gated()

    def submit(priority: int) -> str:
        return system.submit("e2e.note", priority=priority)

    def effective(job_id: str) -> int:
        priority: int = system.job(job_id)["effectivePriority"]
        return priority

    oldest = submit(3)
    wait_until(lambda: effective(oldest) == 2)
    old = submit(3)
    wait_until(lambda: (effective(oldest), effective(old)) == (1, 2))
    fresh_p3, fresh_p2, fresh_p1 = submit(3), submit(2), submit(1)
    assert effective(old) == 2, "three jobs took longer to post than a step of ageing"
    system.open(gate)
    expected = [oldest, fresh_p1, old, fresh_p2, fresh_p3]
    system.wait_for_all(expected)
    assert order_of_starts(system, *expected) == expected


@pytest.mark.case("C8")
def test_a_job_nearly_as_long_as_its_function_starts_once(system: System) -> None:
    """C8, scaled: 9.5 s in a function of 12 s, behind a job that has used up the worker's spare time."""
    before, job_id = system.submit_all(
        [{"type": "demo.sleep", "payload": {"seconds": 1}}, {"type": "e2e.sleep", "payload": {"seconds": 9.5}}]
    )
    job = system.wait_for(job_id)
    assert system.job(before)["status"] == "completed"
    assert job["attempt"] == 1
    assert len(system.starts(job_id)) == 1
