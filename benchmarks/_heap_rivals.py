"""The contestants of `heap_vs_wheel`: the same jobs in and out of each structure."""

import heapq
import importlib.util
import json
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self, cast
from uuid import UUID

from dilamme.domain.min_heap import MinHeap
from dilamme.domain.timing_wheel import TimingWheel

NOW_US = 1_767_225_600_000_000  # 2026-01-01
AGEING_US = 30_000_000
# A revolution of 134 s, over which the jobs fall due evenly: the wheel at its best.
SLOT_US = 2**19
SLOTS = 256


@dataclass(frozen=True, slots=True)
class Job:
    """A job as the scheduler's queries could give it, times in whole microseconds."""

    id: UUID
    priority: int
    ready_us: int
    created_us: int
    due_us: int  # for the wheel: as far ahead as `ready_us` lies back


def make_jobs(count: int, batch: int = 1) -> list[Job]:
    """Jobs in the order of their creation, ready at random in the last 134 s, ``batch`` at a time at one instant.

    Reproducible, and in small integers, so that ``node/heap_vs_wheel.mjs`` makes the very same ones.
    """
    random = _random()
    jobs: list[Job] = []
    for number in range(count):
        if number % batch == 0:
            wait_us = next(random) >> 5
            created_us = NOW_US - 2**28 + number * 2**27 // count
        job_id = UUID(int=number << 64 | next(random))
        jobs.append(Job(job_id, 1 + (next(random) >> 16) % 3, NOW_US - wait_us, created_us, NOW_US + wait_us))
    return jobs


def _random() -> Iterator[int]:
    """32 bits at a time (the generator of Numerical Recipes)."""
    state = 1
    while True:
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        yield state


def by_ready(jobs: Iterable[Job]) -> list[Job]:
    """As a query gives the lanes' heads in the order of (ready, created, id)."""
    return sorted(jobs, key=lambda job: job.ready_us)


# Ageing, reckoned the quick way in every rival: what has waited for two steps is at the top.
_TOP_US = 2 * AGEING_US


