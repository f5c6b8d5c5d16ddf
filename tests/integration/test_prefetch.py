"""A worker that claims ahead on a second connection: nothing is run twice, nothing lost, whatever becomes of it."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
import pytest

from dilamme.domain import batch_size
from dilamme.domain.batch_size import DEEP_JOBS_MIN, REACH_MIN
from dilamme.domain.errors import DatabaseUnavailable
from dilamme.domain.job import Claim
from dilamme.store import lanes
from dilamme.store.connection import Connection
from dilamme.worker import claiming
from tests.integration.workshop import Workshop
from tests.support.entrance import Enter
from tests.support.jobs import ECHO, claim, put_many, tally

BATCH = DEEP_JOBS_MIN
DEEP = 6 * BATCH


@pytest.fixture
def quick(workshop: Workshop) -> Workshop:
    """A worker that knows its jobs to be short, and so claims many at a time."""
    workshop.adjust(batch_jobs_max=BATCH)
    workshop.timed(ECHO, 0.0001)
    return workshop


def ran_once(workshop: Workshop, number: int) -> bool:
    """Did each of so many jobs run, and none twice?"""
    return Counter(payload["n"] for payload, _ in workshop.ran) == Counter(range(number))


def put_numbered(connection: Connection, number: int) -> None:
    put_many(connection, [{"payload": {"n": n}} for n in range(number)])


def test_a_deep_backlog_of_short_jobs_is_claimed_on_a_second_connection_which_is_closed_at_the_end(
    connection: Connection, quick: Workshop
) -> None:
    put_numbered(connection, DEEP)
    assert quick.work().settled == DEEP
    assert ran_once(quick, DEEP)
    (second,) = quick.more_connections
    assert second.closed


def test_few_jobs_need_no_second_connection(connection: Connection, quick: Workshop) -> None:
    put_numbered(connection, BATCH - 1)
    assert quick.work().settled == BATCH - 1
    assert quick.more_connections == []


def test_who_claims_few_at_a_time_needs_no_second_connection(connection: Connection, quick: Workshop) -> None:
    """As a worker of slow jobs does."""
    quick.adjust(batch_jobs_max=BATCH - 1)
    put_numbered(connection, DEEP)
    assert quick.work().settled == DEEP
    assert quick.more_connections == []


def test_where_no_second_connection_is_to_be_had_the_first_one_claims(
    connection: Connection, quick: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> Connection:
        raise DatabaseUnavailable("too many connections")

    monkeypatch.setattr(quick, "connect_once_more", refuse)
    put_numbered(connection, DEEP)
    assert quick.work().settled == DEEP
    assert ran_once(quick, DEEP)


@pytest.mark.parametrize("committed", [True, False], ids=["after the claim", "before the claim"])
def test_a_second_connection_that_breaks_loses_no_job_and_doubles_none(
    connection: Connection, quick: Workshop, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    """What it claimed and nobody heard of is handed back at once, at no attempt's cost."""
    original, broken = lanes.claim, threading.Event()

    def breaking(on: Connection, terms: lanes.Terms, token: Any) -> Sequence[Claim]:
        if on in quick.more_connections and not broken.is_set():
            broken.set()
            if committed:
                original(on, terms, token)
            on.close()
            raise psycopg.OperationalError("the server closed the connection unexpectedly")
        return original(on, terms, token)

    monkeypatch.setattr(lanes, "claim", breaking)
    put_numbered(connection, DEEP)
    quick.work()
    assert broken.is_set()
    assert tally(connection) == {"completed": DEEP}
    assert ran_once(quick, DEEP)
    assert {attempt for _, attempt in quick.ran} == {1}


