"""The comparator: what ageing does, and one integer that orders jobs as the four levels do."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dilamme.domain.job import Head
from dilamme.domain.priority import effective_priority, microseconds, order_key
from tests.unit.strategies import EPOCH, NOW, ageing_seconds, heads, ids, lines, moments, waits

FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def levels(job: Head, now: datetime, ageing: float) -> tuple[int, datetime, datetime, UUID]:
    """The comparator as it is defined, level by level."""
    return stepped_priority(job.priority, now - job.ready_at, ageing), job.ready_at, job.created_at, job.id


def stepped_priority(priority: int, wait: timedelta, ageing: float) -> int:
    """The formula without a division: a step up for every whole step waited, as far as 1."""
    step = timedelta(microseconds=round(ageing * 1_000_000))
    left = wait
    while step and priority > 1 and left >= step:
        priority, left = priority - 1, left - step
    return priority


@pytest.mark.parametrize(
    ("waited", "effective"), [(0, 3), (29.999999, 3), (30, 2), (59.999999, 2), (60, 1), (90, 1), (10**9, 1)]
)
def test_every_thirty_seconds_of_waiting_raise_a_job_by_one_priority_and_never_past_the_highest(
    waited: float, effective: int
) -> None:
    assert effective_priority(3, NOW - timedelta(seconds=waited), NOW, 30) == effective


def test_ageing_of_zero_is_off_however_long_a_job_waits() -> None:
    assert effective_priority(3, EPOCH, NOW, 0) == 3


def test_a_job_that_is_not_ready_yet_has_its_own_priority() -> None:
    assert effective_priority(3, NOW + timedelta(days=1), NOW, 0.000001) == 3


def test_a_fraction_of_a_second_ages_by_the_microsecond() -> None:
    assert effective_priority(3, NOW - timedelta(microseconds=1_500_000), NOW, 1.5) == 2
    assert effective_priority(3, NOW - timedelta(microseconds=1_499_999), NOW, 1.5) == 3


@given(st.integers(1, 3), ageing_seconds, st.data())
def test_the_effective_priority_is_the_formula(priority: int, ageing: float, data: st.DataObject) -> None:
    wait = data.draw(waits(ageing))
    assert effective_priority(priority, NOW - wait, NOW, ageing) == stepped_priority(priority, wait, ageing)


@given(st.integers(1, 3), moments, st.lists(moments, min_size=2), ageing_seconds)
def test_a_job_never_becomes_less_urgent(
    priority: int, ready_at: datetime, times: list[datetime], ageing: float
) -> None:
    over_time = [effective_priority(priority, ready_at, now, ageing) for now in sorted(times)]
    assert all(later <= earlier for earlier, later in pairwise(over_time))
    assert set(over_time) <= set(range(1, priority + 1))


@given(lines(), st.integers(-(10**10), 10**10).map(lambda count: NOW + timedelta(microseconds=count)))
def test_the_order_of_the_keys_is_the_order_of_the_levels(line: tuple[float, list[Head]], now: datetime) -> None:
    ageing, jobs = line
    by_key = sorted(jobs, key=order_key(now, ageing))
    assert by_key == sorted(jobs, key=lambda job: levels(job, now, ageing))


@given(st.integers(1, 3), ageing_seconds | st.sampled_from([1e12, 1e18]), st.data())
def test_a_keys_first_level_is_the_effective_priority(priority: int, ageing: float, data: st.DataObject) -> None:
    """To the microsecond, though it is reckoned the other way about."""
    ready_at = NOW - data.draw(waits(min(ageing, 1e6)))
    key = order_key(NOW, ageing)(Head(UUID(int=1), priority, ready_at, ready_at))
    assert key[0] == effective_priority(priority, ready_at, NOW, ageing)


@given(ageing_seconds, st.data())
def test_two_keys_compare_as_the_levels_do_and_are_equal_only_for_equal_levels(
    ageing: float, data: st.DataObject
) -> None:
    one, other = data.draw(heads(ageing)), data.draw(heads(ageing))
    keys = [order_key(NOW, ageing)(job) for job in (one, other)]
    wanted = [levels(job, NOW, ageing) for job in (one, other)]
    assert (keys[0] < keys[1], keys[0] == keys[1]) == (wanted[0] < wanted[1], wanted[0] == wanted[1])


@given(lines(), st.integers(1, 3), st.lists(moments, min_size=1, max_size=5))
def test_inside_one_priority_the_order_never_changes_with_now(
    line: tuple[float, list[Head]], priority: int, times: list[datetime]
) -> None:
    ageing, jobs = line
    lane = [Head(job.id, priority, job.ready_at, job.created_at) for job in jobs]
    as_indexed = sorted(lane, key=lambda job: (job.ready_at, job.created_at, job.id))
    for now in times:
        assert sorted(lane, key=order_key(now, ageing)) == as_indexed


@given(ids, ids)
def test_the_first_and_the_last_time_there_are_keep_their_levels_apart(one: UUID, other: UUID) -> None:
    earlier = Head(one, 1, FIRST, LAST)
    later = Head(other, 1, FIRST + timedelta(microseconds=1), FIRST)
    assert order_key(NOW, 0)(earlier) < order_key(NOW, 0)(later)
    assert order_key(NOW, 0)(Head(one, 1, LAST, LAST)) < order_key(NOW, 0)(Head(other, 2, FIRST, FIRST))


@given(st.datetimes(timezones=st.just(UTC)))
def test_microseconds_lose_nothing(moment: datetime) -> None:
    assert EPOCH + timedelta(microseconds=microseconds(moment)) == moment
