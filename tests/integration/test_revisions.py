"""Cancel and replay against whoever else has the job in hand at that moment."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from uuid import UUID

import pytest

from dilamme.domain.errors import Conflict, NotFound
from dilamme.store.connection import Connection
from dilamme.usecases.cancel import cancel_job, cancel_series
from dilamme.usecases.replay import replay_dead, replay_job
from tests.integration.paused import pause
from tests.support.entrance import Enter
from tests.support.jobs import bury, claim, claim_one, complete, put, put_many, row, tally
from tests.support.rivals import meanwhile, wait_until_blocked

NOBODY = UUID(int=42)


def test_a_pending_job_is_cancelled_and_again_without_a_change(connection: Connection) -> None:
    job_id = put(connection)
    cancel_job(connection, job_id)
    first = row(connection, job_id)
    cancel_job(connection, job_id)
    assert row(connection, job_id) == first
    assert (first["status"], first["errors"][-1]["reason"]) == ("cancelled", "cancelled")
    assert claim(connection) == []


@pytest.mark.parametrize("end", [complete, bury])
def test_a_job_that_has_ended_cannot_be_cancelled(connection: Connection, end: object) -> None:
    job_id = put(connection)
    end(connection, claim_one(connection))  # type: ignore[operator]
    with pytest.raises(Conflict, match="only a pending job can be cancelled"):
        cancel_job(connection, job_id)


def test_what_does_not_exist_cannot_be_cancelled(connection: Connection) -> None:
    with pytest.raises(NotFound):
        cancel_job(connection, NOBODY)
    with pytest.raises(NotFound):
        cancel_series(connection, NOBODY)


def test_a_job_that_is_being_claimed_cannot_be_cancelled(connection: Connection, enter: Enter) -> None:
    """The cancellation waits for the claim's commit, and sees a running job."""
    job_id = put(connection)
    worker, person = enter("worker"), enter("api")
    worker.execute("BEGIN")
    claim_one(worker)
    with meanwhile(lambda: cancel_job(person, job_id)) as cancelling:
        wait_until_blocked(connection, person)
        worker.execute("COMMIT")
        with pytest.raises(Conflict, match="is running"):
            cancelling.result(20)
    assert row(connection, job_id)["status"] == "running"


def test_a_job_cancelled_between_a_claims_look_and_its_lock_is_not_claimed(
    connection: Connection, enter: Enter
) -> None:
    cancelled, other = put_many(connection, [{}] * 2)
    worker, person = enter("worker"), enter("api")
    with pause(connection, worker) as resume, meanwhile(lambda: claim(worker)) as claiming:
        wait_until_blocked(connection, worker)
        cancel_job(person, cancelled)
        resume()
        assert [one.id for one in claiming.result(20)] == [other]
    assert row(connection, cancelled)["status"] == "cancelled"


@pytest.mark.case("R3")
def test_of_many_replays_at_once_one_revives_the_job(connection: Connection, enter: Enter) -> None:
    """R3, in parallel."""
    job_id = put(connection)
    bury(connection, claim_one(connection))
    people = [enter("api") for _ in range(6)]
    barrier = Barrier(6)

    def replay(person: Connection) -> bool:
        barrier.wait()
        return replay_job(person, job_id)

    with ThreadPoolExecutor(max_workers=6) as executor:
        assert sorted(executor.map(replay, people)) == [False] * 5 + [True]
    assert tally(connection) == {"pending": 1}


def test_bulk_replays_at_once_share_the_dead_jobs(connection: Connection, enter: Enter) -> None:
    dead = put_many(connection, [{}] * 100)
    bury(connection, *claim(connection, limit=100, reach=100))
    people = [enter("api") for _ in range(4)]
    with ThreadPoolExecutor(max_workers=4) as executor:
        revived = [job_id for ids in executor.map(lambda person: replay_dead(person, None), people) for job_id in ids]
    assert sorted(revived) == dead
