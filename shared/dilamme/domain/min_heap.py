"""A min-heap for the scheduler's tick: what can run, most urgent first.

A tick rebuilds it from the heads of the lanes and takes the most urgent; now and then something is pushed in between.
Both are quick in pure Python because the work is split the way a *sequence heap* splits it (Sanders, "Fast priority
queues for cached memory", 2000): what comes in bulk is sorted by C, since a sorted list is a valid heap, and only
what trickles in is sifted by us.

The rivals, a textbook heap of tuples and `heapq`, are measured beside this one in ``benchmarks/heap_vs_wheel.py``.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")

# The sifted part's share of the sorted part before it is folded in. A fold costs a merge, in C; a larger heap costs
# deeper sifts, in Python. Between an eighth and a hundredth the sum is flat.
_SHARE = 16
_SHARE_MIN = 32


def _as_they_came(_: object) -> int:
    return 0


class MinHeap(Generic[T]):
    """Items in ascending order of ``key(item)``; of equal keys, of ``tie(item)``; of equal ties, of arrival.

    ``key`` gives a number: an int, or a float that is exact (the shorter it is, the faster). ``tie`` gives anything
    that compares, and is called only where keys are equal. Both must give the same for as long as the heap holds
    the item; when they change with time, as ageing does, `rebuild` asks anew. An item may be held twice.

    A push costs O(1), what comes out O(log n), amortised; a rebuild costs one sort, and taking what it brought
    costs nothing. Beyond the items it weighs 8 bytes for each that came by a rebuild, about 62 for each pushed.
    """

    __slots__ = ("_bulk", "_bulk_key", "_key", "_pushed", "_tie")

    def __init__(self, key: Callable[[T], float], tie: Callable[[T], Any] = _as_they_came) -> None:
        self._key = key
        self._tie = tie
        self._bulk: list[T] = []  # what a rebuild brought, the most urgent last, where taking it costs nothing
        self._bulk_key: float | None = None  # of its last item, once asked for
        self._pushed = _Pushed(tie)

    def __len__(self) -> int:
        return len(self._bulk) + len(self._pushed)

    def push(self, item: T) -> None:
        self._pushed.add(self._key(item), item)

    def rebuild(self, items: Iterable[T]) -> None:
        """Replaces what the heap holds by ``items``, with fresh keys."""
        bulk = list(items)
        keys = list(map(self._key, bulk))
        if len(set(keys)) < len(keys):
            bulk.sort(key=self._tie)
            keys = list(map(self._key, bulk))
        bulk.sort(key=partial(next, iter(keys)))  # asks for the keys in the list's order, and we have them
        bulk.reverse()
        self._bulk, self._bulk_key, self._pushed = bulk, None, _Pushed(self._tie)

    def peek(self) -> T:
        """The most urgent item, which stays. IndexError if there is none."""
        if not self:
            raise IndexError("peek into an empty MinHeap")
        return self._bulk[-1] if self._bulk_leads() else self._pushed.first()

    def pop(self) -> T:
        """Takes the most urgent item. IndexError if there is none."""
        if self._pushed.entries and not self._bulk_leads():
            return self._pushed.take()
        if not self._bulk:
            raise IndexError("pop from an empty MinHeap")
        self._bulk_key = None
        return self._bulk.pop()

    def pop_many(self, count: int) -> list[T]:
        """Takes the ``count`` most urgent items, or all if there are fewer, in order."""
        if self._pushed.entries:
            return [self.pop() for _ in range(min(count, len(self)))]
        cut = max(0, len(self._bulk) - count)
        taken = self._bulk[cut:]
        del self._bulk[cut:]
        taken.reverse()
        return taken

    def _bulk_leads(self) -> bool:
        """Is the bulk's next before all that was pushed?"""
        if not (self._bulk and self._pushed.entries):
            return bool(self._bulk)
        if self._bulk_key is None:
            self._bulk_key = self._key(self._bulk[-1])
        key = self._pushed.least()
        return self._bulk_key < key or (
            self._bulk_key == key and not self._tie(self._pushed.first()) < self._tie(self._bulk[-1])
        )


