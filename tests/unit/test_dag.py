"""The graph inside one batch."""

from collections.abc import Sequence
from graphlib import CycleError
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dilamme.domain.dag import cancelled_from_the_start, order, resolve_refs
from dilamme.domain.errors import Fault, InvalidInput

Job = tuple[str | None, tuple[str, ...]]


def job(ref: str | None = None, *refs: str) -> Job:
    """A job of a batch: its own name and those it waits for."""
    return ref, refs


def resolved(batch: Sequence[Job]) -> list[list[int]]:
    """The edges of the batch."""
    return resolve_refs([ref for ref, _ in batch], [refs for _, refs in batch])


def faults(batch: Sequence[Job]) -> tuple[Fault, ...]:
    """What is wrong with the batch."""
    with pytest.raises(InvalidInput) as refused:
        resolved(batch)
    return refused.value.faults


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    """Edges without a cycle: the places are shuffled, and each waits for some of those before it."""
    places = draw(st.permutations(range(draw(st.integers(1, 12)))))
    edges: list[list[int]] = [[] for _ in places]
    for position, place in enumerate(places[1:], 1):
        edges[place] = draw(st.lists(st.sampled_from(places[:position]), unique=True))
    return edges


def batch_of(edges: Sequence[Sequence[int]]) -> list[Job]:
    """A batch with these edges."""
    return [job(f"r{place}", *(f"r{parent}" for parent in parents)) for place, parents in enumerate(edges)]


@given(graphs())
def test_names_become_the_places_of_the_jobs_they_stand_for(edges: list[list[int]]) -> None:
    assert resolved(batch_of(edges)) == edges


@given(graphs())
def test_every_job_comes_behind_those_it_waits_for(edges: list[list[int]]) -> None:
    ordered = order(edges)
    assert sorted(ordered) == list(range(len(edges)))
    assert all(ordered.index(parent) < ordered.index(place) for place in ordered for parent in edges[place])


@given(graphs(), st.data())
def test_an_edge_backwards_is_refused_as_a_cycle(edges: list[list[int]], data: st.DataObject) -> None:
    places = range(len(edges))
    child = data.draw(st.sampled_from([place for place in places if edges[place]] or [0]))
    parent = data.draw(st.sampled_from(edges[child] or [child]))
    edges[parent].append(child)
    with pytest.raises(CycleError):
        order(edges)
    (fault,) = faults(batch_of(edges))
    assert "these jobs wait for each other" in fault.detail


def test_the_refusal_of_a_cycle_names_the_path_and_a_job_on_it() -> None:
    (fault,) = faults([job("lone"), job("a", "b"), job("b", "c"), job("c", "a")])
    path = fault.detail.removeprefix("these jobs wait for each other: ").split(" -> ")
    assert path[0] == path[-1]
    assert sorted(path[1:]) == ["a", "b", "c"]
    assert fault.pointer in {f"/jobs/{place}/dependencyRefs" for place in (1, 2, 3)}


def test_the_path_of_a_cycle_leads_from_each_job_to_one_that_waits_for_it() -> None:
    waits = {"a": "b", "b": "c", "c": "a"}
    (fault,) = faults([job(ref, wanted) for ref, wanted in waits.items()])
    path = fault.detail.removeprefix("these jobs wait for each other: ").split(" -> ")
    assert all(waits[child] == parent for parent, child in pairwise(path))


def test_a_job_that_waits_for_itself_is_a_cycle() -> None:
    assert faults([job("self", "self")]) == (
        Fault("/jobs/0/dependencyRefs", "these jobs wait for each other: self -> self"),
    )


def test_a_name_that_is_used_twice_is_refused_with_both_places() -> None:
    assert faults([job("a"), job(), job("a")]) == (Fault("/jobs/2/ref", "'a' already names job 0 of the batch"),)


def test_an_unknown_name_is_refused_where_it_stands() -> None:
    assert faults([job("a"), job("b", "a", "a", "ghost")]) == (
        Fault("/jobs/1/dependencyRefs/2", "no job of the batch has the ref 'ghost'"),
    )


def test_every_wrong_name_is_told_at_once() -> None:
    assert [fault.pointer for fault in faults([job("a", "x"), job("a", "y")])] == [
        "/jobs/1/ref",
        "/jobs/0/dependencyRefs/0",
        "/jobs/1/dependencyRefs/0",
    ]


def test_a_name_given_twice_as_a_dependency_is_one_dependency() -> None:
    assert resolved([job("a"), job(None, "a", "a")]) == [[], [0]]


def test_a_job_may_wait_for_one_that_comes_later_in_the_batch() -> None:
    assert resolved([job(None, "later"), job("later")]) == [[1], []]


def test_jobs_without_names_wait_for_nobody() -> None:
    assert resolved([job(), job(), job()]) == [[], [], []]


def test_a_chain_of_a_thousand_is_in_order() -> None:
    edges = [[place + 1] for place in range(999)] + [[]]
    assert order(resolved(batch_of(edges))) == list(reversed(range(1000)))


def test_a_job_on_a_dead_one_is_cancelled_only_if_it_asks_for_it() -> None:
    assert cancelled_from_the_start([[], [], []], failed={0, 1}, cancelling={0, 2}) == {0}


def test_a_job_that_waits_visibly_stops_the_cancellation_of_those_behind_it() -> None:
    edges = resolved([job("a"), job("b", "a")])
    assert cancelled_from_the_start(edges, failed={0}, cancelling={1}) == set()


@given(graphs(), st.data())
def test_cancellation_spreads_to_all_that_ask_for_it_and_to_nobody_else(
    edges: list[list[int]], data: st.DataObject
) -> None:
    indices = st.sets(st.integers(0, len(edges) - 1))
    failed, cancelling = data.draw(indices), data.draw(indices)
    cancelled: set[int] = set()
    for _ in edges:  # as many rounds as the longest path could need
        cancelled |= {index for index in cancelling if index in failed or cancelled.intersection(edges[index])}
    assert cancelled_from_the_start(edges, failed, cancelling) == cancelled
