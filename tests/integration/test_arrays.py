"""Arrays spelt by hand, read by PostgreSQL."""

from datetime import UTC, datetime
from uuid import UUID

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dilamme.store.arrays import number_array, text_array, time_array, uuid_array
from dilamme.store.connection import Connection

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.none() | TEXTS, min_size=1))
def test_any_text_comes_back_as_it_was(connection: Connection, texts: list[str | None]) -> None:
    assert connection.execute("SELECT %s::text[]", (text_array(texts),)).fetchone() == (texts,)


def test_other_values_come_back_as_they_were(connection: Connection) -> None:
    ids, numbers = [UUID(int=2**128 - 1), None], [2**31 - 1, None]
    times = [datetime(2026, 11, 29, 21, 33, 18, 123456, tzinfo=UTC), None]
    spelt = (uuid_array(ids), number_array(numbers), time_array(times))
    found = connection.execute("SELECT %s::uuid[], %s::integer[], %s::timestamptz[]", spelt).fetchone()
    assert found == (ids, numbers, times)
