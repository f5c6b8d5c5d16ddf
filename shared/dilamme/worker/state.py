"""The state of a worker's loop.

                    nothing is left, and its slot is free
        DRAINING ─────────────────────────────────────────▶ LEAVING
            │                                                  │
            │  its time is up; a job does not fit into it;     │  a new connection finds
            │  a handler ran past its timeout; its slot        │  that the slot is lost
            │  was given to another                            │
            └────────────────────▶ RELIEVED ◀──────────────────┘

A worker that drains claims jobs. A leaving worker has nothing in hand, and ends. A relieved worker claims nothing more, with
work undone: it returns the jobs that have not started, settles the running ones, and in the end wakes a fresh worker.
"""

import threading
from enum import IntEnum


class Phase(IntEnum):
    """Phases in the order in which a worker can go through them."""

    DRAINING = 0
    LEAVING = 1
    RELIEVED = 2


class State:
    """The phase, which only ever grows.

    The loop's thread moves it, and so does a runner whose job does not fit: other runners must see that at once, or they
    would start jobs that stood behind it. Both compare and set under a lock: else a loop that is about to write LEAVING
    could undo a runner's RELIEVED, and nobody would be woken for the rest. Reading needs no lock: one attribute is read
    whole, and a reader that comes a moment too early starts one job more.

    Attributes:
        leaving: nothing more is to be claimed or started. Every job asks for it, so it is no property.
    """

    def __init__(self) -> None:
        self.phase = Phase.DRAINING
        self.leaving = False
        self._lock = threading.Lock()

    @property
    def relieved(self) -> bool:
        """Is a fresh worker to be woken for the rest?"""
        return self.phase is Phase.RELIEVED

    def leave(self) -> None:
        """Nothing is left to do."""
        self._reach(Phase.LEAVING)

    def relieve(self) -> None:
        """Work is left that this worker cannot do."""
        self._reach(Phase.RELIEVED)

    def _reach(self, phase: Phase) -> None:
        with self._lock:
            self.phase = max(self.phase, phase)
            self.leaving = True
