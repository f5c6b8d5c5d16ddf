"""Arrays for PostgreSQL, made by hand since they have hundreds of values: psycopg's dumper adapts each one by itself."""

from collections.abc import Callable, Collection, Iterable, Sequence
from struct import pack
from typing import Self, TypeVar
from uuid import UUID

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

T = TypeVar("T")
_UUID = psycopg.adapters.types["uuid"]
_TEXT = psycopg.adapters.types["text"]
_NULL = b"\xff\xff\xff\xff"


class UuidArray(bytes):
    """A ``uuid[]`` in PostgreSQL's binary format (``array_recv``), which PostgreSQL reads faster than text.

    Only our own cursors (`dilamme.store.connection.cursor`) have the dumper for it.
    """

    def __new__(cls, values: Collection[UUID]) -> Self:
        """One dimension, the first index 1, no NULLs; each value comes after its length."""
        head = pack("!5I", 1, 0, _UUID.oid, len(values), 1)
        return super().__new__(cls, head + b"".join([b"\0\0\0\x10" + value.int.to_bytes(16) for value in values]))


class TextArray(bytes):
    """A ``text[]`` in binary, for values that may be NULL: with ``array_nulls`` off the word in a text array is a text.

    A setting of the database or of a caller's session may say so.
    """

    def __new__(cls, values: Collection[str | None]) -> Self:
        """One dimension, the first index 1; each value comes after its length, which is -1 for NULL."""
        head = pack("!5I", 1, 1, _TEXT.oid, len(values), 1)
        texts = [None if value is None else value.encode() for value in values]
        parts = [_NULL if text is None else len(text).to_bytes(4) + text for text in texts]
        return super().__new__(cls, head + b"".join(parts))


class UuidArrayDumper(Dumper):
    """Sends it unchanged."""

    format = Format.BINARY
    oid = _UUID.array_oid

    def dump(self, obj: bytes) -> bytes:
        return obj


class TextArrayDumper(UuidArrayDumper):
    """The same."""

    oid = _TEXT.array_oid


def number_array(values: Iterable[int]) -> str:
    """An array of integers."""
    return _array(map(str, values))


def word_array(values: Iterable[str]) -> str:
    """A ``text[]`` of texts without quotes and backslashes, such as names of types and statuses."""
    return _array([f'"{value}"' for value in values])


def text_array(values: Sequence[str]) -> str:
    """A ``text[]``, or an array of another type whose values are given as text."""
    # Quoted all at once, unless a text contains the separator. JSON without indentation does not.
    joined = "\n".join(values)
    if joined.count("\n") >= len(values):
        return _array([_quoted(value) for value in values])
    return _array([_quoted(joined).replace("\n", '","')] if values else ())


def sparse_array(values: Sequence[T | None], spell: Callable[[T], str] = str) -> str | TextArray:
    """An array of values given as text, for an ``unnest`` beside longer arrays; it is empty if all values are None.

    ``unnest`` fills a shorter array up with NULL, so the NULLs need not be sent.
    """
    if values.count(None) == len(values):
        return _array(())
    return TextArray([None if value is None else spell(value) for value in values])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _array(texts: Iterable[str]) -> str:
    return "{" + ",".join(texts) + "}"
