"""Arrays spelt by hand mean what psycopg's own would: PostgreSQL reads each value back as it was."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from dilamme.store.arrays import number_array, text_array, time_array, uuid_array, word_array


def test_uuids() -> None:
    assert uuid_array([UUID(int=1), None]) == "{00000000000000000000000000000001,NULL}"


def test_numbers() -> None:
    assert number_array([1, None, -2]) == "{1,NULL,-2}"


def test_times() -> None:
    assert time_array([datetime(2026, 1, 2, tzinfo=UTC), None]) == '{"2026-01-02T00:00:00+00:00",NULL}'


@pytest.mark.parametrize(
    ("value", "spelt"),
    [
        ("plain", '"plain"'),
        ("", '""'),
        ("NULL", '"NULL"'),
        ('{"a": "b, c"}', r'"{\"a\": \"b, c\"}"'),
        ("back\\slash", r'"back\\slash"'),
        ('\\"', r'"\\\""'),
        (" spaces ", '" spaces "'),
    ],
)
def test_texts(value: str, spelt: str) -> None:
    assert text_array([value]) == f"{{{spelt}}}"


def test_words() -> None:
    assert word_array(["email.send", "null"]) == '{"email.send","null"}', "unquoted, null would be no text at all"


def test_nothing() -> None:
    assert text_array([]) == "{}"
    assert text_array([None]) == "{NULL}"
