"""The grid of a recurring job: ``previous + n × interval``, the first slot in the future.

Counting from the previous slot, not from when the run ended, keeps a nightly job nightly; skipping to the future
makes an outage of two hours one late run, not twenty-four.
"""

from datetime import datetime, timedelta


def next_slot(previous: datetime, interval_seconds: int, now: datetime) -> datetime:
    """The first time on the grid that lies after both ``previous`` and ``now``.

    The grid is counted in elapsed seconds (UTC), so a wall clock with summer time sees a shift twice a year.
    """
    interval = timedelta(seconds=interval_seconds)
    behind = max(timedelta(0), now - previous)
    return previous + (behind // interval + 1) * interval
