"""The environment variables that this process was started with.

Users' modules may set variables for their own clients: DATABASE_URL, PG*, AWS_*. Theirs stay as they set them. Ours go on
with what a deployment gave: a worker that logged in elsewhere would settle jobs in another database.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

_OF_BOTO3 = re.compile(r"AWS_|.*PROXY$", re.IGNORECASE)

_kept: Mapping[str, str] | None = None


def keep() -> None:
    """From now on `variables` are those of this moment, whatever users' code does to them."""
    global _kept  # noqa: PLW0603
    _kept = dict(os.environ)


def variables() -> Mapping[str, str]:
    """The variables that count: the kept ones, or the process's own if none were kept."""
    return os.environ if _kept is None else _kept


def boto3_is_misled() -> bool:
    """Have variables changed that boto3 reads when it makes a client?"""
    return bool(_changed())


@contextmanager
def as_kept() -> Iterator[None]:
    """Puts the variables that boto3 reads back to what they were, while a client is made."""
    changed = _changed()
    theirs = {name: os.environ.get(name) for name in changed}
    try:
        _put({name: variables().get(name) for name in changed})
        yield
    finally:
        _put(theirs)


def _changed() -> list[str]:
    kept = variables()
    names = {*kept, *os.environ} if kept is not os.environ else ()
    return [name for name in names if _OF_BOTO3.match(name) and kept.get(name) != os.environ.get(name)]


def _put(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
