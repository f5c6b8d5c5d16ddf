"""The pure parts of a tick: the merge of the lanes, and how the jobs are dealt out to workers."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from dilamme.domain.job import Head
from dilamme.domain.priority import effective_priority
from dilamme.scheduler.tick import deal, most_urgent
from dilamme.store.slots import Invitation
from tests.unit.strategies import NOW, lines


def lane_heads(jobs: list[Head], reach: int) -> list[Head]:
    """The first of each lane in the index's order, as PostgreSQL gives them, in no order among the lanes."""
    lanes = ([job for job in jobs if job.priority == priority and job.ready_at <= NOW] for priority in (3, 1, 2))
    return [
        head for lane in lanes for head in sorted(lane, key=lambda job: (job.ready_at, job.created_at, job.id))[:reach]
    ]


@given(lines(), st.integers(0, 12))
def test_the_heads_of_three_lanes_and_a_heap_are_sorting_everything(line: tuple[float, list[Head]], most: int) -> None:
    ageing, jobs = line
    ready = [job for job in jobs if job.ready_at <= NOW]

    def levels(job: Head) -> tuple[object, ...]:
        return effective_priority(job.priority, job.ready_at, NOW, ageing), job.ready_at, job.created_at, job.id

    assert most_urgent(lane_heads(jobs, most), most, NOW, ageing) == sorted(ready, key=levels)[:most]


heads = st.integers(0, 60).map(lambda count: [Head(UUID(int=place), 1, NOW, NOW) for place in range(count)])
invitations = st.integers(0, 10).map(lambda count: [Invitation(slot, UUID(int=slot)) for slot in range(1, count + 1)])


@given(heads, invitations)
def test_every_worker_gets_a_hand_and_every_job_is_in_one_hand(chosen: list[Head], invited: list[Invitation]) -> None:
    hands = deal(chosen, invited)
    assert [invitation for invitation, _ in hands] == invited
    dealt = [job_id for _, ids in hands for job_id in ids]
    assert sorted(dealt) == [head.id for head in chosen if invited]


@given(heads, invitations.filter(bool))
def test_hands_differ_by_one_job_at_the_most(chosen: list[Head], invited: list[Invitation]) -> None:
    sizes = [len(ids) for _, ids in deal(chosen, invited)]
    assert max(sizes) - min(sizes) <= 1


@given(heads, invitations.filter(bool))
def test_the_most_urgent_jobs_come_first_in_different_hands(chosen: list[Head], invited: list[Invitation]) -> None:
    hands = deal(chosen, invited)
    assert [ids[0] for _, ids in hands if ids] == [head.id for head in chosen[: len(invited)]]
    assert all(ids == sorted(ids) for _, ids in hands)
