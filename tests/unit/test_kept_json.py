"""JSON as PostgreSQL writes it out: the same value, no longer than it was sent."""

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dilamme.domain.strict_json import loads_kept


@given(st.floats(min_value=1e17, max_value=1.7e308))
def test_a_great_number_is_as_short_as_it_came(number: float) -> None:
    as_jsonb_writes_it = f"{Decimal(repr(number)):f}"
    assert json.dumps(loads_kept(as_jsonb_writes_it)) == json.dumps(number)


@given(st.integers())
def test_an_integer_keeps_its_value(number: int) -> None:
    assert loads_kept(str(number)) == number


@pytest.mark.parametrize("number", [0, -7, 2**53 + 1, 10**17 + 1, 2**63, -(2**64) - 1, int("9" * 300)])
def test_an_integer_that_no_float_is_stays_one(number: int) -> None:
    found = loads_kept(str(number))
    assert (type(found), found) == (int, number)
