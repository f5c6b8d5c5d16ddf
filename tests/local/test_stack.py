"""The stack starts in order, tells in one line why it cannot, and stops everything it started and nothing else."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import boto3
import psycopg
import pytest

from dilamme_local.errors import StackError
from dilamme_local.options import Options
from dilamme_local.postgres import Postgres
from dilamme_local.stack import Stack
from tests.support.checkout import CHECKOUT
from tests.support.processes import alive
from tests.support.waiting import wait_until

# Every function is this one. The api's answer is what its environment holds, after it has used it.
HANDLER = """
import json, os
import boto3, psycopg

def handler(event, context):
    with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
        user, database = connection.execute("SELECT current_user, current_database()").fetchone()
        if context.function_name == "migrate":
            connection.execute("CREATE TABLE IF NOT EXISTS runs (function text)")
            for role in ("api", "scheduler", "worker", "rescue"):
                connection.execute(f"DO $$ BEGIN CREATE ROLE dilamme_{role} LOGIN; EXCEPTION WHEN duplicate_object THEN END $$")
            connection.execute("GRANT ALL ON runs TO PUBLIC")
        connection.execute("INSERT INTO runs VALUES (%s)", [context.function_name])
    if context.function_name == "api":
        boto3.client("lambda").invoke(
            FunctionName=os.environ["DILAMME_WORKER_FUNCTION"], InvocationType="Event", Payload="{}"
        )
        boto3.client("sqs").send_message(QueueUrl=os.environ["DILAMME_DEAD_LETTER_QUEUE_URL"], MessageBody="dead")
        return {"user": user, "database": database, "variables": dict(os.environ), "left": context.get_remaining_time_in_millis()}
"""


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("functions")
    for name in ("api", "scheduler", "worker", "rescue", "migrate"):
        write_function(folder, name, HANDLER)
    return folder


def write_function(folder: Path, name: str, source: str) -> None:
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "handler.py").write_text(source)


@pytest.fixture(scope="module")
def stack(functions: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A running stack of stand-in functions on a PostgreSQL of its own, whose user is logged in to AWS."""
    stack = Stack(Options(0, tmp_path_factory.mktemp("data"), functions_folder=functions, timeouts_seconds={"api": 7}))
    with pytest.MonkeyPatch.context() as environment:
        for name, value in {"AWS_PROFILE": "prod", "AWS_SESSION_TOKEN": "x", "PGUSER": "me", "HOBBY": "go"}.items():
            environment.setenv(name, value)
        stack.start()
    yield stack
    stack.stop()


def get(url: str) -> Any:
    with urllib.request.urlopen(url) as answer:
        return json.loads(answer.read())


def runs(stack: Stack) -> list[str]:
    with psycopg.connect(stack.database_url) as connection:
        return [name for (name,) in connection.execute("SELECT function FROM runs").fetchall()]


def test_functions_reach_lambda_and_sqs_by_their_environment_alone(stack: Stack) -> None:
    get(stack.url)
    wait_until(lambda: "worker" in runs(stack))
    sqs = boto3.Session("local", "local", None, "us-east-1").client("sqs", endpoint_url=stack.aws_url)
    assert sqs.receive_message(QueueUrl=stack.queue_url)["Messages"][0]["Body"] == "dead"


def test_the_scheduler_is_triggered_at_the_start(stack: Stack) -> None:
    wait_until(lambda: "scheduler" in runs(stack))


def test_each_function_has_its_database_role_and_migrate_is_the_superuser(stack: Stack) -> None:
    answer = get(stack.url)
    assert (answer["user"], answer["database"]) == ("dilamme_api", "dilamme")
    assert "postgres:" not in answer["variables"]["DATABASE_URL"]
    assert runs(stack)[0] == "migrate"


def test_no_credentials_of_the_user_reach_a_function(stack: Stack) -> None:
    variables = get(stack.url)["variables"]
    assert not variables.keys() & {"AWS_PROFILE", "AWS_SESSION_TOKEN", "PGUSER"}
    assert variables["AWS_SECRET_ACCESS_KEY"] == "local"
    assert variables["HOBBY"] == "go"


def test_a_local_run_has_few_workers_and_the_demo_jobs(stack: Stack) -> None:
    variables = get(stack.url)["variables"]
    assert (variables["DILAMME_WORKER_SLOTS"], variables["DILAMME_DEMO_JOBS"]) == ("4", "1")


def test_a_timeout_can_be_set_per_function(stack: Stack) -> None:
    assert get(stack.url)["left"] <= 7000


def test_a_note_tells_other_programs_where_it_is(stack: Stack) -> None:
    note = stack.options.data_dir / "stack.json"
    assert json.loads(note.read_text())["databaseUrl"] == stack.database_url
    assert note.stat().st_mode & 0o077 == 0


def test_a_database_of_the_users_is_every_functions(functions: Path, postgres: Postgres, tmp_path: Path) -> None:
    postgres.create_database("theirs")
    with Stack(Options(0, tmp_path, postgres.url("theirs"), functions_folder=functions)) as stack:
        answer = get(stack.url)
        assert (answer["user"], answer["database"]) == ("postgres", "theirs")
        assert not (tmp_path / "postgres").exists()
    assert postgres.running


