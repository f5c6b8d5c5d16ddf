"""How long a claim lasts: as long as its worker may live, and a margin (invariant 4)."""

from typing import Any

import pytest

from dilamme.store.connection import Connection, connect
from tests.integration.workshop import Workshop
from tests.support.jobs import put, row


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
