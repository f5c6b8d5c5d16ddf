"""Arrays spelt by hand mean what psycopg's own would: PostgreSQL reads each value back as it was."""

from datetime import UTC, datetime

import pytest

from dilamme.store.arrays import TextArray, number_array, sparse_array, text_array, word_array


def test_numbers() -> None:
    assert number_array([1, -2]) == "{1,-2}"


def test_sparse_ones() -> None:
    times = [datetime(2026, 1, 2, tzinfo=UTC), None]
    assert sparse_array(times, datetime.isoformat) == TextArray(["2026-01-02T00:00:00+00:00", None])
    assert sparse_array([None, 3]) == TextArray([None, "3"])
    assert sparse_array([None, None]) == "{}"


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


def test_texts_of_several_lines() -> None:
    assert text_array(["a", 'b"']) == r'{"a","b\""}'
    assert text_array(["a\nb", "c"]) == '{"a\nb","c"}'
    assert text_array([""]) == '{""}'


def test_words() -> None:
    assert word_array(["email.send", "null"]) == '{"email.send","null"}', "unquoted, null would be no text at all"


def test_nothing() -> None:
    assert text_array([]) == number_array([]) == sparse_array([]) == "{}"
