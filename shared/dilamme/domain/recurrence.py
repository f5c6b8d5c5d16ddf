"""The grid of a recurring job: ``previous + n × interval``, the first slot in the future.

It counts from the previous slot. Counted from the end of the run, a nightly job would drift into the day. It skips to the
future: else an outage of two hours would be followed by twenty-four runs of a job that recurs every five minutes.
"""

from datetime import datetime, timedelta


def next_slot(previous: datetime, interval_seconds: int, now: datetime) -> datetime | None:
    """The first time on the grid that lies after both ``previous`` and ``now``; None past the year 9999, where datetime ends.

    The grid is counted in elapsed seconds (UTC), so by a clock with summer time it shifts twice a year.
    """
    interval = timedelta(seconds=interval_seconds)
    behind = max(timedelta(0), now - previous)
    try:
        return previous + (behind // interval + 1) * interval
    except OverflowError:
        return None
