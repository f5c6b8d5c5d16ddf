"""PostgreSQL's text for arrays, made by hand for hundreds of values: psycopg's dumper looks at each by itself."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID


def uuid_array(values: Iterable[UUID | None]) -> str:
    """A ``uuid[]``."""
    return _array(["NULL" if value is None else f"{value.int:032x}" for value in values])  # `hex`, without its detour


def number_array(values: Iterable[int | None]) -> str:
    """An array of integers."""
    return _array(["NULL" if value is None else str(value) for value in values])


def time_array(values: Iterable[datetime | None]) -> str:
    """A ``timestamptz[]``."""
    return _array(["NULL" if value is None else f'"{value.isoformat()}"' for value in values])


def word_array(values: Iterable[str]) -> str:
    """A ``text[]`` of texts that hold neither quotes nor backslashes, such as names of types and statuses."""
    return _array([f'"{value}"' for value in values])


def text_array(values: Iterable[str | None]) -> str:
    """A ``text[]``, or an array of anything that is given by its text."""
    return _array(["NULL" if value is None else _quoted(value) for value in values])


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _array(texts: list[str]) -> str:
    return "{" + ",".join(texts) + "}"
