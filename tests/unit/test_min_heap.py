"""`MinHeap`: everything leaves in order, whatever comes in between, and nothing is lost or doubled."""

from datetime import UTC, datetime, timedelta
from functools import partial
from operator import itemgetter
from random import Random
from typing import NamedTuple
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dilamme.domain.min_heap import MinHeap
from dilamme.domain.priority import order_key


class Item(NamedTuple):
    """What the tests hold: ``arrival`` tells apart items that are equal in all that is compared."""

    key: int
    tie: int
    arrival: int


def heap_of_items() -> MinHeap[Item]:
    return MinHeap(key=itemgetter(0), tie=itemgetter(1))


def drain(heap: MinHeap[Item]) -> list[Item]:
    return [heap.pop() for _ in range(len(heap))]


# Few values for many items, so that ties are as common as in a batch; and enough items for folds and sifts.
pairs = st.tuples(st.integers(-40, 40), st.integers(0, 3))
many_pairs = st.lists(pairs, max_size=300)
distinct_keys = st.lists(st.integers(), unique=True, max_size=300)


def as_items(pairs: list[tuple[int, int]]) -> list[Item]:
    return [Item(key, tie, arrival) for arrival, (key, tie) in enumerate(pairs)]


@given(many_pairs)
def test_what_was_pushed_leaves_by_key_then_tie_then_arrival(pairs: list[tuple[int, int]]) -> None:
    heap, items = heap_of_items(), as_items(pairs)
    for item in items:
        heap.push(item)
    assert drain(heap) == sorted(items)
    assert not heap


@given(many_pairs, many_pairs)
def test_a_rebuild_replaces_everything_and_leaves_in_the_same_order(
    before: list[tuple[int, int]], after: list[tuple[int, int]]
) -> None:
    heap, items = heap_of_items(), as_items(after)
    for item in as_items(before):
        heap.push(item)
    heap.rebuild(items)
    assert len(heap) == len(items)
    assert heap.pop_many(len(items)) == sorted(items)


@given(many_pairs, st.integers(0, 320))
def test_the_most_urgent_are_taken_and_the_others_stay(pairs: list[tuple[int, int]], count: int) -> None:
    heap, items = heap_of_items(), as_items(pairs)
    heap.rebuild(items)
    assert heap.pop_many(count) == sorted(items)[:count]
    assert drain(heap) == sorted(items)[count:]


@given(distinct_keys, st.lists(st.integers(), unique=True, max_size=20))
def test_a_trickle_between_pops_is_merged_with_the_bulk(bulk: list[int], trickle: list[int]) -> None:
    heap: MinHeap[int] = MinHeap(key=int)
    heap.rebuild(bulk)
    waiting, expected, popped = list(bulk), [], []
    for key in trickle:
        heap.push(key)
        waiting.append(key)
        expected.append(min(waiting))
        waiting.remove(min(waiting))
        popped.append(heap.pop())
    assert popped == expected
    assert heap.pop_many(len(heap)) == sorted(waiting)


class AnyInterleaving(RuleBasedStateMachine):
    """Every operation in every order, beside a sorted list."""

    def __init__(self) -> None:
        super().__init__()
        self.heap = heap_of_items()
        self.model: list[Item] = []
        self.arrivals = 0

    def arrive(self, pair: tuple[int, int]) -> Item:
        self.arrivals += 1
        return Item(*pair, self.arrivals)

    @rule(pair=pairs)
    def push(self, pair: tuple[int, int]) -> None:
        item = self.arrive(pair)
        self.heap.push(item)
        self.model.append(item)

    @rule(pairs=st.lists(pairs, min_size=20, max_size=60))
    def push_a_burst(self, pairs: list[tuple[int, int]]) -> None:
        for pair in pairs:
            self.push(pair)

    @rule(seed=st.integers(0, 1_000))
    def rebuild(self, seed: int) -> None:
        self.model = [self.arrive((key, 0)) for key in Random(seed).sample(range(10_000), 600)]
        self.heap.rebuild(self.model)

    @precondition(lambda self: self.model)
    @rule()
    def pop(self) -> None:
        least = min(self.model)
        assert self.heap.peek() == least
        assert self.heap.pop() == least
        self.model.remove(least)

    @rule(count=st.integers(0, 60))
    def pop_many(self, count: int) -> None:
        self.model.sort()
        assert self.heap.pop_many(count) == self.model[:count]
        del self.model[:count]

    @invariant()
    def it_counts_what_it_holds(self) -> None:
        assert len(self.heap) == len(self.model)
        assert bool(self.heap) is bool(self.model)

    @invariant()
    def every_parent_is_less_than_its_children(self) -> None:
        heap = self.heap._heap
        assert all(heap[(child - 1) >> 1] < heap[child] for child in range(1, len(heap)))

    @invariant()
    def the_run_descends(self) -> None:
        assert self.heap._run == sorted(self.heap._run, reverse=True)

    @invariant()
    def each_key_has_one_place(self) -> None:
        places = [*self.heap._run, *self.heap._heap, *self.heap._fresh]
        assert sorted(places) == sorted(self.heap._entries)


