"""`dilamme.testing`, as an application's tests use it."""

import os
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

import dilamme
from dilamme import Context
from dilamme.domain.job import Status
from dilamme.testing import Database, Stack, Worker, context
from dilamme_local.application import Application, load

APPLICATION = Path(__file__).parent / "application"


@pytest.fixture(scope="session")
def dilamme_application() -> Application:
    return load(APPLICATION)


@pytest.fixture(scope="session")
def dilamme_prepare() -> Callable[[str], object]:
    def prepare(url: str) -> None:
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE public.orders (id int PRIMARY KEY)")

    return prepare


@pytest.fixture(autouse=True)
def _nobody_was_put_off(dilamme_application: Application) -> Iterator[None]:
    yield
    if "greetings.greeting" in sys.modules:
        sys.modules["greetings.greeting"].seen.clear()


def test_a_handler_is_a_plain_function_with_a_context_of_the_tests() -> None:
    made = context(type="a.b", attempt=2, max_attempts=5, timeout_seconds=9, dependency_results={UUID(int=1): 7})
    assert isinstance(made, Context)
    assert (made.type, made.attempt, made.max_attempts) == ("a.b", 2, 5)
    assert 8 < made.remaining_seconds() <= 9
    assert dict(made.dependency_results) == {UUID(int=1): 7}
    assert made.deadline > datetime.now(UTC)
    made.logger.info("said")
    assert context().job_id != context().job_id


def test_a_job_runs_through_the_engine_in_this_process(dilamme_worker: Worker) -> None:
    job_id = dilamme_worker.submit("greet", {"name": "Ada"}, priority=1)
    (ran,) = dilamme_worker.run_due()
    assert (ran.id, ran.status, ran.result) == (job_id, Status.COMPLETED, "Hello, Ada")
    assert dilamme_worker.run_due() == []


def test_a_failed_job_is_tried_again_when_the_clock_says_so(dilamme_worker: Worker) -> None:
    job_id = dilamme_worker.submit("greet.flaky", {"failures": 1})
    (failed,) = dilamme_worker.run_due()
    assert (failed.status, failed.attempt, failed.max_attempts) == (Status.PENDING, 1, 2)
    dilamme_worker.advance(seconds=29)
    assert dilamme_worker.run_due() == []
    dilamme_worker.advance(seconds=31)
    assert [job.result for job in dilamme_worker.run_due()] == [2]
    assert dilamme_worker.job(job_id).status is Status.COMPLETED


def test_everything_comes_to_its_end(dilamme_worker: Worker) -> None:
    submit = dilamme_worker.submit
    lost = submit("greet.flaky", {"failures": 9})
    later = submit("greet", {"name": "Bo"}, scheduled_at=datetime.now(UTC) + timedelta(days=3))
    put_off = submit("greet.later")
    numbers = [submit("greet.number", number) for number in (1, 2, 3)]
    added = submit("greet.sum", dependency_ids=numbers)
    blocked = submit("greet", {"name": "Cy"}, dependency_ids=[lost])
    unknown = submit("another.applications")
    ran = dilamme_worker.drain_to_idle()
    job = dilamme_worker.job
    assert [job(one).status for one in (lost, later, put_off, added)] == ["dead", "completed", "completed", "completed"]
    assert (job(put_off).result, job(added).result) == ("at last", 6)
    assert job(blocked).status is Status.PENDING
    assert job(unknown).status is Status.PENDING
    assert ran[-1].id == later
    assert dilamme_worker.drain_to_idle() == []


