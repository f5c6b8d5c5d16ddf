"""From 0.1.0 on the schema changes by migrations only: an upgrade finds jobs in every state, and old workers at work.

The tests make such a database, apply every migration since, and look whether a job was lost, changed or kept waiting. Steps that
would do so, given to the same migrator, show that it is noticed.
"""

import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from psycopg.rows import dict_row

from dilamme.domain.job import Claim
from dilamme.settings import Settings
from dilamme.store import schema as store
from dilamme.store.connection import Connection, connect
from dilamme.usecases.cancel import cancel_job
from dilamme.usecases.migrate import migrate
from local.options import CHECKOUT
from tests.integration.workshop import Workshop
from tests.support.databases import Databases
from tests.support.entrance import Entrance
from tests.support.jobs import bury, claim, claim_one, complete, put, put_many, retry, row, rows
from tests.support.waiting import wait_until

# Of 0001_initial.sql as 0.1.0 has it. A database that was made with it refuses another: add a migration instead.
INITIAL_CHECKSUM = "d13a27917fcab477ef8c4541b16eb041cc38d15c945d3965bd1e4345b2a1c377"
READY = 150
WAIT_SECONDS_MAX = 1.5  # a worker's role gives up after two
FAR = "2999-01-01T00:00:00Z"
TABLES = ["jobs", "job_dependencies", "series", "idempotency_keys", "outbox"]
Row = Mapping[str, Any]


@dataclass
class Installation:
    """A database of 0.1.0, with jobs in every state."""

    entrance: Entrance
    owner: Connection
    ready: list[UUID]
    claimed: Claim  # by a worker that lives
    child: UUID  # of that job
    before: dict[str, Sequence[Row]]

    def stored(self, table: str) -> Sequence[Row]:
        with self.owner.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(f"SELECT * FROM dilamme.{table} ORDER BY 1, 2").fetchall()


@pytest.fixture
def installation(databases: Databases, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installation]:
    name = databases.create_empty()
    entrance = Entrance(databases.server, name)
    with closing(connect(entrance.superuser_url)) as owner:
        first = store.steps()[:1]
        with monkeypatch.context() as as_in_0_1_0:
            as_in_0_1_0.setattr(store, "steps", lambda: first)
            assert migrate(owner, settings).applied == [1]
        yield fill(entrance, owner, settings)
    databases.drop(name)


def fill(entrance: Entrance, owner: Connection, settings: Settings) -> Installation:
    """Jobs that rest, each in a state of its own, one that runs, and many that are ready."""
    done, dead, later = put_many(owner, [{}, {}, {}])
    mine = {one.id: one for one in claim(owner)}
    complete(owner, mine[done])
    bury(owner, mine[dead])
    retry(owner, mine[later], delay_seconds=3600)
    cancel_job(owner, put(owner))
    put(owner, interval_seconds=3600)
    complete(owner, claim_one(owner))  # its next occurrence is in an hour
    put(owner, key="k", scheduled_at=FAR)
    running = put(owner)
    with closing(Workshop(entrance, settings)) as workshop:
        claimed = claim_one(owner, worker=workshop.reserve().token)
    assert claimed.id == running
    child = put(owner, dependency_ids=[running])
    ready = put_many(owner, [{"priority": 1 + number % 3} for number in range(READY)])
    found = Installation(entrance, owner, ready, claimed, child, {})
    found.before = {table: found.stored(table) for table in TABLES}
    statuses = [stored["status"] for stored in found.before["jobs"]]
    assert {status: statuses.count(status) for status in statuses} == {
        "completed": 2, "dead": 1, "cancelled": 1, "running": 1, "pending": READY + 4
    }  # fmt: skip
    assert all(found.before.values())
    return found


def upgrade(installation: Installation, settings: Settings) -> list[str]:
    """Migrates beside an old worker, which then runs what is ready; what was harmed."""
    command = [sys.executable, "-m", "tests.integration.old_worker", installation.entrance.url("worker")]
    environment = {**os.environ, "PYTHONPATH": f"{CHECKOUT}:{CHECKOUT / 'shared'}"}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    ran: list[str] = []
    assert process.stdin is not None
    reader = threading.Thread(target=lambda: ran.extend(line.strip() for line in process.stdout or ()))
    reader.start()
    try:
        wait_until(lambda: len(ran) > 5, "the old worker is at work")
        assert len(ran) < READY / 2, "the upgrade comes too late: more jobs are needed"
        with closing(Witness(installation.entrance)) as witness:
            migrate(installation.owner, settings)
        complete(installation.owner, installation.claimed)  # as its worker would, that has lived through it
        harmed = ["a worker waited too long"] * (witness.seconds > WAIT_SECONDS_MAX)
        wait_until(lambda: process.poll() is not None or idle(installation), "the worker finds nothing more")
    finally:
        process.stdin.close()
        reader.join()
    harmed += ["the old worker was turned away"] * (process.wait() != 0)
    return [*harmed, *lost(installation, ran), *disordered(installation)]