TestAnyInterleaving = AnyInterleaving.TestCase
TestAnyInterleaving.settings = settings(max_examples=50, stateful_step_count=30)


def test_a_trickle_is_sifted_and_a_burst_is_sorted() -> None:
    heap: MinHeap[int] = MinHeap(key=int)
    heap.rebuild(range(0, 2_000, 2))
    heap.pop()
    for key in (501, 301, 401):
        heap.push(key)
    heap.pop()
    assert len(heap._heap) == 3
    for key in range(1, 200, 2):
        heap.push(key)
    heap.pop()
    assert not heap._heap


def test_pushes_to_a_long_run_are_sifted_through_many_levels() -> None:
    heap: MinHeap[int] = MinHeap(key=int)
    heap.rebuild(range(1_000_000, 1_100_000))
    assert heap.peek() == 1_000_000
    for key in range(4_000, 0, -1):  # each the new root: the longest way up
        heap.push(key)
        assert heap.peek() == key
    assert len(heap._heap) == 4_000
    assert [heap.pop() for _ in range(4_001)] == [*range(1, 4_001), 1_000_000]


def test_a_tie_that_joins_while_its_like_are_leaving_still_finds_its_place() -> None:
    heap, (late, *others) = heap_of_items(), as_items([(7, 2), (7, 5), (7, 3), (7, 1)])
    for item in others:
        heap.push(item)
    assert heap.pop().tie == 1
    heap.push(late)
    assert [item.tie for item in drain(heap)] == [2, 3, 5]


def test_what_is_equal_in_key_and_tie_leaves_as_it_came_even_while_its_like_are_leaving() -> None:
    heap: MinHeap[str] = MinHeap(key=len)
    for word in ("one", "two", "six"):
        heap.push(word)
    assert heap.pop() == "one"
    heap.push("ten")
    assert heap.pop_many(3) == ["two", "six", "ten"]


def test_more_urgent_arrivals_overtake_ties_that_are_leaving() -> None:
    heap: MinHeap[str] = MinHeap(key=len)
    heap.rebuild(["one", "two", "six"])
    assert heap.pop() == "one"
    heap.push("a")
    assert heap.pop_many(3) == ["a", "two", "six"]


def test_the_same_item_may_be_held_twice() -> None:
    heap: MinHeap[str] = MinHeap(key=len)
    heap.rebuild(["job", "job"])
    heap.push("job")
    assert len(heap) == 3
    assert heap.pop_many(5) == ["job"] * 3


def test_the_key_is_asked_once_per_item() -> None:
    asked: list[int] = []

    def key(item: int) -> int:
        asked.append(item)
        return item // 2

    heap = MinHeap(key)
    heap.rebuild(range(50))
    heap.push(50)
    heap.pop_many(len(heap))
    assert asked == [*range(51)]


def test_a_key_that_fails_leaves_the_heap_as_it_was() -> None:
    heap: MinHeap[int] = MinHeap(key=lambda item: 1 // item)
    heap.rebuild([1, 2])
    with pytest.raises(ZeroDivisionError):
        heap.rebuild([3, 0])
    with pytest.raises(ZeroDivisionError):
        heap.push(0)
    assert sorted(heap.pop_many(9)) == [1, 2]


@pytest.mark.parametrize("emptied", [False, True], ids=["never filled", "emptied"])
def test_an_empty_heap_says_so(emptied: bool) -> None:
    heap: MinHeap[int] = MinHeap(key=int)
    if emptied:
        heap.rebuild([2, 1])
        assert heap.pop_many(2) == [1, 2]
    with pytest.raises(IndexError, match="pop from an empty MinHeap"):
        heap.pop()
    with pytest.raises(IndexError, match="peek into an empty MinHeap"):
        heap.peek()
    assert heap.pop_many(3) == []
    assert len(heap) == 0


@pytest.mark.parametrize("count", [0, -1, -100])
def test_taking_none_takes_none(count: int) -> None:
    heap: MinHeap[int] = MinHeap(key=int)
    heap.rebuild([3, 1, 2, 2])
    assert heap.pop_many(count) == []
    assert len(heap) == 4


class Ready(NamedTuple):
    """A ready job as the comparator sees it."""

    id: UUID
    priority: int
    ready_at: datetime
    created_at: datetime


NOW = datetime(2026, 3, 1, tzinfo=UTC)


def test_a_rebuild_at_a_later_time_lets_what_has_aged_overtake() -> None:
    low = Ready(UUID(int=2), 3, NOW, NOW)
    high = Ready(UUID(int=1), 1, NOW + timedelta(seconds=5), NOW)
    later = NOW + timedelta(seconds=59, microseconds=999_999), NOW + timedelta(seconds=60)
    for now, first in zip(later, (high, low), strict=True):
        heap: MinHeap[Ready] = MinHeap(key=partial(order_key, now=now, ageing_seconds=30))
        heap.rebuild([low, high])
        assert heap.pop() == first
