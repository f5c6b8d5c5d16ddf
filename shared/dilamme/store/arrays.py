"""Arrays for PostgreSQL, made by hand for hundreds of values: psycopg's own dumper looks at each by itself."""

from collections.abc import Callable, Collection, Iterable, Sequence
from struct import pack
from typing import Self, TypeVar
from uuid import UUID

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

T = TypeVar("T")
_UUID = psycopg.adapters.types["uuid"]


class UuidArray(bytes):
    """A ``uuid[]`` in PostgreSQL's binary format (``array_recv``), which it reads faster than the text.

    Only for our own cursors (`dilamme.store.connection.cursor`), which know the dumper for it.
    """

    def __new__(cls, values: Collection[UUID]) -> Self:
        """Of one dimension, from place 1 on, without NULLs; before each value stands its length."""
        head = pack("!5I", 1, 0, _UUID.oid, len(values), 1)
        return super().__new__(cls, head + b"".join([b"\0\0\0\x10" + value.int.to_bytes(16) for value in values]))


class UuidArrayDumper(Dumper):
    """Hands it over as it is."""

    format = Format.BINARY
    oid = _UUID.array_oid

    def dump(self, obj: UuidArray) -> bytes:
        return obj


def number_array(values: Iterable[int]) -> str:
    """An array of integers."""
    return _array(map(str, values))


def word_array(values: Iterable[str]) -> str:
    """A ``text[]`` of texts that hold neither quotes nor backslashes, such as names of types and statuses."""
    return _array([f'"{value}"' for value in values])


def text_array(values: Sequence[str]) -> str:
    """A ``text[]``, or an array of anything that is given by its text."""
    # Quoted all at once where none of them holds what they are joined by: JSON does not, where it is not pretty.
    joined = "\n".join(values)
    if joined.count("\n") >= len(values):
        return _array([_quoted(value) for value in values])
    return _array([_quoted(joined).replace("\n", '","')] if values else ())


def sparse_array(values: Sequence[T | None], spell: Callable[[T], str] = str) -> str:
    """An array of anything, by its text, for an ``unnest`` beside fuller ones: that fills a shorter one up with NULL, so
    of None alone it is empty.
    """
    if values.count(None) == len(values):
        return _array(())
    return _array(["NULL" if value is None else _quoted(spell(value)) for value in values])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _array(texts: Iterable[str]) -> str:
    return "{" + ",".join(texts) + "}"
