"""Recurring jobs (CASES.md, R4 to R9): one live occurrence, on the grid, whatever happens to it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dilamme.domain.errors import Conflict
from dilamme.domain.outcome import Complete
from dilamme.store.connection import Connection
from dilamme.testing.clock import START, Clock
from dilamme.usecases.cancel import cancel_job, cancel_series
from dilamme.usecases.replay import replay_job
from dilamme.usecases.settle import settle_here
from dilamme.wire.requests import INTERVAL_SECONDS_MAX
from tests.support.entrance import Enter
from tests.support.jobs import bury, claim, claim_one, complete, put, retry, row, series_of
from tests.support.rivals import meanwhile, wait_until_blocked

HOUR, DAY = 3600, 86_400


def _slots(connection: Connection, job_id: object) -> list[float]:
    """The series' slots in seconds since `START`."""
    return [(one["scheduled_at"] - START).total_seconds() for one in series_of(connection, job_id)]  # type: ignore[arg-type]


@pytest.mark.case("R4")
def test_a_recurring_job_that_dies_has_one_next_occurrence(connection: Connection, clock: Clock) -> None:
    """R4: three failures, then tomorrow as if nothing had been."""
    job_id = put(connection, interval_seconds=DAY)
    for _ in range(2):
        retry(connection, claim_one(connection), delay_seconds=60)
        assert len(series_of(connection, job_id)) == 1
        clock.advance(60)
    bury(connection, claim_one(connection))
    dead, following = series_of(connection, job_id)
    assert (dead["status"], following["status"], following["attempt"]) == ("dead", "pending", 0)
    assert _slots(connection, job_id) == [0, DAY]


@pytest.mark.case("R5")
def test_a_daily_job_that_ends_four_hours_late_starts_at_the_same_time_every_day(
    connection: Connection, clock: Clock
) -> None:
    """R5, for five days."""
    job_id = put(connection, interval_seconds=DAY)
    starts = []
    for day in range(5):
        clock.set(START + timedelta(days=day))
        running = claim_one(connection)
        starts.append(running.started_at)
        clock.advance(4 * HOUR)
        complete(connection, running)
        assert claim(connection) == []
    assert starts == [START + timedelta(days=day) for day in range(5)]
    assert _slots(connection, job_id) == [day * DAY for day in range(6)]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
@pytest.mark.parametrize(
    ("slot", "interval_seconds", "ended", "following"),
    [
        (datetime(2030, 10, 27, 0, 20, tzinfo=UTC), 600, timedelta(minutes=65), timedelta(minutes=70)),
        (datetime(2030, 11, 3, 5, 20, tzinfo=UTC), 600, timedelta(minutes=65), timedelta(minutes=70)),
        (datetime(2030, 4, 6, 14, 50, tzinfo=UTC), 600, timedelta(minutes=35), timedelta(minutes=40)),
        (datetime(2030, 3, 30, 8, 0, tzinfo=UTC), DAY, timedelta(minutes=1), timedelta(days=1)),
    ],
    ids=["back in Berlin", "back in New York", "half an hour back on Lord Howe", "forward in Berlin"],
)
def test_the_grid_is_in_elapsed_time_where_the_servers_zone_puts_its_clocks_forward_or_back(
    connection: Connection,
    clock: Clock,
    zone: str,
    slot: datetime,
    interval_seconds: int,
    ended: timedelta,
    following: timedelta,
) -> None:
    connection.execute("SELECT set_config('timezone', %s, false)", (zone,))
    clock.set(slot)
    job_id = put(connection, interval_seconds=interval_seconds)
    running = claim_one(connection)
    clock.set(slot + ended)
    complete(connection, running)
    connection.execute("SET timezone = 'UTC'")
    assert [one["scheduled_at"] for one in series_of(connection, job_id)] == [slot, slot + following]


@pytest.mark.case("R6")
def test_after_an_outage_there_is_one_run_for_what_was_missed_and_then_the_grid(
    connection: Connection, clock: Clock
) -> None:
    """R6: every five minutes, two hours away, back at 2 h and 10 s."""
    job_id = put(connection, interval_seconds=300)
    complete(connection, claim_one(connection))
    clock.set(START + timedelta(seconds=2 * HOUR + 10))
    complete(connection, claim_one(connection))
    assert claim(connection) == []
    assert _slots(connection, job_id) == [0, 300, 2 * HOUR + 300]
    clock.set(START + timedelta(seconds=2 * HOUR + 300))
    complete(connection, claim_one(connection))
    assert _slots(connection, job_id)[-1] == 2 * HOUR + 600


