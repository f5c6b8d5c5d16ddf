"""`make run` starts and completes a job in whatever shell, folder and locale it finds itself."""

import http.client
import json
import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.support.checkout import CHECKOUT
from tests.support.waiting import wait_until

NOWHERE = "http://192.0.2.1:9"  # an address that is nobody's
LONG = "/".join(["a-folder-with-quite-a-long-name"] * 5)
SHELLS: dict[str, dict[str, str | None]] = {
    "proxies": {"no_proxy": None, "NO_PROXY": None}
    | {name: NOWHERE for proxy in ("http", "https", "all") for name in (f"{proxy}_proxy", f"{proxy}_proxy".upper())},
    "another PostgreSQL": {
        "PGAPPNAME": "mine",
        "PGCHANNELBINDING": "require",
        "PGCLIENTENCODING": "LATIN1",
        "PGCONNECT_TIMEOUT": "2",
        "PGDATA": "/nowhere",
        "PGDATABASE": "mine",
        "PGDATESTYLE": "German",
        "PGGSSENCMODE": "require",
        "PGHOST": "192.0.2.1",
        "PGHOSTADDR": "192.0.2.1",
        "PGOPTIONS": "-c search_path=mine -c default_transaction_read_only=on",
        "PGPASSFILE": "/nowhere",
        "PGPASSWORD": "mine",
        "PGPORT": "1",
        "PGREQUIREAUTH": "none",
        "PGSERVICE": "mine",
        "PGSERVICEFILE": "/nowhere",
        "PGSSLMODE": "require",
        "PGSSLROOTCERT": "/nowhere",
        "PGTARGETSESSIONATTRS": "standby",
        "PGTZ": "Asia/Kolkata",
        "PGUSER": "me",
    },
    "another AWS": {
        "AWS_CA_BUNDLE": "/nowhere",
        "AWS_CONFIG_FILE": "/nowhere",
        "AWS_DEFAULT_REGION": "nowhere-1",
        "AWS_ENDPOINT_URL": NOWHERE,
        "AWS_ENDPOINT_URL_LAMBDA": NOWHERE,
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true",
        "AWS_PROFILE": "prod",
        "AWS_REGION": "nowhere-1",
        "AWS_USE_FIPS_ENDPOINT": "true",
        "LOG_LEVEL": "verbose",
        "REQUESTS_CA_BUNDLE": "/nowhere",
    },
    "another Python": {
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHOME": "/nowhere",
        "PYTHONIOENCODING": "latin-1",
        "PYTHONOPTIMIZE": "2",
        "PYTHONPATH": "{hostile}",
        "PYTHONSAFEPATH": "1",
        "PYTHONSTARTUP": "/nowhere",
        "PYTHONWARNINGS": "error",
    },
    "another system": {
        "HOME": None,
        "LANG": "C",
        "LC_ALL": "xx_XX.UTF-8",
        "TMPDIR": "/nowhere",
        "TZ": "Nowhere/Land",
        "XDG_RUNTIME_DIR": None,
    },
    "long paths": {"DATA_DIR": f"{{folder}}/dätä {LONG}", "TMPDIR": f"{{folder}}/{LONG}", "LC_ALL": "C"},
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what `make run` needs, in a folder with an unpleasant name."""
    copy = tmp_path / 'it\'s the "chéckout" of $HOME'
    copy.mkdir()
    for name in ("dilamme_cli", "dilamme_local", "shared", "functions"):
        shutil.copytree(CHECKOUT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("Makefile", "dilamme.toml", "requirements.lock"):
        shutil.copy2(CHECKOUT / name, copy / name)
    (copy / ".venv").symlink_to((CHECKOUT / ".venv").resolve())
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    for module in ("json", "dilamme_local", "psycopg"):
        (hostile / f"{module}.py").write_text("raise ImportError('not this one')\n")
    (tmp_path / LONG).mkdir(parents=True)
    return copy


@contextmanager
def running(checkout: Path, shell: Mapping[str, str | None], *, umask: int = 0o022) -> Iterator[dict[str, Any]]:
    """`make run` there; the note that it leaves for other programs."""
    folder = checkout.parent
    # Not those of a make that runs the tests either: its command line would go before ours.
    not_ours = ("PYTEST", "DILAMME", "MAKE", "MFLAGS")
    ours = {name: value for name, value in os.environ.items() if not name.startswith(not_ours)}
    wanted = {"PORT": "0", "DATA_DIR": str(folder / "data"), **shell}
    formatted = {
        name: value and value.format(folder=folder, hostile=folder / "hostile") for name, value in wanted.items()
    }
    variables = {name: value for name, value in {**ours, **formatted}.items() if value is not None}
    with subprocess.Popen(
        ["make", "--no-print-directory", "run"],
        cwd=checkout,
        env=variables,
        umask=umask,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            ready = process.stdout.readline()
            assert ready.startswith(b"Dilamme is ready at "), process.communicate(timeout=60)
            yield json.loads((Path(variables["DATA_DIR"]) / "stack.json").read_text())
        finally:
            os.killpg(process.pid, signal.SIGINT)
            process.communicate(timeout=60)


def ask(url: str, method: str, path: str, body: Any = None) -> Any:
    client = http.client.HTTPConnection("127.0.0.1", urlsplit(url).port or 0, timeout=30)
    client.request(method, path, body and json.dumps(body), {"content-type": "application/json"})
    answer = json.loads(client.getresponse().read())
    client.close()
    return answer


@pytest.mark.case("E3")
@pytest.mark.parametrize("shell", SHELLS)
def test_it_starts_and_completes_a_job(checkout: Path, shell: str) -> None:
    with running(checkout, SHELLS[shell]) as note:
        job = ask(note["url"], "POST", "/jobs", {"type": "demo.echo", "payload": "grüße ☃"})
        wait_until(lambda: ask(note["url"], "GET", f"/jobs/{job['id']}")["status"] == "completed", "the job completes")
        later = ask(note["url"], "POST", "/jobs", {"type": "demo.fail", "maxAttempts": 1})
        wait_until(lambda: ask(note["url"], "GET", f"/jobs/{later['id']}")["status"] == "dead", "the other one dies")


@pytest.mark.case("E9")
def test_nobody_else_reads_a_file_or_enters_the_database(checkout: Path) -> None:
    """Under the most generous umask, over the files of an earlier version."""
    data = checkout.parent / "data"
    (data / "logs").mkdir(parents=True)
    (data / "logs" / "api.log").write_text("an earlier line\n")
    (data / "postgres").mkdir()
    before = data.stat().st_mode
    with running(checkout, {}, umask=0) as note:
        ask(note["url"], "POST", "/jobs", {"type": "demo.echo"})
        opened = [path for path in (data / "logs", data / "postgres") if stat.S_IMODE(path.stat().st_mode) & 0o077]
        # The worker's folder holds links to the product's and the user's own files, and Python's bytecode of them.
        written = [path for path in data.rglob("*") if path.is_file() and data / "functions" not in path.parents]
        opened += [path for path in written if stat.S_IMODE(path.stat().st_mode) & 0o077]
        assert opened == []
        assert data.stat().st_mode == before, "a folder that was there is its owner's affair"
        url = urlsplit(note["databaseUrl"])
        for user in ("postgres", "dilamme_api", "dilamme_worker", "dilamme_scheduler", "dilamme_rescue"):
            for place in ("127.0.0.1", str(data / "postgres" / "cluster")):
                with pytest.raises(psycopg.OperationalError, match=r"no password supplied|No such file|too long"):
                    psycopg.connect(host=place, port=url.port, user=user, dbname="dilamme", passfile="/dev/null")
                with pytest.raises(psycopg.OperationalError, match=r"authentication failed|No such file|too long"):
                    psycopg.connect(host=place, port=url.port, user=user, dbname="dilamme", password="dilamme")


@pytest.mark.case("E9")
def test_a_data_folder_that_it_makes_is_its_owners_alone(checkout: Path) -> None:
    with running(checkout, {}, umask=0):
        assert stat.S_IMODE((checkout.parent / "data").stat().st_mode) == 0o700
