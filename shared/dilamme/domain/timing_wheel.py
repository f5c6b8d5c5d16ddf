"""A timing wheel: items that fall due soon, for a loop that sleeps until then.

The scheduler reads from PostgreSQL the jobs that fall due before its next tick, puts them into a wheel, and wakes for them
on time. Inside a slot the items have no order: the heap decides which due job runs first. So an insertion is one division
and an append, and a slot that has passed is handed out as a whole, without a look at its items. (Varghese and Lauck,
"Hashed and hierarchical timing wheels", 1987.)

Items beyond the wheel's revolution wait beside it; they are put into slots when the hand comes round. The rival is their
other scheme, a count of rounds in every entry: it looks at each entry whenever the hand passes its slot.

An entry cannot be cancelled or found. PostgreSQL knows what is due, every tick reads it anew into a wheel of its own, and
the claim refuses a job that was cancelled meanwhile. An index by id would double the wheel's weight and halve its speed.
"""

from math import inf
from typing import Generic, TypeVar

T = TypeVar("T")


class _Slot(Generic[T]):
    """Two lists, not one of pairs: a slot that has passed is handed out whole, and no item needs a tuple."""

    __slots__ = ("dues", "items", "least")

    def __init__(self) -> None:
        self.dues: list[int] = []
        self.items: list[T] = []
        self.least: float = inf  # of the dues, so that a slot with nothing due is not searched


class TimingWheel(Generic[T]):
    """Items by the microsecond at which they fall due, which may be past, on a boundary, or revolutions ahead.

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
        """Adds an item; the next `advance` takes out one that is overdue."""
        slots = self._slots
        index = (due_us - self._start_us) // self._slot_us
        if index < self._hand:
            slot = slots[self._hand]
        elif index < len(slots):
            slot = slots[index]
        else:
            slot = self._later
        slot.dues.append(due_us)
        slot.items.append(item)
        if due_us < slot.least:  # noqa: PLR1730 - a call of min() for each insertion
            slot.least = due_us

    def advance(self, now_us: int) -> list[T]:
        """Takes out the items that are due at ``now_us``, in no order: none early, none twice.

        A clock that goes backwards does not move the hand. A jump forwards, however far, costs one revolution.
        """
        hand = max(self._hand, (now_us - self._start_us) // self._slot_us)
        due: list[T] = []
        for index in range(self._hand, min(hand, len(self._slots))):  # these lie wholly in the past
            due += self._slots[index].items
            self._slots[index] = _Slot()
        self._hand = hand
        if hand >= len(self._slots):  # a new revolution begins at the hand
            later, self._later = self._later, _Slot[T]()
            self._start_us += hand * self._slot_us
            self._hand = 0
            for due_us, item in zip(later.dues, later.items, strict=True):
                self.insert(due_us, item)
        slot = self._slots[self._hand]  # the one slot that can hold both: due items and others
        if slot.least <= now_us:
            due += [item for due_us, item in zip(slot.dues, slot.items, strict=True) if due_us <= now_us]
            slot.items = [item for due_us, item in zip(slot.dues, slot.items, strict=True) if due_us > now_us]
            slot.dues = [due_us for due_us in slot.dues if due_us > now_us]
            slot.least = min(slot.dues, default=inf)
        return due

    def next_due(self) -> int | None:
        """The earliest time, in microseconds, at which something is due; None if the wheel is empty."""
        for slot in (*self._slots[self._hand :], self._later):
            if slot.dues:
                return int(slot.least)
        return None
