"""Who may talk to the servers of a local stack: programs of this machine, and pages that this machine served.

A browser takes every page's requests to loopback. Without an answer that the page may read, but they arrive: a form, or a
fetch without a content type, may store jobs and invoke functions. And a page whose name was bound anew to 127.0.0.1 ("DNS
rebinding") may read the answers too. What gives them away a page cannot change: ``Host``, ``Origin``, ``Sec-Fetch-Site``.
"""

import ipaddress
from collections.abc import Callable
from urllib.parse import urlsplit


def refusal(method: str, header: Callable[[str], str | None]) -> str | None:
    """A sentence to refuse a request with, or None; ``header`` gives the value of a header, None without it.

    Programs send no ``Origin``, and may leave ``Host`` out. A link that somebody follows, to /docs for one, is let through.
    """
    host, origin = header("Host"), header("Origin")
    if host is not None and not _is_here(f"//{host}"):
        return (
            f"this stack answers this machine alone, and not the name {host[:100]!a}: call it by localhost or 127.0.0.1"
        )
    if origin is not None and not _is_here(origin):
        return f"this stack answers pages of this machine alone, and not of the origin {origin[:100]!a}"
    followed = method in ("GET", "HEAD") and header("Sec-Fetch-Mode") == "navigate"
    if header("Sec-Fetch-Site") == "cross-site" and not followed:
        return "this stack answers pages of this machine alone, and a page of another site sent this"
    return None


def _is_here(url: str) -> bool:
    try:
        name = urlsplit(url).hostname or ""
        return name == "localhost" or name.endswith(".localhost") or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