def test_a_series_has_no_end_and_is_said_to_have_none(dilamme_worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dilamme.testing.worker.RUNS_MAX", 3)
    dilamme_worker.submit("greet.number", 1, interval_seconds=60)
    with pytest.raises(AssertionError, match="a series has no end"):
        dilamme_worker.drain_to_idle()
    assert len(dilamme_worker.submitted()) == 5
    dilamme_worker.advance(hours=1)
    assert [job.result for job in dilamme_worker.run_due()] == [1]


def test_a_handler_may_submit_and_what_it_submits_runs(dilamme_worker: Worker) -> None:
    dilamme_worker.submit("greet.many", {"names": ["Ada", "Bo"]})
    assert [job.type for job in dilamme_worker.run_due()] == ["greet.many", "greet", "greet"]
    dilamme_worker.assert_enqueued("greet", payload={"name": "Bo"}, count=1)


def test_a_handler_can_be_patched_and_its_line_is_the_tests_own_thread(
    dilamme_worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "GREETING", "Ciao")
    dilamme_worker.submit("greet", {"name": "Ada"})
    assert dilamme_worker.run_due()[0].result == "Ciao, Ada"


def test_an_application_stores_its_rows_and_its_jobs_together(dilamme_db: Database, dilamme_worker: Worker) -> None:
    with dilamme_db.connect() as connection:
        connection.execute("INSERT INTO orders VALUES (1)")
        dilamme.submit(connection, "greet", {"name": "Ada"})
        connection.rollback()
    assert dilamme_worker.submitted() == []
    with dilamme_db.connect() as connection:
        connection.execute("INSERT INTO orders VALUES (1)")
        dilamme.submit(connection, "greet", {"name": "Ada"})
    assert dilamme_db.connection.execute("SELECT count(*) FROM orders").fetchone() == (1,)
    dilamme_worker.assert_enqueued("greet", payload={"name": "Ada"})


def test_a_handler_reaches_the_applications_tables_and_leaves_no_connection(
    dilamme_db: Database, dilamme_worker: Worker
) -> None:
    dilamme_worker.submit("greet.order", {"id": 7})
    assert [job.result for job in dilamme_worker.run_due()] == [2]
    assert dilamme_db.connection.execute("SELECT id FROM orders").fetchall() == [(7,)]
    assert sys.modules["greetings.greeting"].connections.pop().closed


def test_a_context_of_the_tests_connects_too(dilamme_db: Database) -> None:
    made = context()
    with made.connect(autocommit=True) as connection:
        connection.execute("INSERT INTO orders VALUES (1)")
    made.close()
    assert dilamme_db.connection.execute("SELECT id FROM orders").fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"type": "mail"}, "expected a job of type 'mail', found 0"),
        ({"type": "greet", "payload": {"name": "Bo"}}, "with payload {'name': 'Bo'}, found 0"),
        ({"type": "greet", "count": 2}, "expected 2 jobs of type 'greet', found 1"),
    ],
)
def test_what_was_not_enqueued_is_told_with_what_was(
    dilamme_worker: Worker, arguments: dict[str, Any], words: str
) -> None:
    dilamme_worker.submit("greet", {"name": "Ada"})
    with pytest.raises(AssertionError) as raised:
        dilamme_worker.assert_enqueued(**arguments)
    assert words in str(raised.value)
    assert "greet {'name': 'Ada'} (pending)" in str(raised.value)


def test_each_test_has_a_database_of_its_own(dilamme_worker: Worker) -> None:
    assert dilamme_worker.submitted() == []


def test_on_the_stack_a_handler_connects_as_the_workers_role(dilamme_stack: Stack) -> None:
    with psycopg.connect(dilamme_stack.database_url) as connection:
        connection.execute("GRANT INSERT ON orders TO dilamme_worker")
    job = dilamme_stack.client.submit("greet.order", {"id": 8})
    assert dilamme_stack.client.wait(job.id).result == 2
    with psycopg.connect(dilamme_stack.database_url) as connection:
        assert connection.execute("SELECT id FROM orders").fetchall() == [(8,)]


def test_the_whole_stack_answers_over_http(dilamme_stack: Stack) -> None:
    job = dilamme_stack.client.submit("greet", {"name": "Ada"})
    assert dilamme_stack.client.wait(job.id).result == "Hello, Ada"
    with psycopg.connect(dilamme_stack.database_url) as connection:
        assert connection.execute("SELECT status FROM dilamme.jobs").fetchone() == ("completed",)
