"""The graph inside one batch."""

from collections.abc import Sequence
from graphlib import CycleError
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dilamme.domain.dag import cancelled_from_the_start, order, resolve_refs
from dilamme.domain.errors import Fault, InvalidInput
from dilamme.domain.job import OnDependencyFailure
from dilamme.wire.requests import BatchSubmission, Submission, parse

DEAD, ALIVE = UUID(int=1), UUID(int=2)


def job(
    ref: str | None = None, *refs: str, ids: Sequence[UUID] = (), policy: OnDependencyFailure = OnDependencyFailure.WAIT
) -> BatchSubmission:
    """A job of a batch, with its own name and those it waits for."""
    fields = {"ref": ref, "dependency_refs": list(refs), "dependency_ids": list(ids), "on_dependency_failure": policy}
    return parse(BatchSubmission, {"type": "a", **fields})


def faults(batch: Sequence[Submission]) -> tuple[Fault, ...]:
    """What is wrong with the batch."""
    with pytest.raises(InvalidInput) as refused:
        resolve_refs(batch)
    return refused.value.faults


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    """Edges without a cycle: the places are shuffled, and each waits for some of those before it."""
    places = draw(st.permutations(range(draw(st.integers(1, 12)))))
    edges: list[list[int]] = [[] for _ in places]
    for position, place in enumerate(places[1:], 1):
        edges[place] = draw(st.lists(st.sampled_from(places[:position]), unique=True))
    return edges


def batch_of(edges: Sequence[Sequence[int]]) -> list[BatchSubmission]:
    """A batch with these edges."""
    return [job(f"r{place}", *(f"r{parent}" for parent in parents)) for place, parents in enumerate(edges)]


@given(graphs())
def test_names_become_the_places_of_the_jobs_they_stand_for(edges: list[list[int]]) -> None:
    assert resolve_refs(batch_of(edges)) == edges


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
    assert resolve_refs([job("a"), job(None, "a", "a")]) == [[], [0]]


def test_a_job_may_wait_for_one_that_comes_later_in_the_batch() -> None:
    assert resolve_refs([job(None, "later"), job("later")]) == [[1], []]


def test_jobs_without_names_wait_for_nobody() -> None:
    assert resolve_refs([parse(Submission, {"type": "a"}), job(), job()]) == [[], [], []]


def test_a_chain_of_a_thousand_is_in_order() -> None:
    edges = [[place + 1] for place in range(999)] + [[]]
    assert order(resolve_refs(batch_of(edges))) == list(reversed(range(1000)))


CANCEL, WAIT = OnDependencyFailure.CANCEL, OnDependencyFailure.WAIT


def test_a_job_on_a_dead_one_is_cancelled_only_if_it_asks_for_it() -> None:
    batch = [job(ids=[DEAD], policy=CANCEL), job(ids=[DEAD], policy=WAIT), job(ids=[ALIVE], policy=CANCEL)]
    assert cancelled_from_the_start(batch, [[], [], []], {DEAD}) == {0}


def test_a_job_that_waits_visibly_stops_the_cancellation_of_those_behind_it() -> None:
    batch = [job("a", ids=[DEAD], policy=WAIT), job("b", "a", policy=CANCEL)]
    assert cancelled_from_the_start(batch, resolve_refs(batch), {DEAD}) == set()


@given(graphs(), st.data())
def test_cancellation_spreads_to_all_that_ask_for_it_and_to_nobody_else(
    edges: list[list[int]], data: st.DataObject
) -> None:
    policies = data.draw(st.lists(st.sampled_from(OnDependencyFailure), min_size=len(edges), max_size=len(edges)))
    on_dead = data.draw(st.lists(st.booleans(), min_size=len(edges), max_size=len(edges)))
    batch = [
        job(ids=[DEAD] if dead else [ALIVE], policy=policy) for dead, policy in zip(on_dead, policies, strict=True)
    ]
    cancelled: set[int] = set()
    for _ in edges:  # as many rounds as the longest path could need
        cancelled |= {
            place
            for place, policy in enumerate(policies)
            if policy is CANCEL and (on_dead[place] or cancelled.intersection(edges[place]))
        }
    assert cancelled_from_the_start(batch, edges, {DEAD}) == cancelled
