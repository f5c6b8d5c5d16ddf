"""A timing wheel: what falls due soon, for a loop that sleeps until then.

The scheduler reads from PostgreSQL what falls due before its next tick, lays it into a wheel, and wakes for it on time.
Inside a slot nothing is in order: who runs first is the heap's question, asked when they are due. So an insertion is
one division and an append, and a slot that has passed is handed out as a whole, without a look at what is in it.
(Varghese and Lauck, "Hashed and hierarchical timing wheels", 1987.)

What lies beyond the wheel's revolution waits beside it and is dealt into the slots when the hand comes round; their
other scheme, a count of rounds in every entry, would look at each of them on every passing of its slot.

There is no way to cancel or to find an entry. PostgreSQL knows what is due, every tick reads it anew into a wheel of
its own, and a job that was cancelled meanwhile is refused by the claim; an index by id would double the wheel's
weight and halve its speed for nothing.
"""

from math import inf
from typing import Generic, TypeVar

T = TypeVar("T")


class _Slot(Generic[T]):
    """Side by side, not in pairs: a slot that has passed is then handed out whole, and each item is spared a tuple."""

    __slots__ = ("dues", "items", "least")

    def __init__(self) -> None:
        self.dues: list[int] = []
        self.items: list[T] = []
        self.least: float = inf  # of the dues, so that a look at what is not due yet costs nothing


class TimingWheel(Generic[T]):
    """Items by the microsecond at which they fall due. Any time will do: past, on a boundary, revolutions ahead.

    ``slots`` slots of ``slot_us`` microseconds make a revolution, the first of which begins at ``start_us``.
    Times are whole microseconds since any one epoch. ValueError if there is no slot, or if slots have no width.
    """

    __slots__ = ("_hand", "_later", "_slot_us", "_slots", "_start_us")

    def __init__(self, slot_us: int, slots: int, start_us: int) -> None:
        if slot_us < 1 or slots < 1:
            raise ValueError("a timing wheel needs a slot, and a slot a microsecond")
        self._slot_us = slot_us
        self._slots = [_Slot[T]() for _ in range(slots)]
        self._later = _Slot[T]()  # beyond this revolution
        self._start_us = start_us  # of this revolution
        self._hand = 0  # every slot before this one has been handed out

    def __len__(self) -> int:
        return sum(len(slot.items) for slot in (*self._slots, self._later))

    def insert(self, due_us: int, item: T) -> None:
        """Adds an item; one that is overdue comes with the next `advance`."""
        slots = self._slots
        place = (due_us - self._start_us) // self._slot_us
        if place < self._hand:
            slot = slots[self._hand]
        elif place < len(slots):
            slot = slots[place]
        else:
            slot = self._later
        slot.dues.append(due_us)
        slot.items.append(item)
        if due_us < slot.least:  # noqa: PLR1730 - a call of min() for each insertion
            slot.least = due_us

    def advance(self, now_us: int) -> list[T]:
        """Takes out what is due at ``now_us``: nothing early, nothing twice, in no order.

        A clock that goes backwards moves no hand. A jump ahead, however far, costs one revolution.
        """
        hand = max(self._hand, (now_us - self._start_us) // self._slot_us)
        due = self._sweep(hand)
        if hand >= len(self._slots):
            self._turn(hand)
        due += self._split(now_us)
        return due

    def next_due(self) -> int | None:
        """The earliest time, in microseconds, at which something is due; None if the wheel is empty."""
        for slot in (*self._slots[self._hand :], self._later):
            if slot.dues:
                return int(slot.least)
        return None

    def _sweep(self, hand: int) -> list[T]:
        """Moves the hand. The slots that it leaves behind lie wholly in the past."""
        due: list[T] = []
        for place in range(self._hand, min(hand, len(self._slots))):
            due += self._slots[place].items
            self._slots[place] = _Slot()
        self._hand = hand
        return due

    def _turn(self, hand: int) -> None:
        """Begins a revolution at the hand, and deals out what it reaches."""
        later, self._later = self._later, _Slot[T]()
        self._start_us += hand * self._slot_us
        self._hand = 0
        for due_us, item in zip(later.dues, later.items, strict=True):
            self.insert(due_us, item)

    def _split(self, now_us: int) -> list[T]:
        """Takes what is due out of the hand's slot: the one slot that can hold both."""
        slot = self._slots[self._hand]
        if slot.least > now_us:
            return []
        due = [item for due_us, item in zip(slot.dues, slot.items, strict=True) if due_us <= now_us]
        slot.items = [item for due_us, item in zip(slot.dues, slot.items, strict=True) if due_us > now_us]
        slot.dues = [due_us for due_us in slot.dues if due_us > now_us]
        slot.least = min(slot.dues, default=inf)
        return due
