"""One key, one job, whoever asks how often and whoever rolls back."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from uuid import UUID

import pytest

import dilamme
from dilamme.domain.errors import Conflict
from dilamme.store.connection import Connection
from dilamme.usecases.submit import Receipt, submit
from dilamme.wire.requests import BatchSubmission, Submission, parse
from tests.support.entrance import Enter
from tests.support.jobs import ECHO, put, tally
from tests.support.rivals import meanwhile, wait_until_blocked


def _submit(connection: Connection, key: str, **fields: object) -> Receipt:
    return submit(connection, [parse(Submission, {"type": ECHO, **fields})], key, single=True)


@pytest.mark.case("B1")
def test_fifty_connections_with_one_key_make_one_job(connection: Connection, enter: Enter) -> None:
    """B1: fifty equal ids, one of them said to be created."""
    connections = [enter("api") for _ in range(50)]
    barrier = Barrier(50)

    def post(own: Connection) -> Receipt:
        barrier.wait()
        return _submit(own, "key")

    with ThreadPoolExecutor(max_workers=50) as executor:
        receipts = list(executor.map(post, connections))
    assert len({receipt.ids[0] for receipt in receipts}) == 1
    assert sum(receipt.created for receipt in receipts) == 1
    assert tally(connection) == {"pending": 1}


def test_whoever_waits_for_a_key_gets_it_when_its_first_user_rolls_back(connection: Connection, enter: Enter) -> None:
    first, second = enter("api"), enter("api")
    first.execute("BEGIN")
    gone = put(first, "key")
    with meanwhile(lambda: _submit(second, "key")) as posting:
        wait_until_blocked(connection, second)
        first.execute("ROLLBACK")
        receipt = posting.result(20)
    assert receipt.created
    assert receipt.ids != [gone]
    assert tally(connection) == {"pending": 1}


def test_whoever_waits_for_a_key_gets_the_first_job_when_its_user_commits(connection: Connection, enter: Enter) -> None:
    first, second = enter("api"), enter("api")
    first.execute("BEGIN")
    kept = put(first, "key")
    with meanwhile(lambda: _submit(second, "key")) as posting:
        wait_until_blocked(connection, second)
        first.execute("COMMIT")
        receipt = posting.result(20)
    assert (receipt.created, receipt.ids) == (False, [kept])


@pytest.mark.case("B1")
def test_the_same_key_for_another_body_is_refused(connection: Connection) -> None:
    """B1: and nothing of the second is stored."""
    put(connection, "key", payload={"a": 1})
    for other in ({"payload": {"a": 2}}, {"payload": {"a": 1}, "priority": 1}):
        with pytest.raises(Conflict, match="stands for another request"):
            put(connection, "key", **other)
    assert tally(connection) == {"pending": 1}


def test_the_same_body_spelt_otherwise_is_the_same(connection: Connection) -> None:
    """As parsed: key order and defaults written out do not count."""
    first = put(connection, "key", payload={"a": 1, "b": 2})
    assert put(connection, "key", payload={"b": 2, "a": 1}, priority=2, dependency_ids=[]) == first


def test_a_batchs_key_covers_the_batch(connection: Connection) -> None:
    batch = [parse(BatchSubmission, {"type": ECHO, "ref": ref}) for ref in "ab"]
    first = submit(connection, batch, "key")
    again = submit(connection, batch, "key")
    assert (again.ids, again.refs, again.created) == (first.ids, ["a", "b"], False)
    with pytest.raises(Conflict):
        submit(connection, batch[:1], "key")


def test_a_refused_submission_leaves_its_key_free(connection: Connection) -> None:
    with pytest.raises(dilamme.domain.errors.InvalidInput):
        put(connection, "key", dependency_ids=[UUID(int=1)])
    assert connection.execute("SELECT count(*) FROM dilamme.idempotency_keys").fetchone() == (0,)
    put(connection, "key")