def test_the_first_connection_may_break_while_the_second_claims(
    connection: Connection, quick: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the second one brings is then ours, not unheard of: it is not handed back while it runs here."""
    original, cut = lanes.claim, threading.Event()

    def slow(on: Connection, terms: lanes.Terms, token: Any) -> Sequence[Claim]:
        claims = original(on, terms, token)
        if on in quick.more_connections and not cut.is_set():
            connection.execute("SELECT pg_terminate_backend(%s)", (quick.first_pid,))
            cut.set()
            time.sleep(0.5)  # the first one has noticed
        return claims

    monkeypatch.setattr(lanes, "claim", slow)
    put_numbered(connection, DEEP)
    quick.work()
    assert cut.is_set()
    assert tally(connection) == {"completed": DEEP}
    assert {attempt for _, attempt in quick.ran} == {1}


def test_a_job_on_its_last_attempt_runs_alone_in_a_deep_backlog_too(connection: Connection, quick: Workshop) -> None:
    """Invariant 9: this worker holds no other that its crash could take along."""
    company: list[int] = []

    @quick.registry.job("test.last")
    def look(payload: Any, context: Any) -> None:
        company.append(tally(connection)["running"])

    quick.timed("test.last", 0.0001)
    jobs: list[dict[str, Any]] = [{"payload": {"n": n}} for n in range(DEEP)]
    jobs.insert(DEEP // 2, {"type": "test.last", "max_attempts": 1})
    put_many(connection, jobs)
    quick.work()
    assert tally(connection) == {"completed": DEEP + 1}
    assert company == [1]


def test_after_a_claim_that_a_rival_cut_short_it_looks_further_down(
    connection: Connection, enter: Enter, quick: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two workers of one backlog would else get a handful of jobs at every other look."""
    put_numbered(connection, DEEP)
    rival = enter("worker")
    rival.execute("BEGIN")
    assert len(claim(rival, limit=BATCH)) == BATCH
    seen = _watch_claims(monkeypatch)
    quick.work()
    assert [claimed for _, claimed in seen[:2]] == [REACH_MIN, BATCH]
    assert tally(connection)["completed"] == DEEP - BATCH
    rival.execute("ROLLBACK")


def test_a_claim_of_large_payloads_takes_fewer(
    connection: Connection, quick: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the size of those before: what is claimed must fit into the worker's memory, twice and more."""
    monkeypatch.setattr(batch_size, "BATCH_CHARACTERS_MAX", 20_000)
    put_many(connection, [{"payload": "x" * 998} for _ in range(BATCH + 50)])
    seen = _watch_claims(monkeypatch)
    assert quick.work().settled == BATCH + 50
    assert seen[0][0] == BATCH
    assert {most for most, _ in seen[1:]} == {20}


@pytest.mark.case("W1")
def test_a_claim_of_large_payloads_after_small_ones_stops_at_its_most_characters(
    connection: Connection, quick: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W1: what was learnt from echoes says nothing of what comes next."""
    claimed: list[int] = []
    learn = batch_size.BatchSize.learn

    def watching(self: batch_size.BatchSize, claims: Sequence[Claim]) -> bool:
        claimed.append(sum(one.payload_characters for one in claims))
        return learn(self, claims)

    monkeypatch.setattr(batch_size.BatchSize, "learn", watching)
    monkeypatch.setattr(claiming, "BATCH_CHARACTERS_MAX", 20_000)
    monkeypatch.setattr(batch_size, "BATCH_CHARACTERS_MAX", 20_000)
    put_many(connection, [{"priority": 1}] * (2 * BATCH))
    # Of which PostgreSQL stores one as it is and compresses the other.
    large = [{"payload": random.Random(7).randbytes(495).hex()}, {"payload": "x" * 3_000}]
    put_many(connection, large * 40)
    assert quick.work().settled == 2 * BATCH + 80
    assert max(claimed) <= 20_000
    assert tally(connection) == {"completed": 2 * BATCH + 80}


def test_a_payload_that_is_longer_than_a_claim_may_be_is_claimed_alone(
    connection: Connection, quick: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claiming, "BATCH_CHARACTERS_MAX", 20_000)
    put_many(connection, [{"payload": "x" * 50_000}, {"payload": "y" * 50_000}, {}])
    assert quick.work().settled == 3


def test_many_large_payloads_are_read_as_they_run(
    connection: Connection, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "AT_ONCE_CHARACTERS_MAX", 10_000)
    payloads: list[dict[str, Any]] = [{"text": f"{number}" * 3_000, "list": [1, {"a": None}]} for number in range(5)]
    put_many(connection, [{"payload": payload} for payload in payloads])
    workshop.work()
    assert sorted(payload["text"] for payload, _ in workshop.ran) == sorted(payload["text"] for payload in payloads)
    assert all(payload["list"] == [1, {"a": None}] for payload, _ in workshop.ran)


def _watch_claims(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Of each claim, the first included: how many it could have taken, and how many it took."""
    seen: list[tuple[int, int]] = []

    def watched(claim: Callable[..., Any]) -> Callable[..., Any]:
        def watching(on: Connection, terms: lanes.Terms, *more: Any, **named: Any) -> Any:
            claims = claim(on, terms, *more, **named)
            seen.append((terms.limit, len(claims or ())))
            return claims

        return watching

    for name in ("start_and_claim", "claim"):
        monkeypatch.setattr(lanes, name, watched(getattr(lanes, name)))
    return seen
