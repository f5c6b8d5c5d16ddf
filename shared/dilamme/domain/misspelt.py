"""The name that was probably meant by one that is not known."""

from collections.abc import Iterable

HINTS_MAX = 10  # of a request; a batch has room for half a million misspelt fields


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that was probably meant, or an empty string."""
    if len(name) > 100:
        return ""
    import difflib  # noqa: PLC0415  it costs milliseconds of a cold start, and such a slip is rare

    return next(iter(difflib.get_close_matches(name, list(dict.fromkeys(known)), n=1)), "")