def test_functions_may_use_their_roles_in_a_database_of_the_users(
    functions: Path, postgres: Postgres, tmp_path: Path
) -> None:
    postgres.create_database("roles")
    options = Options(0, tmp_path, postgres.url("roles"), database_roles=True, functions_folder=functions)
    with Stack(options) as stack:
        assert get(stack.url)["user"] == "dilamme_api"


def test_data_survive_a_restart(functions: Path, tmp_path: Path) -> None:
    options = Options(0, tmp_path, functions_folder=functions, clock_seconds=None)
    for times in (1, 2):
        with Stack(options) as stack:
            assert runs(stack).count("migrate") == times


def test_a_migration_that_fails_is_told_and_leaves_nothing_running(functions: Path, tmp_path: Path) -> None:
    for name in ("api", "scheduler", "worker", "rescue"):
        write_function(tmp_path, name, HANDLER)
    write_function(tmp_path, "migrate", "def handler(event, context): raise ValueError('no such column')")
    stack = Stack(Options(0, tmp_path / "data", functions_folder=tmp_path))
    with pytest.raises(StackError, match="cannot be migrated: ValueError: no such column"):
        stack.start()
    assert stack.postgres is not None
    assert not stack.postgres.running


# ----- as a process

RUN = """
import sys
from pathlib import Path
from dilamme_cli.dev import run_stack
from dilamme_local.options import Options
from dilamme_local.stack import Stack
run_stack(Stack(Options(0, Path(sys.argv[1]), functions_folder=Path(sys.argv[2]))))
"""


@pytest.fixture
def launch(functions: Path, tmp_path: Path) -> Iterator[Callable[[], "subprocess.Popen[str]"]]:
    """Starts a stack as `make run` does, and waits until it says that it is ready."""
    launched: list[subprocess.Popen[str]] = []

    def launch_one() -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-c", RUN, str(tmp_path), str(functions)],
            cwd=CHECKOUT,
            env={**os.environ, "PYTHONPATH": "shared"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        launched.append(process)
        assert process.stdout is not None
        assert process.stdout.readline().startswith("Dilamme is ready at http://127.0.0.1:")
        return process

    yield launch_one
    for process in launched:
        process.kill()
        process.communicate()


def descendants(pid: int) -> list[int]:
    """Every process below this one."""
    found = []
    with suppress(FileNotFoundError, ProcessLookupError):  # it has ended since its parent named it
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *descendants(int(child))]
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_everything_and_is_no_error(
    launch: Callable[[], "subprocess.Popen[str]"], number: signal.Signals
) -> None:
    process = launch()
    below = descendants(process.pid)
    assert len(below) >= 6
    process.send_signal(number)
    assert process.communicate() == ("", "")
    assert process.returncode == 0
    assert not [pid for pid in below if alive(pid)]


def test_a_stack_that_is_killed_takes_its_processes_along_and_the_next_one_starts(
    launch: Callable[[], "subprocess.Popen[str]"],
) -> None:
    process = launch()
    below = descendants(process.pid)
    process.kill()
    wait_until(lambda: not [pid for pid in below if alive(pid)])
    launch()


def start_and_fail(tmp_path: Path, variables: Mapping[str, str]) -> str:
    """What `dilamme dev` says on stderr when it cannot start."""
    done = subprocess.run(
        [sys.executable, "-m", "dilamme_cli", "dev"],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": "shared", "PORT": "0", "DATA_DIR": str(tmp_path / "data"), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_a_port_in_use_is_told_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"port {port} cannot be used" in start_and_fail(tmp_path, {"PORT": port})
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"PORT": "many"}, "PORT is 'many'"),
        ({"DATABASE_URL": "postgresql://127.0.0.1:1/none"}, "DATABASE_URL: the database does not answer"),
        ({"DATABASE_URL": "nonsense"}, "DATABASE_URL is not PostgreSQL's"),
        ({"DILAMME_WORKER_SLOTS": "none"}, "DILAMME_WORKER_SLOTS is 'none'"),
        ({"DATA_DIR": "/proc/nowhere"}, "cannot start"),
    ],
)
def test_what_cannot_work_is_told_in_one_line(tmp_path: Path, variables: dict[str, str], sentence: str) -> None:
    assert sentence in start_and_fail(tmp_path, variables)


@pytest.mark.case("E4")
@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://u:SECRET@h/db",
        "mysql://u:SECRET@h/db",
        "postgresql://u:x@SECRET@127.0.0.1:1/db",
        "postgresql://u:SECRET@127.0.0.1:port/db",
    ],
)
def test_an_address_that_cannot_be_one_is_told_without_its_password(tmp_path: Path, url: str) -> None:
    told = start_and_fail(tmp_path, {"DATABASE_URL": url})
    assert "DATABASE_URL" in told
    assert "SECRET" not in told
