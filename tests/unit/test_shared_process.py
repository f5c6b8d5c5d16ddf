"""What users' code does to the process that it shares with the worker: to logging, streams and variables (H4, H5, H7).

Each test starts a process of its own as Lambda starts it, in the function's folder: what is done to it cannot be undone.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dilamme.domain.outcome import MESSAGE_CHARACTERS_MAX
from tests.unit.sources import FUNCTIONS, ROOT

# The last attempt of a job, in which a handler does something; then lines of ours, from a thread that is not the handler's.
ATTEMPT = """
import json, logging, os, sys, threading, time
from dilamme.handlers.context import Context
from dilamme.handlers.registry import JobType
from dilamme.worker.execute import execute
from tests.unit.claims import claim

def attempt(handle):
    job = claim(attempt=3)
    context = Context(job, time.monotonic() + 60, lambda job_id: {})
    outcome = execute(job, JobType("email.send", handle), context, lambda value: value, handler.configuration.policy)
    logging.getLogger("dilamme.drain").error("a line of the loop")
    context.logger.info("a line of the handler")
    with open("outcome", "w") as file:
        json.dump([outcome.reason, outcome.message], file)
    os._exit(0)
"""


@pytest.fixture
def worker(tmp_path: Path) -> Path:
    """A copy of the worker's folder."""
    return Path(
        shutil.copytree(FUNCTIONS / "worker", tmp_path / "worker", ignore=shutil.ignore_patterns("__pycache__"))
    )


def run(worker: Path, program: str, **variables: str) -> str:
    """Everything that a worker's process writes which imports its handler and runs the program."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("DILAMME_", "AWS_", "PG"))}
    ended = subprocess.run(
        [sys.executable, "-c", f"import handler\n{ATTEMPT}\n{program}"],
        cwd=worker,
        env={**environment, "PYTHONPATH": f"{ROOT / 'shared'}:{ROOT}", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stdout[-3000:]
    return ended.stdout


def lines(output: str) -> list[dict[str, Any]]:
    """The log's lines, all of which must be JSON."""
    return [json.loads(line) for line in output.splitlines()]


# ===== logging =====

MISDEEDS = {
    "nothing": "pass",
    "dictConfig": "import logging.config; logging.config.dictConfig({'version': 1})",
    "fileConfig": "import logging.config; logging.config.fileConfig('logging.ini')",
    "disable": "logging.disable()",
    "disabled": "logging.getLogger('dilamme.job').disabled = logging.getLogger('dilamme').disabled = True",
    "shutdown": "logging.shutdown()",
    "closed streams": "sys.stdout.close(); sys.stderr.close()",
    "closed standard error": "os.close(2)",
    "closed standard output and error, and files in their place": "os.close(1); os.close(2); open('one', 'w'); open('two', 'w')",
    "no streams": "sys.stdout = sys.stderr = sys.__stderr__ = None",
    "record factory": "logging.setLogRecordFactory(lambda *args, **named: 1 / 0)",
    "a record factory that makes no record": "logging.setLogRecordFactory(lambda *args, **named: None)",
    "a handler of its own": "logging.getLogger('dilamme').addHandler(Broken())",
    "a filter": "logging.getLogger('dilamme.job').addFilter(lambda record: 1 / 0)",
}


@pytest.mark.case("H4")
@pytest.mark.parametrize("misdeed", MISDEEDS.values(), ids=MISDEEDS.keys())
def test_whatever_a_handler_does_to_logging_our_lines_go_on_and_its_own_error_is_stored(
    worker: Path, misdeed: str
) -> None:
    (worker / "logging.ini").write_text(
        "[loggers]\nkeys=root\n[handlers]\nkeys=\n[formatters]\nkeys=\n[logger_root]\nhandlers=\n"
    )
    program = f"""
class Broken(logging.Handler):
    def emit(self, record):
        raise OSError("broken")

def handle(payload, context):
    {misdeed}
    raise ValueError("my own")

attempt(handle)
"""
    output = run(worker, program)
    assert json.loads((worker / "outcome").read_text()) == ["error", "ValueError: my own"]
    assert [line["message"] for line in lines(output)] == [
        "attempt failed",
        "a line of the loop",
        "a line of the handler",
    ]
    failure = lines(output)[0]
    assert (failure["job_type"], failure["attempt"], failure["level"]) == ("email.send", 3, "WARNING")
    assert "ValueError: my own" in failure["exception"]
    assert failure["exception_name"] == "ValueError"
    assert not any(Path(worker / name).read_text() for name in ("one", "two") if (worker / name).exists())


