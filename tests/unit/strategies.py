"""Random jobs, times, settings and JSON, with ties and with times that lie on the edge of an ageing step."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import strategies as st

from dilamme.domain.job import Head

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOW = datetime(2030, 1, 31, 9, 30, tzinfo=UTC)

moments = st.datetimes(datetime(1970, 1, 1), datetime(2999, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001
ids = st.one_of(
    st.integers(0, 3).map(lambda number: UUID(int=number)),  # ties, and neighbours
    st.integers(0, 2**128 - 1).map(lambda number: UUID(int=number)),
)
ageing_seconds = st.one_of(
    st.sampled_from([0.0, 0.000001, 0.5, 1.0, 1.5, 30.0, 86_400.0]),
    st.floats(0, 1e6, allow_nan=False),
)

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(texts, inner)),
    max_leaves=20,
)


def microseconds(count: int) -> timedelta:
    """So many microseconds."""
    return timedelta(microseconds=count)


@st.composite
def waits(draw: st.DrawFn, ageing: float) -> timedelta:
    """How long a job has been ready: often a whole number of ageing steps, give or take a microsecond."""
    step = round(ageing * 1_000_000)
    on_the_edge = st.builds(lambda steps, slip: steps * step + slip, st.integers(-1, 4), st.integers(-1, 1))
    return microseconds(draw(st.one_of(st.integers(-3, 3), on_the_edge, st.integers(-(10**9), 10**13))))


@st.composite
def heads(draw: st.DrawFn, ageing: float, now: datetime = NOW) -> Head:
    """A job; neighbours in a list often share a time, a priority or even an id."""
    ready_at = now - draw(waits(ageing))
    created_at = draw(st.one_of(st.just(ready_at), st.integers(-2, 2).map(lambda count: EPOCH + microseconds(count))))
    return Head(draw(ids), draw(st.integers(1, 3)), ready_at, created_at)


@st.composite
def lines(draw: st.DrawFn, most: int = 20) -> tuple[float, list[Head]]:
    """A setting of ``ageing_seconds``, and jobs with ids of their own."""
    ageing = draw(ageing_seconds)
    return ageing, draw(st.lists(heads(ageing), max_size=most, unique_by=lambda head: head.id))
