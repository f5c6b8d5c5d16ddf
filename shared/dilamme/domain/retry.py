"""The wait before a retry: exponential backoff, half of it fixed and half random.

This is "equal jitter" of M. Brooker, *Exponential Backoff and Jitter* (AWS Architecture Blog, 2015). The fixed half gives a
failing service time to recover; the random half spreads a thousand jobs that failed together. The rival, full jitter,
spreads wider, but may retry at once.
"""

from dataclasses import dataclass

SECONDS_MAX = 100 * 365 * 86_400  # a century: more, added to a time, could leave PostgreSQL's range


@dataclass(frozen=True, slots=True)
class Backoff:
    """The wait in seconds: ``base_seconds`` after the first failure, then doubled each time, up to ``cap_seconds``."""

    base_seconds: float
    cap_seconds: float

    def delay_seconds(self, attempt: int, rand: float) -> float:
        """The wait after failed attempt ``attempt`` (from 1), for ``rand`` in [0, 1)."""
        # min() on the exponent: 2 ** 10_000 seconds overflow a float before the cap can help.
        whole = min(self.cap_seconds, self.base_seconds * 2.0 ** min(attempt - 1, 62))
        return whole / 2 + whole / 2 * rand