@pytest.mark.case("H4")
def test_no_line_of_ours_is_written_into_a_file_that_a_handler_opened_in_the_place_of_our_stream(worker: Path) -> None:
    program = """
files = []
def handle(payload, context):
    os.closerange(3, 50)
    files.extend(open('one', 'a') for _ in range(40))
    handler.metrics.add("JobsStarted", 1)
    handler.metrics.flush()
    raise ValueError("my own")

attempt(handle)
"""
    run(worker, program)
    assert json.loads((worker / "outcome").read_text()) == ["error", "ValueError: my own"]
    assert not (worker / "one").read_text()


# ===== variables =====

THEIRS = {
    "AWS_ACCESS_KEY_ID": "THEIRS",
    "AWS_SECRET_ACCESS_KEY": "THEIRS",
    "AWS_SESSION_TOKEN": "THEIRS",
    "AWS_REGION": "eu-south-2",
    "AWS_DEFAULT_REGION": "eu-south-2",
    "AWS_PROFILE": "theirs",
    "AWS_ENDPOINT_URL": "http://theirs.invalid",
    "AWS_ENDPOINT_URL_LAMBDA": "http://theirs.invalid",
    "HTTP_PROXY": "http://theirs.invalid",
    "HTTPS_PROXY": "http://theirs.invalid",
    "DATABASE_URL": "postgresql://theirs.invalid/theirs",
    "DILAMME_DATABASE_HOST": "theirs.invalid",
    "DILAMME_DATABASE_USER": "theirs",
    "DILAMME_DATABASE_SECRET": "arn:aws:secretsmanager:eu-south-2:123456789012:secret:theirs",
    "DILAMME_WORKER_FUNCTION": "theirs",
}
OURS = {"AWS_ACCESS_KEY_ID": "OURS", "AWS_SECRET_ACCESS_KEY": "OURS", "AWS_DEFAULT_REGION": "eu-west-1"}
SETS_ITS_OWN = f"import os\nos.environ.update({THEIRS!r})\n"
WHEN = pytest.mark.parametrize("when", ["at its import", "while it runs"])


def set_variables(worker: Path, when: str) -> str:
    """Has a module of handlers set variables for its own clients; what a handler does, if it is that."""
    if when == "while it runs":
        return SETS_ITS_OWN
    (worker / "jobs" / "setting.py").write_text(SETS_ITS_OWN)
    return ""


@pytest.mark.case("H5")
@WHEN
def test_our_client_of_lambda_stays_what_it_was_and_so_do_their_variables(worker: Path, when: str) -> None:
    program = f"""
{set_variables(worker, when)}
from dilamme.aws import invoke
client = invoke._client()
credentials = client._get_credentials()
print(json.dumps([credentials.access_key, credentials.token, client.meta.region_name, client.meta.endpoint_url]))
print(json.dumps(dict(client._endpoint.http_session._proxy_config._proxies or {{}})))
print(json.dumps({{name: os.environ.get(name) for name in {[*THEIRS]!r}}}))
print(handler.configuration.worker_function)
"""
    client, proxies, variables, function = run(worker, program, **OURS, DILAMME_WORKER_FUNCTION="ours").splitlines()
    assert json.loads(client) == ["OURS", None, "eu-west-1", "https://lambda.eu-west-1.amazonaws.com"]
    assert json.loads(proxies).keys() <= {"no"}  # what needs no proxy, the shell may say
    assert json.loads(variables) == THEIRS
    assert function == "ours"


@pytest.mark.case("H5")
@WHEN
def test_a_login_by_iam_stays_what_it_was(worker: Path, when: str) -> None:
    program = f"""
{set_variables(worker, when)}
from dilamme import session
print(session.database_url())
"""
    ours = {"DILAMME_DATABASE_HOST": "db.ours", "DILAMME_DATABASE_USER": "ours", "DILAMME_DATABASE_NAME": "jobs"}
    login = run(worker, program, **OURS, **ours)
    assert "host=db.ours" in login
    assert "user=ours" in login
    assert "Credential=OURS%2F" in login
    assert "%2Feu-west-1%2Frds-db%2F" in login
    assert "theirs" not in login.lower()


@pytest.mark.case("H5")
@WHEN
def test_a_login_by_a_secret_asks_our_account(worker: Path, when: str) -> None:
    program = f"""
{set_variables(worker, when)}
from dilamme.aws import database
client = database._secrets_manager()
print(client._get_credentials().access_key, client.meta.endpoint_url)
"""
    arn = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:ours"
    login = run(worker, program, **OURS, DILAMME_DATABASE_SECRET=arn)
    assert login == "OURS https://secretsmanager.eu-west-1.amazonaws.com\n"


