"""A min-heap for the scheduler's tick: what can run, most urgent first.

A tick rebuilds it from the heads of the lanes and takes the most urgent; now and then something is pushed in between.
Both are quick in pure Python because the work is split the way a *sequence heap* splits it (Sanders, "Fast priority
queues for cached memory", 2000): what comes in bulk is sorted by C, for a sorted list is a valid heap, and what trickles
in is sifted by us.

* `_bulk`, what a rebuild brought: the items themselves, the most urgent last, where taking it costs nothing.
* What was pushed since is known by its key, in one of three lists: `_fresh`, not looked at yet; `_run`, sorted by C;
  `_heap`, a binary heap, which stays a small share of the run. Only a look says whether sifting the fresh ones is
  cheaper, or one sort.

Only bare keys move, and `_entries` knows what each stands for: moving a number is half the work of moving key and item
in two lists, and it compares in one step where a tuple compares level by level. The rivals, a textbook heap of tuples
and `heapq`, are measured beside this one in ``benchmarks/heap_vs_wheel.py``.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")

# The heap's share of the run before it is folded in. A fold costs a merge, in C; a larger heap costs deeper sifts, in
# Python. Between an eighth and a hundredth the sum is flat.
_SHARE = 16
_SHARE_MIN = 32


class _Ties(deque[T]):
    """Two or more items that were pushed with the same key: they take one place in the heap, in order of arrival."""


class MinHeap(Generic[T]):
    """Items in ascending order of ``key(item)``, and of arrival where keys are equal.

    ``key`` gives a number: an int, or a float that is exact (the shorter, the faster). An item must keep its key for
    as long as the heap holds it; when keys change with time, as ageing does, `rebuild` asks for all of them anew.

    A push costs O(1), taking it out O(log n), amortised; a rebuild costs one sort, and taking what it brought costs
    nothing. Beyond the items, the heap weighs 8 bytes for each of a rebuild, and about 62 for each pushed.
    """

    __slots__ = ("_bulk", "_bulk_key", "_entries", "_fresh", "_heap", "_key", "_run", "_tied")

    def __init__(self, key: Callable[[T], float]) -> None:
        self._key = key
        self._replace([])

    def _replace(self, bulk: list[T]) -> None:
        self._bulk = bulk
        self._bulk_key: float | None = None  # the key of its last item, once asked for
        self._entries: dict[float, T | _Ties[T]] = {}
        self._fresh: list[float] = []
        self._run: list[float] = []  # descending
        self._heap: list[float] = []
        self._tied = 0  # items beyond one per key

    def __len__(self) -> int:
        return len(self._bulk) + len(self._entries) + self._tied

    def push(self, item: T) -> None:
        key = self._key(item)
        if key in self._entries:
            self._tie(key, item)
        else:
            self._entries[key] = item
            self._fresh.append(key)

    def rebuild(self, items: Iterable[T]) -> None:
        """Replaces what the heap holds by ``items``, with fresh keys."""
        bulk = sorted(items, key=self._key)
        bulk.reverse()
        self._replace(bulk)

    def peek(self) -> T:
        """The most urgent item, which stays. IndexError if there is none."""
        if self._bulk and self._bulk_leads():
            return self._bulk[-1]
        if not self._entries:
            raise IndexError("peek into an empty MinHeap")
        entry = self._entries[self._least()]
        return entry[0] if isinstance(entry, _Ties) else entry

    def pop(self) -> T:
        """Takes the most urgent item. IndexError if there is none."""
        if self._bulk and self._bulk_leads():
            self._bulk_key = None
            return self._bulk.pop()
        if not self._entries:
            raise IndexError("pop from an empty MinHeap")
        key = self._take_least()
        entry = self._entries.pop(key)
        return self._untie(key, entry) if isinstance(entry, _Ties) else entry

    def pop_many(self, count: int) -> list[T]:
        """Takes the ``count`` most urgent items, or all if there are fewer, in order."""
        if self._entries:
            return [self.pop() for _ in range(min(count, len(self)))]
        cut = max(0, len(self._bulk) - count)
        taken = self._bulk[cut:]
        del self._bulk[cut:]
        taken.reverse()
        return taken

    def _bulk_leads(self) -> bool:
        """Is the bulk's first before all that was pushed? Of equals it is: it came first."""
        if not self._entries:
            return True
        if self._bulk_key is None:
            self._bulk_key = self._key(self._bulk[-1])
        return self._bulk_key <= self._least()

    def _tie(self, key: float, item: T) -> None:
        entry = self._entries[key]
        if not isinstance(entry, _Ties):
            entry = self._entries[key] = _Ties((entry,))
        entry.append(item)
        self._tied += 1

    def _untie(self, key: float, ties: _Ties[T]) -> T:
        item = ties.popleft()
        self._entries[key] = ties if len(ties) > 1 else ties[0]
        self._run.append(key)  # it was the least of all, and still is
        self._tied -= 1
        return item

    def _least(self) -> float:
        """The least key of what was pushed; there is one."""
        if self._fresh:
            self._settle()
        return min(self._run[-1:] + self._heap[:1])

    def _take_least(self) -> float:
        if self._fresh:
            self._settle()
        run, heap = self._run, self._heap
        return self._sift_out() if heap and not (run and run[-1] < heap[0]) else run.pop()

    def _settle(self) -> None:
        """Finds the fresh keys their place. Timsort finds the run in order and merges: O(n) beside what is new."""
        run, heap, fresh = self._run, self._heap, self._fresh
        if len(fresh) + len(heap) > max(_SHARE_MIN, len(run) // _SHARE):
            run += heap
            run += fresh
            run.sort(reverse=True)
            heap.clear()
        else:
            for key in fresh:
                self._sift_in(key)
        fresh.clear()

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
