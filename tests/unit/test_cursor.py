"""The cursor of a list."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dilamme.domain.errors import InvalidInput
from dilamme.wire.cursor import decode, encode

uuids = st.integers(0, 2**128 - 1).map(lambda number: UUID(int=number))


@given(uuids)
def test_a_cursor_leads_back_to_the_job_it_was_made_from(last: UUID) -> None:
    assert decode(encode(last)) == last


@given(uuids)
def test_a_cursor_can_stand_in_a_url_as_it_is(last: UUID) -> None:
    assert set(encode(last)) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@given(uuids, st.integers(0, 25), st.sampled_from("ABCabc019-_"))
def test_a_cursor_with_another_character_is_refused(last: UUID, place: int, character: str) -> None:
    cursor = encode(last)
    damaged = cursor[:place] + character + cursor[place + 1 :]
    if damaged != cursor:
        with pytest.raises(InvalidInput, match="/cursor"):
            decode(damaged)


@given(st.one_of(st.text(), st.text(st.sampled_from("ABCabc019-_=+/ ")), uuids.map(str)))
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="/cursor"):
        decode(text)


@pytest.mark.parametrize("cut", [1, 10, 26])
def test_half_a_cursor_is_refused(cut: int) -> None:
    with pytest.raises(InvalidInput):
        decode(encode(UUID(int=7))[:cut])