class Witness:
    """Sees how long a worker waits for a lock, at the most."""

    def __init__(self, entrance: Entrance) -> None:
        self.seconds = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, args=[entrance.superuser_url])
        self._thread.start()

    def close(self) -> None:
        self._done.set()
        self._thread.join()

    def _look(self, url: str) -> None:
        with closing(connect(url)) as connection:
            while not self._done.wait(0.02):
                ((waited,),) = connection.execute(
                    "SELECT coalesce(max(extract(epoch FROM clock_timestamp() - query_start)), 0)::float8 FROM pg_stat_activity"
                    " WHERE datname = current_database() AND usename = 'dilamme_worker' AND wait_event_type = 'Lock'"
                )
                self.seconds = max(self.seconds, waited)


def idle(installation: Installation) -> bool:
    """Has everything run that an old worker would run?"""
    (found,) = installation.owner.execute(
        "SELECT count(*) FROM dilamme.jobs WHERE status = 'running' OR status = 'pending' AND ready_at <= dilamme.clock()"
    ).fetchone()  # type: ignore[misc]
    return not found


def lost(installation: Installation, ran: Sequence[str]) -> Iterator[str]:
    """What is gone or has changed, of all that no worker was to touch; and jobs that did not run once."""
    due = [*installation.ready, installation.child]
    if sorted(ran) != sorted(map(str, due)):
        yield "a ready job did not run exactly once"
    if {stored["status"] for stored in rows(installation.owner, [*due, installation.claimed.id])} != {"completed"}:
        yield "a job that ran is not completed"
    worked_on = {*due, installation.claimed.id}
    for table, before in installation.before.items():
        now = {key(stored): stored for stored in installation.stored(table)}
        for stored in before:
            after = now.get(key(stored), {})
            same = all(name in after and after[name] == value for name, value in stored.items())
            if not same and stored.get("id") not in worked_on:
                yield f"a row of {table} is not what it was"


def key(stored: Row) -> tuple[Any, ...]:
    """Its first two columns: in each of the tables these say which row it is, and never change."""
    return tuple(stored.values())[:2]


def disordered(installation: Installation) -> list[str]:
    """Were the jobs claimed in the comparator's order? One worker claims one batch after the other."""
    in_order = sorted(
        (stored for stored in installation.before["jobs"] if stored["id"] in installation.ready),
        key=lambda stored: (stored["priority"], stored["ready_at"], stored["created_at"], stored["id"]),
    )
    starts = [stored["started_at"] for stored in rows(installation.owner, [stored["id"] for stored in in_order])]
    return ["jobs were claimed in another order"] * (starts != sorted(starts))


def one_more(monkeypatch: pytest.MonkeyPatch, text: str, compatible_from: int = 1) -> None:
    """Gives the migrator a throw-away step after the real ones, and its code knows of it as of those."""
    checksum = hashlib.sha256(text.encode()).hexdigest()
    step = store.Step(store.known_version() + 1, "thrown_away", checksum, compatible_from)
    known = store.steps()
    monkeypatch.setattr(store, "steps", lambda: (*known, (step, text)))


def test_the_first_migration_is_as_it_was_released() -> None:
    step, text = store.steps()[0]
    assert (step.version, step.name, step.checksum) == (1, "initial", INITIAL_CHECKSUM)
    assert hashlib.sha256(text.encode()).hexdigest() == INITIAL_CHECKSUM


def test_an_upgrade_beside_old_workers_harms_nothing(installation: Installation, settings: Settings) -> None:
    assert upgrade(installation, settings) == []
    assert [step.version for step in store.applied(installation.owner)] == [step.version for step, _ in store.steps()]


def test_a_column_more_harms_nothing(
    installation: Installation, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_more(monkeypatch, "ALTER TABLE dilamme.jobs ADD COLUMN thrown_away text")
    assert upgrade(installation, settings) == []
    assert row(installation.owner, installation.child)["thrown_away"] is None


LOSES = """
    DELETE FROM dilamme.jobs WHERE status = 'dead' OR status = 'pending' AND priority = 3;
    TRUNCATE dilamme.idempotency_keys;
    ALTER TABLE dilamme.outbox DROP COLUMN message
"""
LOST = {
    "a row of jobs is not what it was",
    "a ready job did not run exactly once",
    "a row of idempotency_keys is not what it was",
    "a row of outbox is not what it was",
}


@pytest.mark.parametrize(
    ("text", "compatible_from", "noticed"),
    [
        ("LOCK TABLE dilamme.jobs IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(4)", 1, {"a worker waited too long"}),
        ("SELECT 1", 2, {"the old worker was turned away"}),
        ("UPDATE dilamme.jobs SET priority = 4 - priority WHERE status = 'pending'", 1,
         {"jobs were claimed in another order"}),
        (LOSES, 1, LOST),
    ],
    ids=["locks", "is not compatible", "reorders", "loses"],
)  # fmt: skip
def test_a_step_that_harms_is_noticed(
    installation: Installation, settings: Settings, monkeypatch: pytest.MonkeyPatch,
    text: str, compatible_from: int, noticed: set[str],
) -> None:  # fmt: skip
    one_more(monkeypatch, text, compatible_from)
    assert {*upgrade(installation, settings)} >= noticed