@pytest.mark.case("R7")
def test_a_run_longer_than_its_interval_overlaps_no_other_of_its_series(connection: Connection, clock: Clock) -> None:
    """R7: every 5 s, 12 s each."""
    job_id = put(connection, interval_seconds=5)
    for number in range(4):
        running = claim_one(connection)
        assert (clock.seconds, running.started_at) == (number * 15, clock.now)
        for _ in range(12):
            clock.advance(1)
            assert claim(connection) == []
        complete(connection, running)
        clock.advance(3)
    assert _slots(connection, job_id) == [0, 15, 30, 45, 60]


@pytest.mark.case("R8")
def test_a_series_cancelled_while_an_occurrence_runs_lets_it_finish_and_has_no_successor(
    connection: Connection, clock: Clock
) -> None:
    job_id = put(connection, interval_seconds=60)
    running = claim_one(connection)
    series_id = row(connection, job_id)["series_id"]
    assert cancel_series(connection, series_id)
    assert not cancel_series(connection, series_id)
    complete(connection, running)
    assert [one["status"] for one in series_of(connection, job_id)] == ["completed"]


@pytest.mark.case("R8")
def test_a_series_cancelled_while_its_occurrence_is_being_completed_has_no_live_successor(
    connection: Connection, clock: Clock, enter: Enter
) -> None:
    """R8, at the same instant: the completion holds the series; the cancellation waits, and finds the successor."""
    job_id = put(connection, interval_seconds=60)
    running = claim_one(connection)
    series_id = row(connection, job_id)["series_id"]
    worker, api = enter("worker"), enter("api")
    worker.execute("BEGIN")
    settle_here(worker, [(running, Complete(None))])
    with meanwhile(lambda: cancel_series(api, series_id)) as cancelling:
        wait_until_blocked(connection, api)
        worker.execute("COMMIT")
        assert cancelling.result(20)
    assert [one["status"] for one in series_of(connection, job_id)] == ["completed", "cancelled"]


@pytest.mark.case("R8")
def test_a_series_cancelled_while_its_occurrence_is_being_claimed_lets_it_run(
    connection: Connection, clock: Clock, enter: Enter
) -> None:
    """R8: the cancellation saw it pending, and finds it running when the claim has committed."""
    job_id = put(connection, interval_seconds=60)
    worker, api = enter("worker"), enter("api")
    worker.execute("BEGIN")
    running = claim_one(worker)
    with meanwhile(lambda: cancel_series(api, row(connection, job_id)["series_id"])) as cancelling:
        wait_until_blocked(connection, api)
        worker.execute("COMMIT")
        assert cancelling.result(20)
    assert row(connection, job_id)["status"] == "running"
    complete(worker, running)
    assert [one["status"] for one in series_of(connection, job_id)] == ["completed"]


def test_a_series_cancelled_before_its_occurrence_starts_is_cancelled_with_it(
    connection: Connection, clock: Clock
) -> None:
    job_id = put(connection, interval_seconds=60)
    cancel_series(connection, row(connection, job_id)["series_id"])
    assert [one["status"] for one in series_of(connection, job_id)] == ["cancelled"]
    assert claim(connection) == []


def test_a_cancelled_occurrence_is_a_skipped_one(connection: Connection, clock: Clock) -> None:
    """The series goes on at its next slot."""
    job_id = put(connection, interval_seconds=60)
    cancel_job(connection, job_id)
    cancel_job(connection, job_id)
    assert [one["status"] for one in series_of(connection, job_id)] == ["cancelled", "pending"]
    assert _slots(connection, job_id) == [0, 60]


def test_a_running_occurrence_cannot_be_cancelled(connection: Connection, clock: Clock) -> None:
    job_id = put(connection, interval_seconds=60)
    claim_one(connection)
    with pytest.raises(Conflict, match="is running"):
        cancel_job(connection, job_id)


