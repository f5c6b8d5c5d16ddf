"""The scheduler's handler, with what triggers it and what it reports."""

import io
from collections.abc import Iterator
from datetime import UTC, datetime

import psycopg
import pytest

from dilamme import session
from dilamme.scheduler.gauges import gauge
from dilamme.scheduler.metrics import GAUGE_EVERY_TICKS, TickMetrics
from dilamme.scheduler.tick import Dispatch
from dilamme.settings import Settings, read
from dilamme.store.connection import Connection
from functions.scheduler import handler as scheduler
from tests.functions.events import context, emf, load
from tests.functions.session_fixture import entered
from tests.support.invocations import Invocations
from tests.support.jobs import bury, claim_one, put

# Leads for less than two seconds: what is left when the loop's own margin is taken off.
BRIEF_SECONDS = 11.8


@pytest.fixture(autouse=True)
def deployed(database_url: str, monkeypatch: pytest.MonkeyPatch, invocations: Invocations) -> Iterator[None]:
    configuration = read(
        {"DILAMME_WORKER_FUNCTION": "worker", "DILAMME_SCHEDULER_FUNCTION": "scheduler", "DILAMME_IDLE_EXIT": "0"}
    )
    monkeypatch.setattr(scheduler, "configuration", configuration)
    monkeypatch.setattr("dilamme.usecases.wake.invoke", invocations)
    with entered(monkeypatch, database_url, "scheduler"):
        yield


@pytest.mark.parametrize("event", ["scheduler-trigger", "scheduler-wake"])
def test_whatever_triggers_it_it_takes_the_lead_and_ticks(event: str) -> None:
    assert scheduler.handler(load(event), context("scheduler", BRIEF_SECONDS)) == {
        "ticks": 2,
        "missed": 0,
        "takenOver": False,
    }


def test_a_ready_job_makes_it_invoke_a_worker(connection: Connection, invocations: Invocations) -> None:
    job_id = put(connection)
    scheduler.handler(load("scheduler-trigger"), context("scheduler", BRIEF_SECONDS))
    assert invocations.take_workers()[0].ids == [job_id]


def test_it_reports_the_queue_and_its_own_beat(connection: Connection, metrics_written: io.StringIO) -> None:
    put(connection)
    bury(connection, claim_one(connection))
    put(connection, priority=1)
    put(connection, priority=3)
    ticks = scheduler.handler(load("scheduler-trigger"), context("scheduler", BRIEF_SECONDS))["ticks"]
    assert ticks > 0  # as many as the machine finds time for
    values = emf(metrics_written.getvalue())
    assert values["Ticks"] == [1] * ticks
    assert len(values["TickLag"]) == len(values["TickDuration"]) == ticks
    assert all(0 < milliseconds < 1000 * BRIEF_SECONDS for milliseconds in values["TickDuration"])
    assert [values[name][0] for name in ("DeadJobs", "ReadyJobsP1", "ReadyJobsP2", "ReadyJobsP3")] == [1, 1, 0, 1]
    assert values["SlotsInvited"][0] == 1
    assert values["OldestReadyAge"][0] >= 0
    assert values["OldestDeadLetterAge"][0] >= 0
    assert values["Connections"][0] >= 1
    assert values["OldestSnapshotAge"][0] >= 0, "its role may see everybody's"


def test_metrics_are_written_inside_the_loop_so_that_a_kill_takes_few(metrics_written: io.StringIO) -> None:
    observer = TickMetrics(scheduler.metrics, session.connection, scheduler.configuration)
    for _ in range(GAUGE_EVERY_TICKS + 1):
        observer.observe(Dispatch(datetime.now(UTC), 0, 0, 0), 0.0, 0.0)
    assert emf(metrics_written.getvalue())["Ticks"] == [1] * (GAUGE_EVERY_TICKS + 1)


def test_what_cannot_be_measured_costs_no_tick(monkeypatch: pytest.MonkeyPatch, metrics_written: io.StringIO) -> None:
    def refuse(_connection: Connection, _settings: Settings) -> None:
        raise psycopg.errors.QueryCanceled("statement timeout")

    monkeypatch.setattr("dilamme.scheduler.metrics.gauge", refuse)
    led = scheduler.handler(load("scheduler-trigger"), context("scheduler", BRIEF_SECONDS))
    assert led["ticks"] > 0
    assert emf(metrics_written.getvalue())["Ticks"] == [1] * led["ticks"]


def test_the_oldest_snapshot_is_seen_whoever_holds_it(connection: Connection, database_url: str) -> None:
    with psycopg.connect(database_url) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute("SELECT count(*) FROM dilamme.jobs")
        connection.execute("SELECT pg_sleep(0.2)")
        seen = gauge(session.connection(), scheduler.configuration)
    assert seen.oldest_snapshot_seconds is not None
    assert seen.oldest_snapshot_seconds >= 0.2


def test_a_role_that_may_not_see_others_says_nothing_about_snapshots(
    connection: Connection, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with entered(monkeypatch, database_url, "api"):
        assert gauge(session.connection(), scheduler.configuration).oldest_snapshot_seconds is None


def test_counts_stop_where_they_say(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dilamme.scheduler.gauges.JOBS_COUNTED_MAX", 2)
    for _ in range(3):
        put(connection)
    assert gauge(session.connection(), scheduler.configuration).ready_p2 == 2
