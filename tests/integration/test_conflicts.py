"""Two transactions that wait for each other: PostgreSQL ends one, and a use case of ours begins again (invariant 14)."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from dilamme.store.connection import Connection, repeat_on_conflict
from tests.support.entrance import Enter
from tests.support.jobs import put, put_many, row
from tests.support.rivals import wait_until_blocked

LOCK = "SELECT FROM dilamme.jobs WHERE id = %s FOR UPDATE"


@pytest.mark.case("D6")
def test_a_submission_that_a_deadlock_has_ended_is_repeated_unseen(connection: Connection, enter: Enter) -> None:
    """A stranger's transaction keeps to no order. Whoever has waited for longer is ended: here, we."""
    first, second = put_many(connection, [{}, {}])
    stranger, poster = enter("api"), enter("api")
    with ThreadPoolExecutor(max_workers=1) as executor:
        with stranger.transaction():
            stranger.execute(LOCK, (second,))
            posted = executor.submit(put, poster, dependency_ids=[first, second])
            wait_until_blocked(connection, poster)
            stranger.execute(LOCK, (first,))
        child = posted.result(20)
    assert row(connection, child)["unmet_dependencies"] == 2


@pytest.mark.parametrize("conflict", [psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure])
def test_a_conflict_that_does_not_end_reaches_the_caller_at_last(conflict: type[psycopg.Error]) -> None:
    tries: list[int] = []

    @repeat_on_conflict
    def always() -> None:
        tries.append(1)
        raise conflict

    with pytest.raises(conflict):
        always()
    assert 3 < len(tries) < 10


def test_an_error_of_another_kind_is_not_repeated() -> None:
    tries: list[int] = []

    @repeat_on_conflict
    def refused() -> None:
        tries.append(1)
        raise psycopg.errors.CheckViolation

    with pytest.raises(psycopg.errors.CheckViolation):
        refused()
    assert tries == [1]
