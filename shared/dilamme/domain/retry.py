"""When a failed attempt is tried again: exponential backoff, half of it fixed and half random.

"Equal jitter" of M. Brooker, *Exponential Backoff and Jitter* (AWS Architecture Blog, 2015): the fixed half keeps
pressure off what just failed, the random half spreads a thousand jobs that failed together. Full jitter spreads
wider but may retry at once.
"""

from dataclasses import dataclass

SECONDS_MAX = 100 * 365 * 86_400  # a century: what is added to a time, or taken from it, stays a time to PostgreSQL


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait, in seconds: ``base`` after the first failure, doubling, never over ``cap``."""

    base_seconds: float
    cap_seconds: float

    def delay_seconds(self, attempt: int, rand: float) -> float:
        """The wait after failed attempt ``attempt`` (from 1), for ``rand`` in [0, 1)."""
        # min() on the exponent: 2 ** 10_000 seconds overflow a float before the cap can help.
        whole = min(self.cap_seconds, self.base_seconds * 2.0 ** min(attempt - 1, 62))
        return whole / 2 + whole / 2 * rand
