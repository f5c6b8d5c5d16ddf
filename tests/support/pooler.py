"""PgBouncer in transaction mode in front of PostgreSQL 15: ``make test-pgbouncer`` runs integration and e2e through it.

With TESTS_THROUGH_PGBOUNCER set, the session's server is this one. Every connection goes through the pooler, the
functions' and the tests' own; only what a pooler would stand in the way of (copying and dropping whole databases) is
done on a direct one. Each transaction may come to another of the server's connections (``server_round_robin``), and named
prepared statements are refused.
"""

import os
import socket
import subprocess
import time
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import pytest

import dilamme_local.postgres
from dilamme.store.session_settings import ROLE_PREFIX
from dilamme.testing.databases import Databases
from dilamme_local.ports import free_port
from dilamme_local.postgres import NOT_DURABLE, OPEN_HBA, SUPERUSER, Postgres
from dilamme_local.postgres_commands import as_server_user, give_to_server

MAJOR = 15
BINARIES = Path(f"/usr/lib/postgresql/{MAJOR}/bin")
PROGRAMS = [Path("/usr/sbin/pgbouncer"), Path("/usr/bin/pgbouncer")]
ROLES = [ROLE_PREFIX + function for function in ("api", "scheduler", "worker", "rescue")]
START_SECONDS_MAX = 20

CONFIGURATION = """\
[databases]
* = host=127.0.0.1 port={server_port}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {users}
pool_mode = transaction
max_client_conn = 2000
default_pool_size = 60
server_round_robin = 1
server_login_retry = 1
server_check_delay = 0
"""

_KEPT = "sets what a session keeps, and the pooler lends the session to others"
_ROLE = "takes a role for a session, which the pooler lends to others"
_HELD = "holds a statement in its middle by the process id of its connection, which a pooler does not tell"
# Tests, by the beginning of their id, that cannot go through a pooler, and why.
UNFIT = {
    "tests/integration/test_connections.py::test_connections_terminated": "counts reconnects, which the pooler makes for us",
    "tests/integration/test_connections.py::test_a_connection_that_was_used": "looks at a backend, which the pooler may lend to another",
    "tests/integration/test_connections.py::test_a_connection_that_was_cut": "counts reconnects, which the pooler makes for us",
    "tests/integration/test_connections.py::test_workers_for_whom": "exhausts connections; the pooler lets one wait for them",
    "tests/integration/test_connections.py::test_a_worker_whose_session": _KEPT,
    "tests/integration/test_connections.py::test_a_step_on_a_session": _KEPT,
    "tests/integration/test_session_settings.py::test_a_callers_own": _KEPT,
    "tests/integration/test_sql_submit.py::test_a_callers_settings": _KEPT,
    "tests/integration/test_sql_submit.py::test_a_role_with": _ROLE,
    "tests/integration/test_sql_submit.py::test_a_trigger_under": _ROLE,
    "tests/integration/test_sql_submit.py::test_what_a_caller_puts": _ROLE,
    "tests/integration/test_submit_async.py::test_an_error_of_postgresqls": _KEPT,
    "tests/integration/test_exactness.py::test_a_claim_whose_snapshot_is_older": _HELD,
    "tests/integration/test_exactness.py::test_a_claim_of_handed_ids_refuses": _HELD,
    "tests/integration/test_retention.py::test_a_dead_job_replayed_between": _HELD,
    "tests/integration/test_retention.py::test_a_parent_whose_child_came_between": _HELD,
    "tests/integration/test_revisions.py::test_a_job_cancelled_between": _HELD,
    "tests/integration/test_roles.py::test_the_rights_that_docs_give": _ROLE,
    "tests/integration/test_schema.py::test_an_owner_beside": "logs in as a role of its own making, unknown to the pooler",
    "tests/integration/test_schema.py::test_without_the_right": "logs in as a role of its own making, unknown to the pooler",
}


def wanted() -> bool:
    """Are the tests to go through a pooler?"""
    return bool(os.environ.get("TESTS_THROUGH_PGBOUNCER"))


def missing() -> str | None:
    """What this machine lacks for it."""
    if not (BINARIES / "postgres").exists():
        return f"PostgreSQL {MAJOR} (Debian: postgresql-{MAJOR})"
    return None if _program() else "PgBouncer (Debian: pgbouncer)"


def skip_unfit(items: list[pytest.Item]) -> None:
    """Marks what cannot go through a pooler."""
    for item in items:
        for beginning, reason in UNFIT.items():
            if item.nodeid.startswith(beginning):
                item.add_marker(pytest.mark.skip(reason=reason))


class OlderPostgres(Postgres):
    """The distribution's server instead of the embedded one, which is newer."""

    def _initialise(self) -> None:
        setattr(dilamme_local.postgres, "binary", BINARIES.joinpath)  # noqa: B010  instead of the wheel's
        super()._initialise()
        # Patterns of users came with PostgreSQL 16.
        (self.cluster / "pg_hba.conf").write_text(OPEN_HBA.replace(f"/^{ROLE_PREFIX}", ",".join(ROLES)))

    def _initdb(self, password: Path) -> None:
        # The built-in locale provider came with PostgreSQL 17.
        unfinished = self.folder / "cluster.unfinished"
        unfinished.mkdir(mode=0o700)
        give_to_server(unfinished)
        command = [*as_server_user(), str(BINARIES / "initdb"), "-D", str(unfinished), "--no-sync"]
        command += [f"--username={SUPERUSER}", f"--pwfile={password}", "--encoding=UTF8", "--locale=C.UTF-8"]
        subprocess.run(command, capture_output=True, check=True)
        unfinished.rename(self.cluster)


class Pooled:
    """A server that is reached through PgBouncer, by ``url`` and ``port``; `direct` leads past it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server = OlderPostgres(folder, settings=NOT_DURABLE)
        self._pooler: subprocess.Popen[bytes] | None = None
        self.port = 0

    def direct(self, database: str = "postgres") -> str:
        """For the superuser."""
        return self._server.url(database)

    def url(self, database: str = "postgres", user: str = SUPERUSER) -> str:
        return self._server.url(database, user).replace(f":{self._server.port}/", f":{self.port}/")

    def create_database(self, name: str) -> None:
        self._server.create_database(name)

    def start(self) -> None:
        self._server.start()
        self.port = free_port()
        users, configuration = self._folder / "users.txt", self._folder / "pgbouncer.ini"
        passwords = {SUPERUSER: urlsplit(self.direct()).password or "", **dict.fromkeys(ROLES, "")}
        users.write_text("".join(f'"{user}" "{password}"\n' for user, password in passwords.items()))
        configuration.write_text(CONFIGURATION.format(server_port=self._server.port, port=self.port, users=users))
        for file in (users, configuration):
            file.chmod(0o600)
            give_to_server(file)
        with (self._folder / "pgbouncer.log").open("ab") as log:
            command = [*as_server_user(), str(_program()), "-q", str(configuration)]
            self._pooler = subprocess.Popen(command, stdout=log, stderr=log)
        _wait_for(self.port)

    def stop(self) -> None:
        """Ends the pooler, then the server."""
        if self._pooler is not None:
            self._pooler.terminate()
            self._pooler.wait()
        self._server.stop()


class PooledDatabases(Databases):
    """Databases that are made past the pooler."""

    def direct(self, name: str) -> str:
        return cast("Pooled", self.server).direct(name)


def _program() -> Path | None:
    return next(filter(Path.exists, PROGRAMS), None)


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert time.monotonic() < deadline, "PgBouncer does not answer"
            time.sleep(0.05)
        else:
            return
