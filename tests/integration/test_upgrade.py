"""From 0.1.0 on the schema changes by migrations only: an upgrade finds jobs in every state, and old functions at work.

The package of each release is kept in ``releases/``, as it was. It makes the database, fills it, and works on it while the
migrations since are applied, and after them. The tests look whether a job was lost, changed or kept waiting. Steps that would
do so, given to the same migrator, show that it is noticed.
"""

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from psycopg.rows import dict_row

import dilamme
from dilamme import settings as settings_module
from dilamme.settings import Settings
from dilamme.store import schema as store
from dilamme.store.connection import Connection, connect
from dilamme.testing.databases import Databases
from dilamme.usecases.migrate import migrate
from tests.integration.workshop import Workshop
from tests.support.entrance import Entrance
from tests.support.jobs import ECHO, put, row, rows
from tests.support.waiting import wait_until

# Of 0001_initial.sql as 0.1.0 has it. A database that was made with it refuses another: add a migration instead.
INITIAL_CHECKSUM = "d13a27917fcab477ef8c4541b16eb041cc38d15c945d3965bd1e4345b2a1c377"
RELEASES = Path(__file__).with_name("releases")
# Each release by the checksum of its package: shared/dilamme at its last commit, zipped, without the certificates.
PACKAGES = {"v0_1_0": "aebe622e8c0c46c1891894d6158364e42f64eeca2466b02d39dc270ff6e14436"}
FAR = datetime(2999, 1, 1, tzinfo=UTC)
READY = 150  # that each of them leaves ready
WAIT_SECONDS_MAX = 1.5  # a worker's role gives up after two
TABLES = ["jobs", "job_dependencies", "series", "idempotency_keys", "outbox"]
MOVING = {"send_at"}  # pushed ahead whenever a leader tries
Row = Mapping[str, Any]


@dataclass
class Installation:
    """A database that ``release`` has made, with jobs in every state."""

    release: str
    entrance: Entrance
    owner: Connection
    ready: list[UUID]
    claimed: list[str]  # id, attempt and token, by a worker that lives
    child: UUID  # of that job
    before: dict[str, Sequence[Row]] = field(default_factory=dict)

    def stored(self, table: str) -> Sequence[Row]:
        with self.owner.cursor(row_factory=dict_row) as cursor:
            found = cursor.execute(f"SELECT * FROM dilamme.{table} ORDER BY 1, 2").fetchall()
        return [{name: value for name, value in stored.items() if name not in MOVING} for stored in found]

    def start(self, verb: str, *arguments: str) -> subprocess.Popen[str]:
        return start(self.release, verb, self.entrance.superuser_url, *arguments)

    def run(self, verb: str, *arguments: str) -> str:
        return run(self.release, verb, self.entrance.superuser_url, *arguments)


