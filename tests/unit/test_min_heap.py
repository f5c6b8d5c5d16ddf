"""`MinHeap`: everything leaves in order, whatever comes in between, and nothing is lost or doubled."""

from datetime import UTC, datetime, timedelta
from itertools import count
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
    """What the tests hold. The heap sees the key; the arrival tells apart what it must keep in order of arrival."""

    key: int
    arrival: int


def heap_of_items() -> MinHeap[Item]:
    return MinHeap(key=itemgetter(0))


def as_items(keys: list[int]) -> list[Item]:
    return [Item(key, arrival) for arrival, key in enumerate(keys)]


def drain(heap: MinHeap[Item]) -> list[Item]:
    return [heap.pop() for _ in range(len(heap))]


# Few values for many items, so that ties are as common as in a batch; and enough items for sorts and for sifts.
keys = st.integers(-40, 40)
many_keys = st.lists(keys, max_size=300)


@given(many_keys)
def test_what_was_pushed_leaves_by_key_then_arrival(keys: list[int]) -> None:
    heap, items = heap_of_items(), as_items(keys)
    for item in items:
        heap.push(item)
    assert drain(heap) == sorted(items)
    assert not heap


@given(many_keys, many_keys)
def test_a_rebuild_replaces_everything_and_leaves_in_the_same_order(before: list[int], after: list[int]) -> None:
    heap, items = heap_of_items(), as_items(after)
    for item in as_items(before):
        heap.push(item)
    heap.rebuild(items)
    assert len(heap) == len(items)
    assert drain(heap) == sorted(items)


@given(many_keys, many_keys, st.integers(0, 320))
def test_the_most_urgent_are_taken_and_the_others_stay(bulk: list[int], pushed: list[int], most: int) -> None:
    heap, items = heap_of_items(), as_items(bulk + pushed)
    heap.rebuild(items[: len(bulk)])
    for item in items[len(bulk) :]:
        heap.push(item)
    assert heap.pop_many(most) == sorted(items)[:most]
    assert drain(heap) == sorted(items)[most:]


@given(
    st.integers(0, 400), st.lists(st.lists(st.integers(-9, 99), max_size=24), min_size=3, max_size=12), st.booleans()
)
def test_a_trickle_between_looks_is_merged_with_the_bulk(size: int, trickles: list[list[int]], takes: bool) -> None:
    heap, waiting, arrivals = heap_of_items(), as_items([key % 100 for key in range(size)]), count(size)
    heap.rebuild(waiting)
    for trickle in trickles:
        for key in trickle:
            item = Item(key, next(arrivals))
            heap.push(item)
            waiting.append(item)
        waiting.sort()
        if waiting:
            assert heap.peek() == waiting[0]
            if takes:
                assert heap.pop() == waiting.pop(0)
    assert drain(heap) == waiting


class AnyInterleaving(RuleBasedStateMachine):
    """Every operation in every order, beside a plain list."""

    def __init__(self) -> None:
        super().__init__()
        self.heap = heap_of_items()
        self.model: list[Item] = []
        self.arrivals = 0

    def arrive(self, key: int) -> Item:
        self.arrivals += 1
        return Item(key, self.arrivals)

    @rule(key=keys)
    def push(self, key: int) -> None:
        item = self.arrive(key)
        self.heap.push(item)
        self.model.append(item)

    @rule(seed=st.integers(0, 1_000), size=st.integers(20, 300), spread=st.sampled_from([50, 5_000]))
    def push_a_burst(self, seed: int, size: int, spread: int) -> None:
        random = Random(seed)
        for _ in range(size):
            self.push(random.randint(-spread, spread))

    @rule(seed=st.integers(0, 1_000), size=st.integers(0, 100), spread=st.sampled_from([50, 5_000]))
    def rebuild(self, seed: int, size: int, spread: int) -> None:
        random = Random(seed)
        self.model = [self.arrive(random.randint(-spread, spread)) for _ in range(size)]
        self.heap.rebuild(self.model)

    @precondition(lambda self: self.model)
    @rule()
    def pop(self) -> None:
        least = min(self.model)
        assert self.heap.peek() == least
        assert self.heap.pop() == least
        self.model.remove(least)

    @rule(most=st.integers(0, 60))
    def pop_many(self, most: int) -> None:
        self.model.sort()
        assert self.heap.pop_many(most) == self.model[:most]
        del self.model[:most]

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
        assert sorted([*self.heap._run, *self.heap._heap]) == sorted(self.heap._entries)


TestAnyInterleaving = AnyInterleaving.TestCase
TestAnyInterleaving.settings = settings(max_examples=80, stateful_step_count=30)


class AnyInterleavingOfTuples(AnyInterleaving):
    """The same, where a key has two levels."""

    def __init__(self) -> None:
        super().__init__()
        self.heap = MinHeap(key=lambda item: divmod(item.key, 7))


TestAnyInterleavingOfTuples = AnyInterleavingOfTuples.TestCase
TestAnyInterleavingOfTuples.settings = settings(max_examples=40, stateful_step_count=30)


