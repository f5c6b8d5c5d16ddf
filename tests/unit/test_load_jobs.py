"""How the worker finds what users write, in a process of its own, as Lambda starts it: in the function's folder."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.sources import FUNCTIONS, ROOT

HANDLER = "from dilamme import job\n\n@job({type!r})\ndef handle(payload, context): ...\n"


@pytest.fixture
def worker(tmp_path: Path) -> Path:
    """A copy of the worker's folder."""
    return Path(
        shutil.copytree(FUNCTIONS / "worker", tmp_path / "worker", ignore=shutil.ignore_patterns("__pycache__"))
    )


def add(worker: Path, file: str, text: str) -> None:
    """Adds a module of handlers."""
    path = worker / "jobs" / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")


def start(
    worker: Path, program: str = "print(*handler.registry)", **settings: str
) -> "subprocess.CompletedProcess[str]":
    """Starts the worker's process as far as its imports, with these settings, and runs a line in it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DILAMME_")}
    return subprocess.run(
        [sys.executable, "-c", f"import handler\n{program}"],
        cwd=worker,
        env={**environment, "PYTHONPATH": str(ROOT / "shared"), **settings},
        capture_output=True,
        text=True,
        check=False,
    )


def types(worker: Path, **settings: str) -> list[str]:
    """The types that the worker knows."""
    started = start(worker, **settings)
    assert started.returncode == 0, started.stderr
    return sorted(started.stdout.split())


def test_a_module_in_the_folder_is_found_by_itself_however_deep_it_lies(worker: Path) -> None:
    add(worker, "email.py", HANDLER.format(type="email.send"))
    add(worker, "reports/monthly.py", HANDLER.format(type="report.monthly"))
    assert types(worker) == ["email.send", "report.monthly"]


def test_the_demo_jobs_are_off_until_they_are_asked_for(worker: Path) -> None:
    assert types(worker) == []
    assert types(worker, DILAMME_DEMO_JOBS="1") == ["demo.crash", "demo.echo", "demo.fail", "demo.sleep"]


def test_a_module_of_handlers_may_import_another_which_is_loaded_once(worker: Path) -> None:
    add(worker, "base.py", HANDLER.format(type="base"))
    add(worker, "above.py", "from jobs.base import handle\n" + HANDLER.format(type="above"))
    assert types(worker) == ["above", "base"]


def test_a_type_in_two_modules_is_an_error_at_the_start_that_names_both(worker: Path) -> None:
    add(worker, "one.py", HANDLER.format(type="email.send"))
    add(worker, "two.py", HANDLER.format(type="email.send"))
    started = start(worker)
    assert started.returncode != 0
    assert "'email.send' is registered twice: by jobs.one.handle and jobs.two.handle" in started.stderr


def test_a_timeout_that_does_not_fit_into_the_functions_is_an_error_at_the_start(worker: Path) -> None:
    add(worker, "slow.py", HANDLER.format(type="slow").replace("'slow'", "'slow', timeout_seconds=120"))
    assert types(worker) == ["slow"]
    started = start(worker, DILAMME_WORKER_TIMEOUT_SECONDS="100")
    assert started.returncode != 0
    assert "'slow' asks for a timeout of 120 s, but the worker has 95 s" in started.stderr


def test_packages_and_links_are_followed_once_each(worker: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "linked.py").write_text(HANDLER.format(type="linked"))
    (elsewhere / "one.txt").write_text(HANDLER.format(type="one"))
    add(worker, "package/__init__.py", HANDLER.format(type="package"))
    add(worker, "package/deep/__init__.py", "")
    add(worker, "package/deep/within.py", HANDLER.format(type="within"))
    add(worker, ".hidden/no.py", "raise RuntimeError")
    (worker / "jobs" / "folder").symlink_to(elsewhere)
    (worker / "jobs" / "again").symlink_to(elsewhere)
    (worker / "jobs" / "package" / "up").symlink_to(worker / "jobs")
    (worker / "jobs" / "file.py").symlink_to(elsewhere / "one.txt")
    assert types(worker) == ["linked", "one", "package", "within"]


def test_a_folder_of_handlers_may_itself_be_a_link(worker: Path, tmp_path: Path) -> None:
    add(worker, "mail.py", HANDLER.format(type="mail"))
    (worker / "jobs").rename(tmp_path / "jobs")
    (worker / "jobs").symlink_to(tmp_path / "jobs")
    assert types(worker) == ["mail"]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("import json\nimport a_library_that_is_not_there", 2, "No module named 'a_library_that_is_not_there'"),
        ("def f(:\n    pass", 1, "SyntaxError"),
        ("\n\nraise SystemExit('not today')", 3, "SystemExit: not today"),
        ("def f():\n    return 1 / 0\n\nf()", 2, "ZeroDivisionError"),
    ],
)
def test_a_module_that_cannot_be_imported_is_named_with_its_line(
    worker: Path, text: str, line: int, words: str
) -> None:
    add(worker, "broken.py", text)
    started = start(worker)
    assert started.returncode != 0
    last = started.stderr.splitlines()[-1]
    assert f"jobs/broken.py:{line}: " in last
    assert words in last


def test_a_wrong_setting_is_an_error_at_the_start(worker: Path) -> None:
    started = start(worker, DILAMME_WORKER_SLOTS="none")
    assert started.returncode != 0
    assert "DILAMME_WORKER_SLOTS is 'none'" in started.stderr


# ===== what users' code may do to the process =====


def test_a_module_that_sets_up_logging_does_not_silence_the_worker(worker: Path) -> None:
    add(worker, "noisy.py", "import logging.config\nlogging.config.dictConfig({'version': 1})")
    ours = ["dilamme", "dilamme.drain", "dilamme.job", "worker"]
    started = start(worker, f"import logging\nfor name in {ours}: logging.getLogger(name).warning(name)")
    heard = [json.loads(line)["message"] for line in (started.stdout + started.stderr).splitlines()]
    assert sorted(heard) == ours


def test_what_handlers_do_to_standard_output_does_not_reach_the_metrics(worker: Path) -> None:
    program = """
import contextlib, io, os, sys
def count():
    handler.metrics.add("JobsStarted", 1)
    handler.metrics.flush()
mine = io.StringIO()
with contextlib.redirect_stdout(mine):
    count()
assert not mine.getvalue()
sys.stdout.close()
count()
os._exit(0)  # what was not written by now is lost
"""
    started = start(worker, program)
    assert started.stderr == ""
    assert [json.loads(line)["JobsStarted"] for line in started.stdout.splitlines()] == [[1], [1]]
