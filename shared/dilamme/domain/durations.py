"""The durations of jobs, as one worker has seen them: they size its claims, and say whether a job still fits its time."""

from collections import deque
from collections.abc import Iterable

UNSEEN_SECONDS = 1.0  # before any job was timed, jobs count as slow, so that the first claims are small
_RECENT = 64
_SAMPLES_MIN = 20
_SAMPLES_MAX = 128


class Durations:
    """Durations in seconds, of recent jobs whatever their type, and by type."""

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self._by_type: dict[str, deque[float]] = {}
        self._high: dict[str, float] = {}

    def record(self, timed: Iterable[tuple[str, float]]) -> None:
        """Adds (type, seconds) pairs."""
        fresh: dict[str, list[float]] = {}
        for type_, seconds in timed:
            fresh.setdefault(type_, []).append(seconds)
        for type_, durations in fresh.items():
            self._recent.extend(durations)
            samples = self._by_type.setdefault(type_, deque(maxlen=_SAMPLES_MAX))
            samples.extend(durations)
            if len(samples) >= _SAMPLES_MIN:
                self._high[type_] = max(samples)

    @property
    def typical_seconds(self) -> float:
        """The mean of the most recent jobs."""
        return sum(self._recent) / len(self._recent) if self._recent else UNSEEN_SECONDS

    def high_seconds(self, type_: str) -> float | None:
        """A duration that few jobs of a type exceed, in seconds; None while too few were seen.

        It is the largest of the last 128: an estimate of the 99th percentile that errs on the safe side.
        """
        return self._high.get(type_)

    def batch_size(self, runners: int, wait_seconds: float, limit: int) -> int:
        """The number of jobs that keep ``runners`` busy for half of ``wait_seconds``; at least one each, at most ``limit``."""
        return min(limit, max(runners, int(runners * wait_seconds / 2 / max(self.typical_seconds, 1e-6))))
