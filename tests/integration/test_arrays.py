"""Arrays spelt by hand, read by PostgreSQL."""

from datetime import UTC, datetime
from uuid import UUID

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.rows import tuple_row

from dilamme.store.arrays import UuidArray, number_array, sparse_array, text_array
from dilamme.store.connection import Connection, cursor

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.none() | TEXTS, min_size=1))
def test_any_text_comes_back_as_it_was(connection: Connection, texts: list[str | None]) -> None:
    beside = number_array(range(len(texts)))
    statement = "SELECT s.text FROM unnest(%s::integer[], %s::text[]) AS s (place, text) ORDER BY s.place"
    rows = cursor(connection, tuple_row).execute(statement, (beside, sparse_array(texts))).fetchall()
    assert [text for (text,) in rows] == texts


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(TEXTS | st.text('\n\\",{}', max_size=3)))
def test_any_text_that_is_there_comes_back_as_it_was(connection: Connection, texts: list[str]) -> None:
    assert connection.execute("SELECT %s::text[]", (text_array(texts),)).fetchone() == (texts,)


def test_other_values_come_back_as_they_were(connection: Connection) -> None:
    numbers = [2**31 - 1, -1]
    times = [datetime(2026, 11, 29, 21, 33, 18, 123456, tzinfo=UTC), None]
    spelt = (number_array(numbers), sparse_array(times, datetime.isoformat))
    found = cursor(connection, tuple_row).execute("SELECT %s::integer[], %s::timestamptz[]", spelt).fetchone()
    assert found == (numbers, times)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ids=st.lists(st.uuids()))
def test_ids_in_binary_come_back_as_they_were(connection: Connection, ids: list[UUID]) -> None:
    found = cursor(connection, tuple_row).execute("SELECT %s::uuid[]", (UuidArray(ids),)).fetchone()
    assert found == (ids,)