def test_a_trickle_is_sifted_and_a_burst_is_sorted() -> None:
    heap: MinHeap[int] = MinHeap(key=int)
    for key in range(0, 200, 2):
        heap.push(key)
    assert heap.pop() == 0
    assert len(heap._bulk) == 99
    for key in (51, 31, 41):
        heap.push(key)
    assert heap.pop() == 2
    assert sorted(heap._heap) == [31, 41, 51]
    for key in range(1_001, 1_301, 2):
        heap.push(key)
    assert heap.pop() == 4
    assert len(heap._bulk) == 250
    assert not heap._heap


def test_a_trickle_rises_and_sinks_through_many_levels() -> None:
    heap: MinHeap[int] = MinHeap(key=int)
    heap.rebuild(range(100_000, 200_000))
    run = range(90_000, 20_000, -1)  # so long that the heap stays
    heap._run = list(run)
    heap._entries = {key: key for key in run}
    for key in range(4_000, 0, -1):  # each is the new root: the longest way up
        heap.push(key)
        assert heap.peek() == key
    assert len(heap._heap) == 4_000
    assert [heap.pop() for _ in range(4_001)] == [*range(1, 4_001), 20_001]


def test_a_trickle_overflows_into_the_run() -> None:
    heap: MinHeap[int] = MinHeap(key=int)
    heap.rebuild(range(1_000, 1_100))
    for key in range(33):
        assert not heap._run
        heap.push(key)
        heap.peek()
    assert (len(heap._run), len(heap._heap)) == (33, 0)
    assert [heap.pop() for _ in range(34)] == [*range(33), 1_000]


def test_of_equal_keys_the_bulk_leaves_before_a_trickle_and_that_before_a_burst() -> None:
    heap: MinHeap[str] = MinHeap(key=len)
    heap.rebuild(["one", "two"])
    for word in ("six", "ten"):
        heap.push(word)
    assert heap.peek() == "one"
    for number in range(100, 200):
        heap.push(str(number))
    assert heap.pop_many(5) == ["one", "two", "six", "ten", "100"]


def test_of_equal_keys_what_a_rebuild_brought_leaves_before_what_was_pushed_later() -> None:
    heap: MinHeap[str] = MinHeap(key=len)
    heap.rebuild(["one", "two"])
    heap.push("six")
    heap.push("a")
    heap.push("ten")
    assert heap.pop_many(9) == ["a", "one", "two", "six", "ten"]


def test_equal_keys_keep_their_order_when_others_join_or_overtake_while_they_are_leaving() -> None:
    heap: MinHeap[str] = MinHeap(key=len)
    for word in ("one", "two", "six"):  # so few that they are sifted
        heap.push(word)
    assert heap.pop() == "one"
    heap.push("ten")
    heap.push("a")
    assert [heap.pop() for _ in range(4)] == ["a", "two", "six", "ten"]


def test_the_same_item_may_be_held_twice() -> None:
    heap: MinHeap[str] = MinHeap(key=len)
    heap.rebuild(["job", "job"])
    heap.push("job")
    heap.push("job")
    assert len(heap) == 4
    assert heap.pop_many(5) == ["job"] * 4


def test_a_key_that_fails_loses_nothing() -> None:
    refused = {0, 50}

    def key(item: int) -> int:
        if item in refused:
            raise ValueError(item)
        return item

    heap: MinHeap[int] = MinHeap(key)
    heap.rebuild([2, 1])
    with pytest.raises(ValueError, match="0"):
        heap.rebuild([3, 0])
    for item in (3, 0, 4):
        heap.push(item)
    with pytest.raises(ValueError, match="0"):
        heap.peek()
    for item in range(5, 100):
        heap.push(item)
    refused.remove(0)
    with pytest.raises(ValueError, match="50"):
        heap.pop()
    refused.clear()
    assert heap.pop_many(len(heap)) == [*range(100)]


@pytest.mark.parametrize("emptied", [False, True], ids=["never filled", "emptied"])
def test_an_empty_heap_says_so(emptied: bool) -> None:
    heap: MinHeap[int] = MinHeap(key=int)
    if emptied:
        heap.rebuild([2, 1])
        heap.push(3)
        assert heap.pop_many(3) == [1, 2, 3]
    with pytest.raises(IndexError, match="pop from an empty MinHeap"):
        heap.pop()
    with pytest.raises(IndexError, match="peek into an empty MinHeap"):
        heap.peek()
    assert heap.pop_many(3) == []
    assert len(heap) == 0


@pytest.mark.parametrize("most", [0, -1, -100])
def test_taking_none_takes_none(most: int) -> None:
    heap: MinHeap[int] = MinHeap(key=int)
    heap.rebuild([3, 1, 2, 2])
    assert heap.pop_many(most) == []
    heap.push(5)
    assert heap.pop_many(most) == []
    assert len(heap) == 5


def test_keys_of_any_length_are_compared_in_full() -> None:
    heap: MinHeap[int] = MinHeap(key=lambda item: (1 << 250) - item)
    for item in (1, 3, 2):
        heap.push(item)
    assert heap.pop_many(3) == [3, 2, 1]


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
    almost, minute = NOW + timedelta(seconds=59, microseconds=999_999), NOW + timedelta(seconds=60)
    for now, first in ((almost, high), (minute, low)):
        heap: MinHeap[Ready] = MinHeap(order_key(now, 30))
        heap.rebuild([low, high])
        assert heap.pop() == first
