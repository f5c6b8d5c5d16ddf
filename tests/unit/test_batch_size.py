"""How large a worker's next claim is."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from dilamme.domain import batch_size as module
from dilamme.domain.batch_size import DEEP_JOBS_MIN, REACH_MAX, REACH_MIN, BatchSize
from dilamme.domain.durations import Durations
from dilamme.domain.job import Claim

MOST = 5 * DEEP_JOBS_MIN
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def claims(count: int, characters: int = 2) -> list[Claim]:
    one = Claim(UUID(int=1), "test.echo", 2, 1, 3, NOW, NOW, None, None, False, None, {}, characters, UUID(int=2))
    return [one] * count


@pytest.fixture
def size() -> BatchSize:
    """Of a worker whose jobs take no time, about to claim as many as may be."""
    durations = Durations()
    durations.record([("test.echo", 0.0)])
    one = BatchSize(durations, wait_seconds=1.0, jobs_max=MOST)
    one.fit(8)
    return one


def test_a_worker_that_knows_no_job_claims_one_a_runner() -> None:
    one = BatchSize(Durations(), wait_seconds=1.0, jobs_max=MOST)
    one.fit(8)
    assert (one.limit, one.reach, one.whole, one.deep) == (8, 8 + REACH_MIN, False, False)


@pytest.mark.parametrize(
    ("taken", "deep", "all_there_was"),
    [(MOST, True, False), (MOST - 1, False, True), (1, False, True), (0, False, True)],
)
def test_a_full_claim_of_many_says_that_the_backlog_is_deep(
    size: BatchSize, taken: int, deep: bool, all_there_was: bool
) -> None:
    assert size.whole
    assert size.learn(claims(taken)) is all_there_was
    assert size.deep is deep


def test_a_full_claim_of_few_does_not() -> None:
    one = BatchSize(Durations(), wait_seconds=1.0, jobs_max=MOST)
    one.fit(8)
    assert not one.learn(claims(8))
    assert not one.deep


def test_large_payloads_make_the_next_claim_smaller_and_small_ones_larger_again(
    size: BatchSize, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH_CHARACTERS_MAX", 20_000)
    size.learn(claims(MOST, characters=1_000))
    size.fit(8)
    assert (size.limit, size.whole) == (20, False)
    size.learn(claims(20, characters=2))
    size.fit(8)
    assert (size.limit, size.whole) == (MOST, True)


def test_a_payload_over_the_limit_is_claimed_alone(size: BatchSize, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_CHARACTERS_MAX", 20_000)
    size.learn(claims(1, characters=20_001))
    size.fit(8)
    assert size.limit == 1


def test_after_a_claim_cut_short_by_rivals_it_looks_further_for_a_while(size: BatchSize) -> None:
    size.learn(claims(REACH_MIN))
    assert size.reach == MOST + MOST
    for _ in range(MOST // REACH_MIN):
        size.learn(claims(MOST))
    assert size.reach == MOST + REACH_MIN


def test_each_look_past_what_is_locked_goes_four_times_as_far_up_to_a_limit(size: BatchSize) -> None:
    reaches = []
    for _ in range(6):
        size.look_further()
        reaches.append(size.reach - size.limit)
    assert reaches[:2] == [4 * REACH_MIN, 16 * REACH_MIN]
    assert reaches[-1] == REACH_MAX
