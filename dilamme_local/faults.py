"""What tests inject, because AWS does it too, seldom and never when one looks: loss, doubling, delay, refusal.

A fault is armed for a number of occasions and is spent by each. Those of the clock go by the name ``clock``. A report
about a lost invocation is an event of its OnFailure function: to lose, double or delay it, arm the fault there.
"""

import threading
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    LOSE = "lose"  # an event is accepted and never runs; the clock does not trigger
    DOUBLE = "double"  # it runs twice, in parallel
    DELAY = "delay"  # it runs `seconds` later; the clock triggers late
    THROTTLE = "throttle"  # Invoke answers 429, nothing runs
    FAIL = "fail"  # Invoke answers 500, nothing runs
    HANG = "hang"  # Invoke does not answer for `seconds`, nothing runs
    MUTE = "mute"  # as HANG, but the event is accepted and runs


@dataclass
class Fault:
    """``name``: a function, or ``clock``. ``times``: how often it strikes; None is always. ``seconds``: of DELAY, HANG, MUTE.

    Raises:
        ValueError: there is no such kind.
    """

    name: str
    kind: Kind
    times: int | None = 1
    seconds: float = 60

    def __post_init__(self) -> None:
        self.kind = Kind(self.kind)


class Faults:
    """The armed faults, first in first out; safe for use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._armed: list[Fault] = []

    def arm(self, fault: Fault) -> None:
        with self._lock:
            self._armed.append(fault)

    def clear(self) -> None:
        with self._lock:
            self._armed.clear()

    def armed(self) -> list[Fault]:
        """What has not struck as often as it should."""
        with self._lock:
            return list(self._armed)

    def strike(self, name: str, *kinds: Kind) -> Fault | None:
        """Spends one occasion of the first armed fault of these kinds, if there is one."""
        with self._lock:
            for fault in self._armed:
                if fault.name == name and fault.kind in kinds:
                    self._spend(fault)
                    return fault
        return None

    def _spend(self, fault: Fault) -> None:
        if fault.times is not None:
            fault.times -= 1
            if fault.times <= 0:
                self._armed.remove(fault)