# ===== forks =====


@pytest.mark.case("H1")
@pytest.mark.parametrize(
    ("then", "status"), [("pass", 0), ("1 / 0", 1), ("raise SystemExit(3)", 3), ("raise SystemExit('words')", 1)]
)
def test_a_child_that_a_module_forks_ends_with_the_module(worker: Path, then: str, status: int) -> None:
    """On Lambda it would else ask for events beside its parent. What it printed without a line's end is not lost."""
    (worker / "jobs" / "forking.py").write_text(
        f"import os, sys\nchild = os.fork()\nif child == 0:\n    print('child', end=';')\n    {then}\n"
    )
    program = "import jobs.forking\nprint(os.waitstatus_to_exitcode(os.waitpid(jobs.forking.child, 0)[1]))"
    output = run(worker, program)
    assert "child;" in output
    assert output.splitlines()[-1].removeprefix("child;") == str(status)
    assert ("ZeroDivisionError" in output, "words" in output) == (then == "1 / 0", "words" in then)


# ===== the size of a traceback =====

MONSTERS = {
    "a text": "raise ValueError('x' * 50_000_000)",
    "a text of lines": "raise ValueError('x\\n' * 5_000_000)",
    "a note": "error = ValueError('my own'); error.add_note('x\\n' * 5_000_000); raise error",
    "many notes": "error = ValueError('my own'); error.__notes__ = ['x' * 1000] * 10_000; raise error",
    "notes that are none": "error = ValueError('my own'); error.__notes__ = 5; raise error",
    "causes": "raise_from(1_000)",
    "its own cause": "error = ValueError('my own'); error.__cause__ = KeyError(); error.__cause__.__cause__ = error; raise error",
    "a group": "raise ExceptionGroup('x' * 10_000_000, [ValueError('y' * 10_000)] * 10_000)",
    "groups in groups": "raise_nested(100)",
    "frames": "recurse()",
    "no words": "raise Unspeakable()",
    "no words, but an exit": "raise Unspeakable(SystemExit)",
}
MAKERS = """
class Unspeakable(Exception):
    def __init__(self, kind=RuntimeError):
        self.kind = kind
    def __str__(self):
        raise self.kind("no words")

def raise_from(number):
    error = None
    for _ in range(number):
        try:
            raise ValueError("x" * 10_000) from error
        except ValueError as latest:
            error = latest
    raise error

def raise_nested(depth):
    error = ValueError("x" * 10_000)
    for _ in range(depth):
        error = ExceptionGroup("y" * 10_000, [error] * 10)
    raise error

def recurse(number=0):
    if number % 2:
        recurse(number + 1)
    else:
        recurse(number + 1)
"""


@pytest.mark.case("H7")
@pytest.mark.parametrize("monster", MONSTERS.values(), ids=MONSTERS.keys())
def test_a_failure_is_bounded_in_the_log_as_in_the_row(worker: Path, monster: str) -> None:
    """Also in the memory that it takes: a worker has half a gigabyte, and 64 handlers at the most."""
    program = f"""
{MAKERS}
def handle(payload, context):
    {monster}

import resource
baseline = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
import atexit
exit = os._exit
def tell_and_exit(status):
    with open("kilobytes", "w") as file:
        file.write(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - baseline))
    exit(status)
os._exit = tell_and_exit
attempt(handle)
"""
    output = run(worker, program)
    assert len(output) < 50_000
    reason, message = json.loads((worker / "outcome").read_text())
    assert reason == "error"
    assert len(message) <= MESSAGE_CHARACTERS_MAX
    failure = lines(output)[0]
    assert failure["message"] == "attempt failed"
    assert message.partition(":")[0] in failure["exception"]
    assert int((worker / "kilobytes").read_text()) < 160_000


@pytest.mark.case("H7")
def test_an_ordinary_traceback_is_whole(worker: Path) -> None:
    program = """
def look_up(key):
    try:
        return {}[key]
    except KeyError as error:
        raise ValueError("no such key") from error

def handle(payload, context):
    error = None
    try:
        look_up("b")
    except ValueError as caught:
        caught.add_note("in the second file")
        raise ExceptionGroup("two things", [caught, TypeError("other")])
attempt(handle)
"""
    told = lines(run(worker, program))[0]["exception"]
    words = (
        *("KeyError: 'b'", "direct cause of", "ValueError: no such key", "in the second file", "During handling of"),
        *("ExceptionGroup: two things (2 sub-exceptions)", "--- 1 of 2 ---", "TypeError: other"),
    )
    places = [told.find(word) for word in words]
    assert -1 not in places, told
    assert places == sorted(places), told