def levels(job: Job) -> tuple[int, int, int, UUID, Job]:
    """The comparator as the textbook has it: a tuple, level by level."""
    wait_us = NOW_US - job.ready_us
    effective = 1 if wait_us >= _TOP_US else (1, 1, 2, 3)[job.priority - wait_us // AGEING_US]
    return (effective, job.ready_us, job.created_us, job.id, job)


# 2 ** 51 µs are more than any wait for 71 years, and three times as much leaves a float exact.
_LEVELS = tuple(level * 2.0**51 for level in (1, 1, 2, 3))


def urgency(job: Job) -> float:
    """The comparator's first two levels as one exact number; the others are the order of arrival."""
    wait_us = NOW_US - job.ready_us
    if wait_us >= _TOP_US:
        return _LEVELS[1] - wait_us
    return _LEVELS[job.priority - wait_us // AGEING_US] - wait_us


def packed(job: Job) -> int:
    """All four levels as one integer of 254 bits."""
    return ((levels(job)[0] << 62 | job.ready_us) << 62 | job.created_us) << 128 | job.id.int


class TextbookHeap:
    """The binary heap of the textbooks: append and swap upwards; move the last to the root and swap downwards."""

    def __init__(self) -> None:
        self._entries: list[Any] = []

    def __len__(self) -> int:
        return len(self._entries)

    def push(self, entry: Any) -> None:
        self._entries.append(entry)
        self._sift_up(len(self._entries) - 1)

    def pop(self) -> Any:
        entries = self._entries
        top, last = entries[0], entries.pop()
        if entries:
            entries[0] = last
            self._sift_down(0)
        return top

    def _sift_up(self, index: int) -> None:
        entries = self._entries
        while index > 0:
            parent = (index - 1) // 2
            if not entries[index] < entries[parent]:
                break
            entries[index], entries[parent] = entries[parent], entries[index]
            index = parent

    def _sift_down(self, index: int) -> None:
        entries, count = self._entries, len(self._entries)
        while True:
            left, right, least = 2 * index + 1, 2 * index + 2, index
            if left < count and entries[left] < entries[least]:
                least = left
            if right < count and entries[right] < entries[least]:
                least = right
            if least == index:
                break
            entries[index], entries[least] = entries[least], entries[index]
            index = least


class NeverSorting(MinHeap[Job]):
    """`MinHeap` with its own sifts alone, push by push: what the heap in it does without the help of C's sort."""

    __slots__ = ()

    def push(self, item: Job) -> None:
        key = self._key(item)
        if key in self._entries:
            self._tie(key, item)
        else:
            self._entries[key] = item
            self._heap.append(key)
            self._rise((len(self._heap) - 1,))


@dataclass(frozen=True, slots=True)
class Structure:
    """How it is made, filled one by one, and emptied one by one. The loops stand in each: a call would count."""

    make: Callable[[], Any]
    put: Callable[[Any, Iterable[Job]], None]
    take: Callable[[Any, int], list[Job]]


def _put_ours(heap: MinHeap[Job], jobs: Iterable[Job]) -> None:
    for job in jobs:
        heap.push(job)


def _take_ours(heap: MinHeap[Job], count: int) -> list[Job]:
    return [heap.pop() for _ in range(count)]


def _put_textbook(heap: TextbookHeap, jobs: Iterable[Job]) -> None:
    for job in jobs:
        heap.push(levels(job))


def _take_textbook(heap: TextbookHeap, count: int) -> list[Job]:
    return [heap.pop()[-1] for _ in range(count)]


def _put_heapq(heap: list[Any], jobs: Iterable[Job]) -> None:
    for job in jobs:
        heapq.heappush(heap, levels(job))


def _take_heapq(heap: list[Any], count: int) -> list[Job]:
    return [heapq.heappop(heap)[-1] for _ in range(count)]


def _put_sorted_list(entries: Any, jobs: Iterable[Job]) -> None:
    for job in jobs:
        entries.add(levels(job))


def _take_sorted_list(entries: Any, count: int) -> list[Job]:
    return [entries.pop(0)[-1] for _ in range(count)]


def _put_wheel(wheel: TimingWheel[Job], jobs: Iterable[Job]) -> None:
    for job in jobs:
        wheel.insert(job.due_us, job)


def _take_wheel(wheel: TimingWheel[Job], count: int) -> list[Job]:
    """Slot by slot, as the hand goes round, until all are out."""
    due: list[Job] = []
    now_us = NOW_US
    while len(due) < count:
        now_us += SLOT_US
        due += wheel.advance(now_us)
    return due


OURS = "MinHeap"
TEXTBOOK = "textbook heap"
HEAPQ = "heapq (C)"
WHEEL = "TimingWheel"


def structures() -> dict[str, Structure]:
    """All, by name; `SortedList` where sortedcontainers is installed."""
    found = {
        OURS: Structure(lambda: MinHeap(urgency), _put_ours, _take_ours),
        "MinHeap, never sorting": Structure(lambda: NeverSorting(urgency), _put_ours, _take_ours),
        TEXTBOOK: Structure(TextbookHeap, _put_textbook, _take_textbook),
        HEAPQ: Structure(list, _put_heapq, _take_heapq),
        WHEEL: Structure(lambda: TimingWheel(SLOT_US, SLOTS, NOW_US), _put_wheel, _take_wheel),
    }
    if importlib.util.find_spec("sortedcontainers"):
        sorted_list = importlib.import_module("sortedcontainers").SortedList
        found["SortedList"] = Structure(sorted_list, _put_sorted_list, _take_sorted_list)
    return found


class Node:
    """The renditions in ``node/heap_vs_wheel.mjs``, in one process that lives on, so that they are warm."""

    def __init__(self) -> None:
        script = Path(__file__).parent / "node" / "heap_vs_wheel.mjs"
        self._process = subprocess.Popen(
            ["node", "--expose-gc", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, **request: object) -> dict[str, float]:
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer: dict[str, float] = json.loads(cast("IO[str]", self._process.stdout).readline())
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def checksum(jobs: Iterable[Job]) -> int:
    """Of an order: the same on both sides exactly if the jobs left in the same order."""
    total = 0
    for job in jobs:
        total = (total * 31 + (job.id.int >> 64)) & 0xFFFFFFFF
    return total
