"""The embedded PostgreSQL starts anywhere, keeps its data, recovers from being killed, and stops alone."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from dilamme_local.errors import StackError
from dilamme_local.postgres import NOT_DURABLE, Postgres
from tests.support.checkout import CHECKOUT
from tests.support.processes import alive
from tests.support.waiting import wait_until


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Spaces, quotes and closed doors are no obstacle."""
    folder = tmp_path / 'it\'s "a" folder, närby'
    folder.mkdir(mode=0o700)
    return folder / "postgres"


@pytest.fixture
def server(folder: Path) -> Iterator[Postgres]:
    server = Postgres(folder, settings=NOT_DURABLE)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def shared() -> Iterator[Postgres]:
    """For tests that leave it running."""
    with tempfile.TemporaryDirectory() as short_path:
        server = Postgres(Path(short_path), settings=NOT_DURABLE)
        server.start()
        yield server
        server.stop()


def ask(url: str, statement: str) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchone() if cursor.description else None


def pid(server: Postgres) -> int:
    return int((server.cluster / "postmaster.pid").read_text().splitlines()[0])


def test_it_is_reached_over_tcp_and_over_its_socket(shared: Postgres) -> None:
    assert ask(shared.url(), "SELECT host(inet_server_addr()), current_user") == ("127.0.0.1", "postgres")
    assert ask(shared.socket_url(), "SELECT inet_server_addr(), current_user") == (None, "postgres")


@pytest.mark.case("E9")
def test_a_function_enters_by_its_role_and_nobody_without_the_password(shared: Postgres) -> None:
    ask(shared.url(), "CREATE ROLE dilamme_api LOGIN")
    shared.admit(["dilamme_api", "dilamme_worker"])
    for url in (shared.url, shared.socket_url):
        assert ask(url(user="dilamme_api"), "SELECT current_user") == ("dilamme_api",)
        for user in ("postgres", "dilamme_api"):
            bare = url(user=user).replace(url(user=user).partition("@")[0], f"postgresql://{user}")
            with pytest.raises(psycopg.OperationalError, match="no password supplied"):
                psycopg.connect(bare, passfile="/dev/null")
    superusers = shared.url().partition("@")[0].rpartition(":")[2]
    with pytest.raises(psycopg.OperationalError, match="authentication failed"):
        psycopg.connect(shared.url(user="dilamme_api"), password=superusers)


def test_a_database_is_created_once(shared: Postgres) -> None:
    shared.create_database("dilamme")
    ask(shared.url("dilamme"), "CREATE TABLE kept ()")
    shared.create_database("dilamme")
    assert ask(shared.url("dilamme"), "SELECT count(*) FROM kept") == (0,)


@pytest.mark.parametrize("immediate", [False, True])
def test_data_and_port_survive_a_restart(server: Postgres, immediate: bool) -> None:
    port = server.port
    ask(server.url(), "CREATE TABLE kept AS SELECT 42 AS answer")
    server.stop(immediate=immediate)
    server.start()
    assert server.port == port
    assert ask(server.url(), "SELECT answer FROM kept") == (42,)


def test_data_survives_into_another_run(server: Postgres, folder: Path) -> None:
    ask(server.url(), "CREATE TABLE kept AS SELECT 42 AS answer")
    server.stop()
    successor = Postgres(folder)
    successor.start()
    try:
        assert ask(successor.url(), "SELECT answer FROM kept") == (42,)
    finally:
        successor.stop()


def test_a_stop_ends_the_server(server: Postgres) -> None:
    postmaster = pid(server)
    server.stop()
    assert not alive(postmaster)
    assert not server.running


def test_a_folder_in_use_is_refused(shared: Postgres) -> None:
    with pytest.raises(StackError, match="in use by another running stack"):
        Postgres(shared.folder).start()
    assert shared.running


def test_settings_are_postgresqls(tmp_path: Path) -> None:
    server = Postgres(tmp_path, settings={"max_connections": "7", **NOT_DURABLE})
    server.start()
    try:
        assert ask(server.url(), "SHOW max_connections") == ("7",)
    finally:
        server.stop()


def test_a_setting_that_postgresql_refuses_is_told_in_its_words(tmp_path: Path) -> None:
    with pytest.raises(StackError, match=r"does not start: .*no_such_setting"):
        Postgres(tmp_path, settings={"no_such_setting": "1"}).start()


def test_data_of_another_major_version_is_left_alone(server: Postgres, folder: Path) -> None:
    server.stop()
    (server.cluster / "PG_VERSION").write_text("9\n")
    with pytest.raises(StackError, match="is of PostgreSQL 9"):
        Postgres(folder).start()
    (server.cluster / "PG_VERSION").write_text("18\n")


START_AND_WAIT = """
import sys, time
from pathlib import Path
from dilamme_local.postgres import Postgres
server = Postgres(Path(sys.argv[1]))
server.start()
print(server._leash.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def killed_run(folder: Path) -> Iterator[int]:
    """A run that started a server in the folder and was killed; its leash's pid."""
    with subprocess.Popen(
        [sys.executable, "-c", START_AND_WAIT, str(folder)], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        leash = int(run.stdout.readline())
        yield leash
        if run.poll() is None:
            run.kill()
        wait_until(lambda: not alive(leash))


def test_a_server_ends_with_a_run_that_is_killed(folder: Path, killed_run: int) -> None:
    postmaster = pid(Postgres(folder))
    os.kill(_parent(killed_run), signal.SIGKILL)
    wait_until(lambda: not alive(postmaster))


def test_the_next_run_takes_over_from_one_that_is_killed_with_its_leash(folder: Path, killed_run: int) -> None:
    orphan = pid(Postgres(folder))
    run = _parent(killed_run)
    os.kill(killed_run, signal.SIGKILL)
    os.kill(run, signal.SIGKILL)
    wait_until(lambda: not alive(run))
    successor = Postgres(folder)
    successor.start()
    try:
        assert not alive(orphan)
        assert ask(successor.url(), "SELECT 1") == (1,)
    finally:
        successor.stop()


def test_a_stale_pid_file_does_not_matter_even_if_its_pid_is_somebodys(server: Postgres) -> None:
    server.stop()
    with subprocess.Popen(["sleep", "600"]) as somebody:
        (server.cluster / "postmaster.pid").write_text(f"{somebody.pid}\n{server.cluster}\n0\n0\n\n\n\n")
        server.start()
        assert ask(server.url(), "SELECT 1") == (1,)
        assert somebody.poll() is None
        somebody.kill()


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
