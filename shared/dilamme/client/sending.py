"""What both clients do about an address, an answer and a silence."""

import time
from typing import Any

import httpx

from dilamme.client.calls import PAUSES_SECONDS, RETRIED, Call
from dilamme.client.problems import Unreachable
from dilamme.domain.errors import ConfigurationError
from dilamme.domain.job import TERMINAL
from dilamme.wire.answers import JobView

POLL_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


def address(url: str) -> httpx.URL:
    """The address of an API.

    Raises:
        ConfigurationError: it is none.
    """
    try:
        found = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ConfigurationError(f"{url!r} is no address: {error}") from None
    if found.scheme not in {"http", "https"} or not found.host:
        raise ConfigurationError(f"{url!r} is no address of an API: it begins with http:// or https://")
    return found


def pause_before(call: Call[Any], tried: int, response: httpx.Response | None) -> float | None:
    """The seconds before another try; None if there is to be none."""
    if tried >= len(PAUSES_SECONDS) or not call.repeatable:
        return None
    if response is None:
        return PAUSES_SECONDS[tried]
    if response.status_code not in RETRIED:
        return None
    after = response.headers.get("retry-after", "")
    return max(PAUSES_SECONDS[tried], min(float(after), 10.0) if after.isdigit() else 0.0)


def silence(url: httpx.URL, error: httpx.HTTPError) -> Unreachable:
    """The error of a call that nobody answered."""
    return Unreachable(f"{url} does not answer: {str(error) or type(error).__name__}")


class Patience:
    """How long a client waits for a job's end, and how long before each look."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ends_by = time.monotonic() + seconds
        self._looks = 0

    def pause_before_next_look(self, job: JobView) -> float | None:
        """The seconds until the next look; None if the job has ended.

        Raises:
            TimeoutError: it has not, and the time is over.
        """
        if job.status in TERMINAL:
            return None
        if (left := self._ends_by - time.monotonic()) <= 0:
            raise TimeoutError(f"job {job.id} is still {job.status} after {self._seconds:g} s")
        pause = POLL_SECONDS[min(self._looks, len(POLL_SECONDS) - 1)]
        self._looks += 1
        return min(left, pause)
