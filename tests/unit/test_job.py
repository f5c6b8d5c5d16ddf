"""The states of a job and the table of transitions, both what it allows and what it does not."""

from itertools import product

import pytest

from dilamme.domain.job import TERMINAL, TRANSITIONS, Status

ALLOWED = {
    (Status.PENDING, Status.RUNNING),
    (Status.PENDING, Status.CANCELLED),
    (Status.RUNNING, Status.COMPLETED),
    (Status.RUNNING, Status.PENDING),
    (Status.RUNNING, Status.DEAD),
    (Status.DEAD, Status.PENDING),
}


@pytest.mark.parametrize(("before", "after"), list(product(Status, Status)))
def test_a_status_changes_as_the_table_says_and_in_no_other_way(before: Status, after: Status) -> None:
    assert ((before, after) in TRANSITIONS.values()) == ((before, after) in ALLOWED)


def test_a_job_starts_only_by_a_claim() -> None:
    assert [verb for verb, (_, after) in TRANSITIONS.items() if after is Status.RUNNING] == ["claim"]


def test_what_has_ended_stays_so_but_for_the_replay_of_the_dead() -> None:
    assert {verb for verb, (before, _) in TRANSITIONS.items() if before in TERMINAL} == {"replay"}


def test_every_status_can_be_reached_from_pending_and_every_job_can_end_from_there() -> None:
    reached = {Status.PENDING}
    for _ in Status:
        reached |= {after for before, after in TRANSITIONS.values() if before in reached}
    assert reached == set(Status)


def test_terminal_is_what_no_worker_and_no_lane_holds() -> None:
    assert set(Status) - TERMINAL == {Status.PENDING, Status.RUNNING}
