"""JSON as a caller sends it, where what two readers could read differently is refused, and as PostgreSQL keeps it."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dilamme.domain.errors import InvalidInput
from dilamme.wire.strict_json import Malformed, loads, loads_kept
from tests.unit.strategies import json_values


@given(json_values)
def test_what_is_json_is_read_as_it_is(value: Any) -> None:
    assert loads(json.dumps(value)) == value


@pytest.mark.parametrize("text", ["", " ", "{", "[1,]", "{'a': 1}", "01", "tru", '"\n"', "1 2", "\ufeff{}", '{"a" 1}'])
def test_what_is_not_json_is_malformed_and_says_where(text: str) -> None:
    with pytest.raises(Malformed, match=r"is not JSON: .* at line \d+, column \d+") as refused:
        loads(text)
    assert refused.value.status == 400


@pytest.mark.parametrize("name", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_none_are_malformed(name: str) -> None:
    with pytest.raises(Malformed, match=f"{name} is no JSON value"):
        loads(f'{{"a": [{name}]}}')


@pytest.mark.parametrize("text", ['{"a": 1, "a": 1}', '[{"b": 0, "a": 1, "a": 2}]', '{"a": 1, "\\u0061": 2}'])
def test_a_name_that_occurs_twice_in_one_object_is_refused_by_name(text: str) -> None:
    with pytest.raises(Malformed, match="the name 'a' occurs twice"):
        loads(text)


def test_the_same_name_in_two_objects_is_no_double() -> None:
    assert loads('[{"a": 1}, {"a": {"a": 2}}]') == [{"a": 1}, {"a": {"a": 2}}]


def test_a_doubled_name_is_told_shortened_and_in_ascii() -> None:
    name = "\ud800" + "ä" * 10_000
    text = json.dumps({name: 1})
    with pytest.raises(Malformed) as refused:
        loads(f"{text[:-1]}, {text[1:]}")
    assert len(str(refused.value)) < 1000
    assert str(refused.value).isascii()


@pytest.mark.parametrize("text", ["[" * 100_000 + "]" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000])
def test_what_is_nested_too_deeply_to_be_read_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="nested too deeply"):
        loads(text)


def test_a_number_of_thousands_of_digits_is_refused() -> None:
    with pytest.raises(InvalidInput, match="thousands of digits"):
        loads("[" + "9" * 5_000 + "]")


@given(st.one_of(json_values, st.lists(st.integers(-(10**40), 10**40)), st.floats(1e16, 1e308)))
def test_what_postgresql_keeps_is_written_as_the_value_that_it_is(value: Any) -> None:
    assert decimals(json.dumps(loads_kept(as_kept(value)))) == decimals(as_kept(value))


@given(st.lists(st.one_of(st.integers(-(10**40), 10**40), st.floats(allow_nan=False, allow_infinity=False))))
def test_what_postgresql_keeps_does_not_grow_by_being_read(value: Any) -> None:
    assert len(json.dumps(loads_kept(as_kept(value)))) <= max(len(as_kept(value)), len(json.dumps(value)))


@given(st.floats(1e40, 1.7e308))
def test_a_great_number_that_postgresql_wrote_out_is_as_short_as_it_came(number: float) -> None:
    assert json.dumps(loads_kept(as_kept(number))) == json.dumps(number)


@pytest.mark.parametrize("number", [0, -7, 2**53 + 1, 10**17 + 1, 2**63, -(2**64) - 1, int("9" * 400)])
def test_an_integer_that_no_float_is_keeps_every_digit(number: int) -> None:
    found = loads_kept(str(number))
    assert (type(found), found) == (int, number)


def as_kept(value: Any) -> str:
    """JSON as ``jsonb`` writes it: numbers without an exponent."""
    if isinstance(value, float):
        return format(Decimal(repr(value)), "f")
    if isinstance(value, list):
        return f"[{', '.join(map(as_kept, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)}: {as_kept(inner)}" for name, inner in value.items()) + "}"
    return json.dumps(value)


def decimals(text: str) -> Any:
    """The value of JSON with every number as exact as it is written."""
    return json.loads(text, parse_int=Decimal, parse_float=Decimal)