class _Pushed(Generic[T]):
    """What was pushed since the rebuild.

    Only keys move here, and `entries` knows what each stands for: moving one number is half the work of moving a key
    and an item in two lists, and it compares in one step where a tuple compares level by level.
    """

    __slots__ = ("_fresh", "_heap", "_run", "_tie", "_tied", "entries")

    def __init__(self, tie: Callable[[T], Any]) -> None:
        self.entries: dict[float, T | _Ties[T]] = {}
        self._fresh: list[float] = []  # not yet looked at: only a look says which of the next two is cheaper
        self._run: list[float] = []  # descending, sorted by C
        self._heap: list[float] = []  # a binary heap
        self._tie = tie
        self._tied = 0  # items beyond one per key

    def __len__(self) -> int:
        return len(self.entries) + self._tied

    def add(self, key: float, item: T) -> None:
        if key in self.entries:
            self._join(key, item)
        else:
            self.entries[key] = item
            self._fresh.append(key)

    def least(self) -> float:
        """The least key; there is one."""
        if self._fresh:
            self._settle()
        run, heap = self._run, self._heap
        return heap[0] if heap and not (run and run[-1] < heap[0]) else run[-1]

    def first(self) -> T:
        entry = self.entries[self.least()]
        return entry.first() if isinstance(entry, _Ties) else entry

    def take(self) -> T:
        key = self.least()
        if self._heap and self._heap[0] == key:
            self._sift_out()
        else:
            self._run.pop()
        entry = self.entries.pop(key)
        return self._take_tie(key, entry) if isinstance(entry, _Ties) else entry

    def _join(self, key: float, item: T) -> None:
        entry = self.entries[key]
        if not isinstance(entry, _Ties):
            entry = self.entries[key] = _Ties(entry, self._tie)
        entry.add(item)
        self._tied += 1

    def _take_tie(self, key: float, ties: "_Ties[T]") -> T:
        item = ties.take()
        self.entries[key] = ties if len(ties) > 1 else ties.take()
        self._run.append(key)  # it was the least of all, and still is
        self._tied -= 1
        return item

    def _settle(self) -> None:
        """Finds the fresh keys their place."""
        if len(self._fresh) + len(self._heap) > max(_SHARE_MIN, len(self._run) // _SHARE):
            self._fold()
        else:
            for key in self._fresh:
                self._sift_in(key)
        self._fresh.clear()

    def _fold(self) -> None:
        """Sorts everything into the run. Timsort finds the old run in order and merges: O(n) beside what is new."""
        self._run += self._heap
        self._run += self._fresh
        self._run.sort(reverse=True)
        self._heap.clear()

    def _sift_in(self, key: float) -> None:
        self._heap.append(key)
        self._rise(len(self._heap) - 1, key)

    def _sift_out(self) -> None:
        """Removes the root, bottom-up (Wegener, "Bottom-up heapsort", 1993): the hole sinks to a leaf, the last key rises.

        The textbook compares the last key on every level of its way down; it came from a leaf, and nearly always
        returns to one.
        """
        heap = self._heap
        key = heap.pop()
        last = len(heap) - 1
        hole, child = 0, 1
        while child < last:
            if heap[child + 1] < heap[child]:
                child += 1
            heap[hole] = heap[child]
            hole, child = child, 2 * child + 1
        if child == last:
            heap[hole] = heap[last]
            hole = last
        if heap:
            self._rise(hole, key)

    def _rise(self, hole: int, key: float) -> None:
        """Larger parents move down into the hole until ``key`` fits."""
        heap = self._heap
        while hole:
            parent = (hole - 1) >> 1
            if heap[parent] < key:
                break
            heap[hole] = heap[parent]
            hole = parent
        heap[hole] = key


class _Ties(Generic[T]):
    """Two or more items that share a key: kept as they come, put in order when their turn comes.

    Jobs of one batch are ready at the same microsecond, so ties are ordinary. They take one place in the heap, and
    whether anything else can run first is asked once for all of them.
    """

    __slots__ = ("_items", "_ordered", "_tie")

    def __init__(self, first: T, tie: Callable[[T], Any]) -> None:
        self._items = [first]
        self._tie = tie
        self._ordered = False  # then: the first to go is last in the list

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: T) -> None:
        if self._ordered:
            self._items.insert(self._place(self._tie(item)), item)
        else:
            self._items.append(item)

    def first(self) -> T:
        if not self._ordered:
            self._items.reverse()  # the sort is stable: equal ties then leave in order of arrival
            self._items.sort(key=self._tie, reverse=True)
            self._ordered = True
        return self._items[-1]

    def take(self) -> T:
        first = self.first()
        self._items.pop()
        return first

    def _place(self, tie: Any) -> int:
        """Before all that are equal, so after them in order of leaving. `bisect` knows no descending lists."""
        low, high = 0, len(self._items)
        while low < high:
            middle = (low + high) // 2
            if tie < self._tie(self._items[middle]):
                low = middle + 1
            else:
                high = middle
        return low