@pytest.mark.case("R9")
@pytest.mark.parametrize("ends", [complete, bury])
def test_a_replayed_occurrence_runs_beside_the_next_one_and_forks_no_chain(
    connection: Connection, clock: Clock, ends: object
) -> None:
    """R9: whichever way it ends, and the next one too."""
    job_id = put(connection, interval_seconds=60)
    bury(connection, claim_one(connection))
    assert replay_job(connection, job_id)
    replayed = claim_one(connection)
    assert replayed.id == job_id
    ends(connection, replayed)  # type: ignore[operator]
    assert len(series_of(connection, job_id)) == 2
    clock.advance(60)
    complete(connection, claim_one(connection))
    assert [one["status"] for one in series_of(connection, job_id)[1:]] == ["completed", "pending"]
    assert _slots(connection, job_id) == [0, 60, 120]


@pytest.mark.case("R9")
def test_a_replayed_occurrence_that_ends_after_the_next_ones_slot_forks_no_chain(
    connection: Connection, clock: Clock
) -> None:
    """R9: the first slot in the future is a free one, so that the slot alone would not refuse a second chain."""
    job_id = put(connection, interval_seconds=60)
    bury(connection, claim_one(connection))
    assert replay_job(connection, job_id)
    replayed = claim_one(connection)
    clock.advance(90)
    complete(connection, replayed)
    assert [one["status"] for one in series_of(connection, job_id)] == ["completed", "pending"]


def test_an_occurrence_keeps_what_the_first_one_was_posted_with(connection: Connection, clock: Clock) -> None:
    fields: dict[str, Any] = {"priority": 1, "payload": {"a": 1}, "max_attempts": 7, "on_dependency_failure": "cancel"}
    job_id = put(connection, interval_seconds=60, **fields)
    complete(connection, claim_one(connection))
    _, following = series_of(connection, job_id)
    assert {name: following[name] for name in fields} == fields


def test_a_series_that_begins_in_the_future_keeps_its_own_grid(connection: Connection, clock: Clock) -> None:
    job_id = put(connection, interval_seconds=60, scheduled_at=START + timedelta(seconds=7))
    assert claim(connection) == []
    clock.advance(50)
    complete(connection, claim_one(connection))
    assert _slots(connection, job_id) == [7, 67]


def test_a_recurring_job_whose_skipped_occurrence_waited_goes_on_waiting(connection: Connection, clock: Clock) -> None:
    """A skipped occurrence hands its open dependencies on; a completed one has none left."""
    parent = put(connection, priority=3)
    job_id = put(connection, interval_seconds=60, dependency_ids=[parent])
    cancel_job(connection, job_id)
    clock.advance(60)
    running = claim_one(connection)
    assert running.id == parent
    complete(connection, running)
    complete(connection, claim_one(connection))
    assert [one["status"] for one in series_of(connection, job_id)] == ["cancelled", "completed", "pending"]
    assert series_of(connection, job_id)[-1]["unmet_dependencies"] == 0


@pytest.mark.case("K3")
def test_a_series_whose_next_time_would_lie_past_the_year_9999_ends(
    connection: Connection, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """K3: every ten years, each occurrence cancelled before its time."""
    job_id = put(connection, scheduled_at=datetime(2999, 1, 1, tzinfo=UTC), interval_seconds=INTERVAL_SECONDS_MAX)
    series_id = row(connection, job_id)["series_id"]
    last = job_id
    for number in range(1, 1000):
        cancel_job(connection, last)
        if "past the year 9999" in caplog.text:
            break
        last = series_of(connection, job_id)[number]["id"]
    assert len(series_of(connection, job_id)) == number > 700
    assert not cancel_series(connection, series_id)  # it has ended already
    assert connection.execute("SELECT ended_at IS NOT NULL FROM dilamme.series").fetchone() == (True,)


@pytest.mark.case("K3")
def test_a_series_that_ends_with_time_itself_settles_what_ran(connection: Connection, clock: Clock) -> None:
    """The worker's way to the same end: the run counts, beside a series that goes on."""
    ends, goes_on = put(connection, interval_seconds=INTERVAL_SECONDS_MAX), put(connection, interval_seconds=HOUR)
    connection.execute("UPDATE dilamme.jobs SET scheduled_at = '9999-06-01Z' WHERE id = %s", (ends,))
    complete(connection, *claim(connection))
    assert [one["status"] for one in series_of(connection, ends)] == ["completed"]
    assert [one["status"] for one in series_of(connection, goes_on)] == ["completed", "pending"]