def start(release: str, *arguments: str) -> subprocess.Popen[str]:
    """A process in which the release's package is the only Dilamme."""
    environment = {**os.environ, "PYTHONPATH": str(RELEASES / f"{release}.zip")}
    command = [sys.executable, "-P", str(RELEASES / f"{release}.py"), *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def run(release: str, *arguments: str) -> str:
    """What such a process writes until it ends, which it must do well."""
    process = start(release, *arguments)
    written, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return written.strip()


@pytest.fixture(scope="module", params=PACKAGES)
def filled(request: pytest.FixtureRequest, databases: Databases) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """A release, the name of a database that it has filled, and what it tells of it."""
    name = databases.create_empty()
    told = json.loads(run(request.param, "fill", databases.direct(name)))
    yield request.param, name, told
    databases.drop(name)


@pytest.fixture
def installation(filled: tuple[str, str, Mapping[str, Any]], databases: Databases) -> Iterator[Installation]:
    release, template, told = filled
    name = databases.copy(template)
    entrance = Entrance(databases.server, name)
    with closing(connect(entrance.superuser_url)) as owner:
        ready = [UUID(job_id) for job_id in told["ready"]]
        found = Installation(release, entrance, owner, ready, told["claimed"], UUID(told["child"]))
        found.before = {table: found.stored(table) for table in TABLES}
        statuses = [stored["status"] for stored in found.before["jobs"]]
        assert {status: statuses.count(status) for status in statuses} == {
            "completed": 2, "dead": 1, "cancelled": 1, "running": 1, "pending": READY + 4
        }  # fmt: skip
        assert all(found.before.values())
        yield found
    databases.drop(name)


def upgrade(installation: Installation, settings: Settings) -> list[str]:
    """Migrates beside the old functions, which then run what is ready, also of the code of today; what was harmed."""
    process = installation.start("work")
    ran: list[str] = []
    assert process.stdin is not None
    reader = threading.Thread(target=lambda: ran.extend(line.strip() for line in process.stdout or ()))
    reader.start()
    young: list[UUID] = []
    try:
        wait_until(lambda: len(ran) > 5, "the old functions are at work")
        assert len(ran) < READY / 2, "the upgrade comes too late: more jobs are needed"
        with closing(Witness(installation.entrance)) as witness:
            migrate(installation.owner, settings)
        harmed = ["a worker waited too long"] * (witness.seconds > WAIT_SECONDS_MAX)
        settled = installation.start("settle", *installation.claimed).wait(60)
        harmed += ["a result was turned away"] * (settled != 0)
        with closing(connect(installation.entrance.url("api"))) as api:
            young.append(put(api))
        wait_until(lambda: process.poll() is not None or idle(installation), "the worker finds nothing more")
    finally:
        process.stdin.close()
        reader.join()
    harmed += ["the old functions were turned away"] * (process.wait() != 0)
    ran = [line for line in ran if line != "at work"]
    return [*harmed, *lost(installation, ran, young), *disordered(installation)]


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


def lost(installation: Installation, ran: Sequence[str], young: Sequence[UUID]) -> Iterator[str]:
    """What is gone or has changed, of all that no worker was to touch; and jobs that did not run once."""
    due = [*installation.ready, installation.child, *young]
    claimed = UUID(installation.claimed[0])
    if sorted(ran) != sorted(map(str, due)):
        yield "a ready job did not run exactly once"
    if {stored["status"] for stored in rows(installation.owner, [*due, claimed])} != {"completed"}:
        yield "a job that ran is not completed"
    worked_on = {*due, claimed}
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
    stored_now = rows(installation.owner, [stored["id"] for stored in in_order])
    starts = [stored["started_at"] for stored in stored_now if stored["started_at"] is not None]
    return ["jobs were claimed in another order"] * (starts != sorted(starts))


def one_more(monkeypatch: pytest.MonkeyPatch, text: str, compatible_from: int = 1) -> None:
    """Gives the migrator a throw-away step after the real ones, and today's code knows of it as of those."""
    checksum = hashlib.sha256(text.encode()).hexdigest()
    step = store.Step(store.known_version() + 1, "thrown_away", checksum, compatible_from)
    known = store.steps()
    monkeypatch.setattr(store, "steps", lambda: (*known, (step, text)))


def test_the_first_migration_is_as_it_was_released() -> None:
    step, text = store.steps()[0]
    assert (step.version, step.name, step.checksum) == (1, "initial", INITIAL_CHECKSUM)
    assert hashlib.sha256(text.encode()).hexdigest() == INITIAL_CHECKSUM


@pytest.mark.parametrize("release", PACKAGES)
def test_a_release_is_kept_as_it_was(release: str) -> None:
    assert hashlib.sha256((RELEASES / f"{release}.zip").read_bytes()).hexdigest() == PACKAGES[release]


def test_an_upgrade_beside_old_functions_harms_nothing(installation: Installation, settings: Settings) -> None:
    assert upgrade(installation, settings) == []
    assert [step.version for step in store.applied(installation.owner)] == [step.version for step, _ in store.steps()]


def test_what_an_old_function_stores_after_the_upgrade_a_new_one_runs(
    installation: Installation, settings: Settings
) -> None:
    migrate(installation.owner, settings)
    old = UUID(installation.run("submit"))
    with closing(Workshop(installation.entrance, settings)) as workshop:
        workshop.work()
    stored = rows(installation.owner, [old, *installation.ready])
    assert [one["status"] for one in stored] == ["completed"] * (READY + 1)


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
        ("SELECT 1", 2, {"the old functions were turned away"}),
        ("UPDATE dilamme.jobs SET priority = 4 - priority WHERE status = 'pending'", 1,
         {"jobs were claimed in another order"}),
        (LOSES, 1, LOST),
        ("ALTER TABLE dilamme.job_dependencies RENAME COLUMN parent_id TO parent", 1, {"the old functions were turned away"}),
    ],
    ids=["locks", "is not compatible", "reorders", "loses", "renames"],
)  # fmt: skip
def test_a_step_that_harms_is_noticed(
    installation: Installation, settings: Settings, monkeypatch: pytest.MonkeyPatch,
    text: str, compatible_from: int, noticed: set[str],
) -> None:  # fmt: skip
    one_more(monkeypatch, text, compatible_from)
    assert {*upgrade(installation, settings)} >= noticed


def test_a_right_that_is_taken_away_is_noticed(
    installation: Installation, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def grant_less(connection: Connection) -> None:
        connection.execute("REVOKE UPDATE ON dilamme.jobs FROM dilamme_worker")

    monkeypatch.setattr(store, "grant", grant_less)
    assert "a result was turned away" in upgrade(installation, settings)


# As docs/aws.md of 0.1.0 had them.
RIGHTS_OF_0_1_0 = """
    GRANT USAGE ON SCHEMA dilamme TO application;
    GRANT SELECT, INSERT, UPDATE ON dilamme.jobs TO application;
    GRANT INSERT ON dilamme.job_dependencies, dilamme.series TO application;
    GRANT SELECT, INSERT ON dilamme.idempotency_keys TO application;
    GRANT SELECT, UPDATE ON dilamme.worker_slots, dilamme.scheduler_lease TO application;
    GRANT SELECT ON dilamme.outbox TO application
"""


def test_an_application_keeps_its_rights(
    installation: Installation, databases: Databases, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library of today, under the rights that an application was given for that of 0.1.0."""
    owner = installation.owner
    owner.execute("CREATE ROLE application")
    try:
        owner.execute(RIGHTS_OF_0_1_0)
        migrate(owner, settings)
        monkeypatch.setattr(settings_module, "load", lambda: settings)
        with closing(connect(databases.direct(installation.entrance.name))) as caller:
            caller.execute("SET SESSION AUTHORIZATION application")
            parent = dilamme.submit(caller, ECHO, interval_seconds=60, idempotency_key="key")
            assert dilamme.submit(caller, ECHO, interval_seconds=60, idempotency_key="key") == parent
            dilamme.submit_many(caller, [{"type": ECHO, "ref": "a", "dependency_ids": [parent]}, {"type": ECHO}])
            dilamme.submit(caller, ECHO, scheduled_at=FAR)
            dilamme.wake(caller)
    finally:
        owner.execute("DROP OWNED BY application; DROP ROLE application")
