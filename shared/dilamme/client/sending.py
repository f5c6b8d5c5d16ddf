"""What both clients do about an address, an answer and a silence."""

from typing import Any

import httpx

from dilamme.client.calls import PAUSES_SECONDS, RETRIED, Call
from dilamme.client.problems import Unreachable
from dilamme.domain.errors import ConfigurationError


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
