"""Handlers that run past their time (C13): a failure with its backoff, and a process that ends with them."""

from datetime import timedelta
from threading import Event
from typing import Any

import pytest

from dilamme.domain.outcome import RetryLater
from dilamme.store.connection import Connection
from dilamme.testing.clock import Clock
from tests.integration.workshop import Workshop
from tests.support.invocations import Invocations
from tests.support.jobs import ECHO, put, put_many, row, rows


@pytest.mark.case("C13")
def test_a_handler_past_its_timeout_ends_its_process_and_is_retried_after_its_backoff(
    connection: Connection, clock: Clock, workshop: Workshop
) -> None:
    """C13: a failure called timeout; its neighbours are completed; nobody else can start it before its backoff."""
    started: list[int] = []

    @workshop.registry.job("test.hang", timeout_seconds=0.3)
    def hang(payload: Any, context: Any) -> None:
        started.append(context.attempt)
        workshop.ended.wait(30)

    hanging = put(connection, type="test.hang")
    neighbours = put_many(connection, [{"payload": number} for number in range(20)])
    workshop.timed(ECHO, 0.001)
    workshop.work()
    assert workshop.exit_codes == [1]
    stored = row(connection, hanging)
    assert (stored["status"], stored["attempt"], stored["errors"][-1]["reason"]) == ("pending", 1, "timeout")
    assert timedelta(seconds=5) <= stored["ready_at"] - clock.now <= timedelta(seconds=10)
    assert started == [1]
    left = {one["status"] for one in rows(connection, neighbours)}
    assert left <= {"completed", "pending"}
    assert all(one["errors"] == [] for one in rows(connection, neighbours))
    assert all(one["attempt"] == (one["status"] == "completed") for one in rows(connection, neighbours))


@pytest.mark.case("C13")
def test_a_handler_past_its_timeout_leaves_its_running_neighbours_their_time(
    connection: Connection, clock: Clock, workshop: Workshop
) -> None:
    """C13: the process ends only when they have ended, and with their results stored."""
    overdue = Event()

    @workshop.registry.job("test.hang", timeout_seconds=0.3)
    def hang(payload: Any, context: Any) -> None:
        workshop.ended.wait(30)

    @workshop.registry.job("test.slow")
    def slow(payload: Any, context: Any) -> str:
        overdue.wait(0.8)
        return "done"

    put(connection, type="test.hang")
    slow_job = put(connection, type="test.slow")
    workshop.work()
    assert workshop.exit_codes == [1]
    assert (row(connection, slow_job)["status"], row(connection, slow_job)["result"]) == ("completed", "done")
    ends = {claimed.type: outcome for _, claimed, outcome in workshop.observed}
    assert isinstance(ends["test.hang"], RetryLater)


def test_a_handler_that_hangs_in_a_worker_without_threads_is_ended_too(
    connection: Connection, clock: Clock, workshop: Workshop
) -> None:
    """C13 with a concurrency of 1, where handlers run in the worker's own thread."""
    workshop.adjust(worker_concurrency=1)

    @workshop.registry.job("test.hang", timeout_seconds=0.3)
    def hang(payload: Any, context: Any) -> None:
        workshop.ended.wait(30)

    hanging = put(connection, type="test.hang")
    waiting = put(connection)
    workshop.work()
    assert workshop.exit_codes == [1]
    assert row(connection, hanging)["errors"][-1]["reason"] == "timeout"
    assert (row(connection, waiting)["status"], row(connection, waiting)["attempt"]) == ("pending", 0)


def test_a_process_ends_at_once_when_its_overdue_handlers_job_is_free_again(
    connection: Connection, clock: Clock, workshop: Workshop, invocations: Invocations
) -> None:
    """A call in between could hang, and the retry begin beside the handler that still runs. The report wakes the others."""

    @workshop.registry.job("test.hang", timeout_seconds=0.3)
    def hang(payload: Any, context: Any) -> None:
        workshop.ended.wait(30)

    put(connection, type="test.hang")
    workshop.work()
    assert workshop.exit_codes == [1]
    assert invocations == []
