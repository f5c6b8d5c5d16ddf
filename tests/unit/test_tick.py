"""The pure parts of a tick: the merge of the lanes, and how the jobs are dealt out to workers."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from dilamme.domain.job import Head
from dilamme.domain.priority import effective_priority
from dilamme.scheduler.tick import deal, most_urgent
from dilamme.store.slots import Reservation
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


heads = st.integers(0, 60).map(lambda count: [Head(UUID(int=index), 1, NOW, NOW) for index in range(count)])
slots = st.integers(0, 10).map(lambda count: [Reservation(slot, UUID(int=slot)) for slot in range(1, count + 1)])


@given(heads, slots)
def test_every_worker_gets_a_hand_and_every_job_is_in_one_hand(chosen: list[Head], reserved: list[Reservation]) -> None:
    events = deal(chosen, reserved, NOW)
    assert [(event.slot, event.token) for event in events] == [(slot.slot, slot.token) for slot in reserved]
    dealt = [job_id for event in events for job_id in event.ids]
    assert sorted(dealt) == [head.id for head in chosen if reserved]


@given(heads, slots.filter(bool))
def test_hands_differ_by_one_job_at_the_most(chosen: list[Head], reserved: list[Reservation]) -> None:
    sizes = [len(event.ids) for event in deal(chosen, reserved, NOW)]
    assert max(sizes) - min(sizes) <= 1


@given(heads, slots.filter(bool))
def test_the_most_urgent_jobs_come_first_in_different_hands(chosen: list[Head], reserved: list[Reservation]) -> None:
    hands = [list(event.ids) for event in deal(chosen, reserved, NOW)]
    assert [ids[0] for ids in hands if ids] == [head.id for head in chosen[: len(reserved)]]
    assert all(ids == sorted(ids) for ids in hands)
