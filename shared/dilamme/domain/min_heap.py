"""A min-heap for the scheduler's tick: what can run, most urgent first.

A tick rebuilds it from the heads of the lanes and takes the most urgent; now and then something is pushed in between.
Both are quick in pure Python because the work is split the way a *sequence heap* splits it (Sanders, "Fast priority
queues for cached memory", 2000): what comes in bulk is sorted by C, for a sorted list is a valid heap, and what trickles
in is sifted by us.

* `_fresh`: what was pushed since anyone looked. Only a look says which of the next two is cheaper.
* `_bulk`: the items of a rebuild, or of a burst of pushes, the most urgent last, where taking it costs nothing.
* What trickled in is known by its key: `_heap`, a binary heap of keys, overflows into `_run`, sorted keys, and
  `_entries` knows what each stands for. Moving a bare key is half the work of moving key and item in two lists.

The rivals, a textbook heap of tuples and `heapq`, are measured beside this one in ``benchmarks/heap_vs_wheel.py``.
"""

from collections import deque
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")

# The heap's share of the run before it overflows. An overflow costs a merge, in C; a larger heap costs deeper sifts, in
# Python. Between an eighth and a hundredth the sum is flat.
_SHARE = 16
_FEW = 32  # not worth a sort


class Key(Protocol):
    """What compares, and hashes: a number, a text, a tuple of such."""

    def __lt__(self, other: Any, /) -> bool: ...


class _Ties(deque[T]):
    """Two or more items that trickled in with the same key: they take one place, in order of arrival."""


class MinHeap(Generic[T]):
    """Items in ascending order of ``key(item)``, and of arrival where keys are equal.

    ``key`` gives what compares and hashes: a tuple, level by level, or a number, which is faster where items trickle in.
    It is asked at the first look after a push, and again as the item moves, so it must stay the same for as long as the
    heap holds the item. When keys change with time, as ageing does, make a heap for the new time, or `rebuild`.

    A push costs O(1), taking it out O(log n), amortised; a rebuild costs one sort, and taking what it brought costs
    nothing. Beyond the items, the heap weighs 8 bytes for each that came in bulk; about 62 for each that trickled in, with a
    number for its key.
    """

    __slots__ = ("_bulk", "_bulk_key", "_entries", "_fresh", "_heap", "_key", "_run", "_tied")

    def __init__(self, key: Callable[[T], Key]) -> None:
        self._key = key
        self._replace([])

    def _replace(self, bulk: list[T]) -> None:
        self._bulk = bulk
        self._bulk_key: Key | None = None  # of its last item, once asked for
        self._fresh: list[T] = []
        self._heap: list[Key] = []
        self._run: list[Key] = []  # descending
        self._entries: dict[Key, T | _Ties[T]] = {}
        self._tied = 0  # items beyond one per key

    def __len__(self) -> int:
        return len(self._bulk) + len(self._entries) + self._tied + len(self._fresh)

    def push(self, item: T) -> None:
        self._fresh.append(item)

    def rebuild(self, items: Iterable[T]) -> None:
        """Replaces what the heap holds by ``items``."""
        bulk = sorted(items, key=self._key)
        bulk.reverse()
        self._replace(bulk)

    def peek(self) -> T:
        """The most urgent item, which stays. IndexError if there is none."""
        self._settle()
        key = self._trickled()
        if key is not None:
            entry = self._entries[key]
            return entry[0] if isinstance(entry, _Ties) else entry
        if not self._bulk:
            raise IndexError("peek into an empty MinHeap")
        return self._bulk[-1]

    def pop(self) -> T:
        """Takes the most urgent item. IndexError if there is none."""
        if self._fresh:
            self._settle()
        key = self._trickled()
        if key is None:
            if not self._bulk:
                raise IndexError("pop from an empty MinHeap")
            self._bulk_key = None
            return self._bulk.pop()
        if self._run and self._run[-1] == key:
            self._run.pop()
        else:
            self._sift_out()
        entry = self._entries.pop(key)
        if not isinstance(entry, _Ties):
            return entry
        item = entry.popleft()
        self._entries[key] = entry if len(entry) > 1 else entry[0]
        self._run.append(key)  # it was the least of all, and still is
        self._tied -= 1
        return item

    def pop_many(self, count: int) -> list[T]:
        """Takes the ``count`` most urgent items, or all if there are fewer, in order."""
        self._settle()
        if self._entries:
            return [self.pop() for _ in range(min(count, len(self)))]
        cut = max(0, len(self._bulk) - count)
        taken = self._bulk[cut:]
        del self._bulk[cut:]
        taken.reverse()
        return taken

    def _trickled(self) -> Key | None:
        """The least key of what trickled in, if that comes before the bulk. Of equals the bulk's came first."""
        if not self._entries:
            return None
        run, heap = self._run, self._heap
        key = run[-1] if run and not (heap and heap[0] < run[-1]) else heap[0]
        if self._bulk:
            if self._bulk_key is None:
                self._bulk_key = self._key(self._bulk[-1])
            if not key < self._bulk_key:
                return None
        return key

    def _settle(self) -> None:
        """Finds what is fresh its place: a burst is sorted with all the rest, a trickle goes in by its keys."""
        if len(self._fresh) > max(_FEW, len(self) - len(self._fresh)):
            # Of equals, the one that came first comes first.
            trickled = (entry if isinstance(entry, _Ties) else (entry,) for entry in self._entries.values())
            self.rebuild(chain(reversed(self._bulk), chain.from_iterable(trickled), self._fresh))
        elif self._fresh:
            keys = list(map(self._key, self._fresh))
            self._place(self._enter(keys, self._fresh))
            self._fresh = []

    def _enter(self, keys: list[Key], items: list[T]) -> list[Key]:
        """The keys that are new here, and need a place; the others share one."""
        new: list[Key] = []
        entries = self._entries
        for key, item in zip(keys, items, strict=True):
            if key in entries:
                entry = entries[key]
                if not isinstance(entry, _Ties):
                    entry = entries[key] = _Ties((entry,))
                entry.append(item)
                self._tied += 1
            else:
                entries[key] = item
                new.append(key)
        return new

    def _place(self, keys: list[Key]) -> None:
        run, heap = self._run, self._heap
        if len(heap) + len(keys) > max(_FEW, len(run) // _SHARE):
            run += heap
            run += keys
            run.sort(reverse=True)  # Timsort finds the old run in order and merges: O(n) beside what is new
            heap.clear()
        else:
            before = len(heap)
            heap += keys
            self._rise(range(before, len(heap)))

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
            heap[hole] = key
            self._rise((hole,))

    def _rise(self, places: Iterable[int]) -> None:
        """Sifts up what stands at ``places``, one after the other: larger parents move down until it fits."""
        heap = self._heap
        for place in places:
            hole, key = place, heap[place]
            while hole:
                parent = (hole - 1) >> 1
                if heap[parent] < key:
                    break
                heap[hole] = heap[parent]
                hole = parent
            heap[hole] = key
