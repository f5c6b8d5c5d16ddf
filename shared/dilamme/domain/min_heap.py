"""A min-heap for the scheduler's tick: what can run, most urgent first.

A tick rebuilds it from the heads of the lanes and takes the most urgent; now and then something is pushed in between.
Both are quick in pure Python because the work is split the way a *sequence heap* splits it (Sanders, "Fast priority
queues for cached memory", 2000):

* `_run`, in descending order, sorted by C: a sorted list is a valid heap, and its least element is at the end,
  where taking it costs nothing. A rebuild and a burst of pushes go there, in one sort.
* `_heap`, a binary heap with sifts of our own, takes what trickles in, and stays a small share of the run: a push
  between two pops moves a handful of keys, where re-sorting would touch them all.
* `_fresh`, what was pushed since anyone looked. Only a look says which of the two ways is cheaper.

Bare numbers move in all three; `_entries` knows what each stands for. Moving one number is half the work of moving
(key, item) in two lists, and a number compares in one step where a tuple compares level by level. The rival, a
textbook heap of tuples, is measured beside this one in ``benchmarks/heap_vs_wheel.py``.
"""

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")

# The heap's share of the run before it is folded in. A fold costs a merge of the run, in C; a larger heap costs deeper
# sifts, in Python. Between an eighth and a hundredth the sum is flat.
_SHARE = 16
_SHARE_MIN = 32


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


def _as_they_came(_: object) -> int:
    return 0


class MinHeap(Generic[T]):
    """Items in ascending order of ``key(item)``; of equal keys, of ``tie(item)``; of equal ties, of arrival.

    ``key`` gives a number (an int, or a float that is exact) and is called once per item, when it comes: an item
    whose key has changed with time, as ageing does, is given its new one by `rebuild`. ``tie`` gives anything that
    compares, and is called only where keys are equal. An item may be held twice.

    A push costs O(1), what comes out O(log n), amortised; `rebuild` and `pop_many` cost one sort. At 10,000 items
    it weighs about 62 bytes per item beyond the item.
    """

    __slots__ = ("_entries", "_fresh", "_heap", "_key", "_run", "_tie", "_tied")

    def __init__(self, key: Callable[[T], float], tie: Callable[[T], Any] = _as_they_came) -> None:
        self._key = key
        self._tie = tie
        self._clear()

    def _clear(self) -> None:
        self._entries: dict[float, T | _Ties[T]] = {}
        self._run: list[float] = []
        self._heap: list[float] = []
        self._fresh: list[float] = []
        self._tied = 0  # items beyond one per key

    def __len__(self) -> int:
        return len(self._entries) + self._tied

    def __bool__(self) -> bool:
        return bool(self._entries)

    def push(self, item: T) -> None:
        key = self._key(item)
        if key in self._entries:
            self._join(key, item)
        else:
            self._entries[key] = item
            self._fresh.append(key)

    def rebuild(self, items: Iterable[T]) -> None:
        """Replaces what the heap holds by ``items``, with fresh keys."""
        items = list(items)
        keys = list(map(self._key, items))
        self._clear()
        self._entries.update(zip(keys, items, strict=True))
        self._fresh = keys
        if len(self._entries) < len(keys):
            self._rebuild_with_ties(keys, items)

    def _rebuild_with_ties(self, keys: list[float], items: list[T]) -> None:
        self._clear()
        for key, item in zip(keys, items, strict=True):
            if key in self._entries:
                self._join(key, item)
            else:
                self._entries[key] = item
                self._fresh.append(key)

    def peek(self) -> T:
        """The most urgent item, which stays. IndexError if there is none."""
        if not self._entries:
            raise IndexError("peek into an empty MinHeap")
        self._settle()
        entry = self._entries[min(self._run[-1:] + self._heap[:1])]
        return entry.first() if isinstance(entry, _Ties) else entry

    def pop(self) -> T:
        """Takes the most urgent item. IndexError if there is none."""
        if self._fresh:
            self._settle()
        run, heap = self._run, self._heap
        if heap and not (run and run[-1] < heap[0]):
            key = self._sift_out()
        elif run:
            key = run.pop()
        else:
            raise IndexError("pop from an empty MinHeap")
        entry = self._entries.pop(key)
        return self._take_tie(key, entry) if isinstance(entry, _Ties) else entry

    def pop_many(self, count: int) -> list[T]:
        """Takes the ``count`` most urgent items, or all if there are fewer, in order."""
        self._fold()
        if self._tied:
            return [self.pop() for _ in range(min(count, len(self)))]
        cut = max(0, len(self._run) - count)
        keys = self._run[cut:]
        del self._run[cut:]
        keys.reverse()
        return cast("list[T]", list(map(self._entries.pop, keys)))

    def _join(self, key: float, item: T) -> None:
        entry = self._entries[key]
        if not isinstance(entry, _Ties):
            entry = self._entries[key] = _Ties(entry, self._tie)
        entry.add(item)
        self._tied += 1

    def _take_tie(self, key: float, ties: _Ties[T]) -> T:
        item = ties.take()
        self._entries[key] = ties if len(ties) > 1 else ties.take()
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
        if self._heap or self._fresh:
            self._run += self._heap
            self._run += self._fresh
            self._run.sort(reverse=True)
            self._heap.clear()
            self._fresh.clear()

    def _sift_in(self, key: float) -> None:
        self._heap.append(key)
        self._rise(len(self._heap) - 1, key)

    def _sift_out(self) -> float:
        """Takes the root, bottom-up (Wegener, "Bottom-up heapsort", 1993): the hole sinks to a leaf, the last key rises.

        The textbook compares the last key on every level of its way down; it came from a leaf, and nearly always
        returns to one.
        """
        heap = self._heap
        key = heap.pop()
        if not heap:
            return key
        root = heap[0]
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
        self._rise(hole, key)
        return root

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
