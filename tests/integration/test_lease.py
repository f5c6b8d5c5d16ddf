"""How long a claim lasts: as long as its worker may live, and a margin (invariant 4)."""

from typing import Any

import pytest

from dilamme.settings import Settings
from dilamme.store.connection import Connection, connect
from dilamme.testing.clock import Clock
from dilamme.usecases.rescue import expire
from tests.integration.workshop import Workshop
from tests.support.jobs import claim_one, complete, put, row


@pytest.mark.case("C8")
def test_a_claim_outlives_the_deadline_of_its_worker_by_the_margin(connection: Connection, workshop: Workshop) -> None:
    """Whenever in its life it claims: nobody else may start the job while its handler can still be running."""
    left: list[float] = []

    @workshop.registry.job("test.look")
    def look(payload: Any, context: Any) -> None:
        with connect(workshop.url) as observer:
            stored = row(observer, context.job_id)
            left.append((stored["lease_expires_at"] - stored["started_at"]).total_seconds())

    for seconds in (300.0, 60.0):
        put(connection, type="test.look")
        workshop.work(seconds=seconds)
        margin = workshop.settings.lease_margin_seconds
        # A slow machine takes some of the time before the claim; it never adds any.
        assert seconds + margin - 20 < left.pop() <= seconds + margin


@pytest.mark.case("K5")
def test_a_clock_that_jumps_a_day_ahead_costs_one_attempt_and_the_later_result_counts(
    connection: Connection, clock: Clock, settings: Settings
) -> None:
    """K5: every lease has run out. What bounds it: each job is freed once, and the fence refuses the first run's result."""
    job_id = put(connection)
    first = claim_one(connection)
    clock.advance(86_400)
    assert expire(connection, settings).done == {job_id}
    second = claim_one(connection)
    assert (second.attempt, second.max_attempts) == (2, 3)
    assert expire(connection, settings).done == set()  # its lease is of the new time
    assert complete(connection, first).done == set()
    assert complete(connection, second).done == {job_id}
    assert [error["reason"] for error in row(connection, job_id)["errors"]] == ["worker_lost"]
