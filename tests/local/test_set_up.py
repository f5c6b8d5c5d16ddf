"""Two `make` in one fresh checkout: `make run` in one terminal, `make test` in another."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.checkout import CHECKOUT

Start = Callable[[], subprocess.Popen[str]]
OFFLINE = {**os.environ, "PIP_NO_INDEX": "1"}  # nothing is to be found; asking an index for that takes half a minute


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a set-up of one and the same environment, in which nothing is to be installed."""
    lock = tmp_path / "requirements.lock"
    lock.write_text("# nothing\n")
    script = str(CHECKOUT / "dilamme_local" / "set_up.py")
    command = [sys.executable, "-P", script, str(tmp_path / ".venv"), str(lock)]
    started: list[subprocess.Popen[str]] = []

    def begin() -> subprocess.Popen[str]:
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=OFFLINE))
        return started[-1]

    yield begin
    for one in started:
        one.kill()
        one.communicate()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_the_second_waits_for_the_first_and_clears_nothing_away(start: Start, tmp_path: Path) -> None:
    first = start()
    assert _line(first).startswith("Setting up ")
    second = start()
    assert _line(second).startswith("Waiting for another make")
    assert first.wait(60) == second.wait(60) == 0
    assert _line(first) == _line(second) == ""
    subprocess.run([tmp_path / ".venv" / "bin" / "python", "-m", "pip", "--version"], check=True, capture_output=True)


def test_one_that_was_killed_leaves_a_set_up_that_the_next_one_does_again(start: Start, tmp_path: Path) -> None:
    first = start()
    assert _line(first).startswith("Setting up ")
    first.kill()
    second = start()
    assert "Setting up" in _line(second) + _line(second)
    assert second.wait(60) == 0
    assert (tmp_path / ".venv" / "ready").exists()


def test_a_failure_is_makes_too_and_is_not_taken_for_done(start: Start, tmp_path: Path) -> None:
    (tmp_path / "requirements.lock").write_text("no-such-package==1.0\n")
    assert start().wait(60) == 1
    assert not (tmp_path / ".venv" / "ready").exists()


def test_a_link_is_not_followed_and_nothing_is_emptied(start: Start, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").touch()
    (tmp_path / ".venv").symlink_to(elsewhere)
    assert start().wait(60) == 1
    assert (elsewhere / "file").exists()


PYTHONS = {
    "is not installed": ("", "is not here: install Python 3.11 or newer"),
    "is a shim for none": ("#!/bin/sh\necho 'shim: no such version' >&2\nexit 127\n", "shim: no such version"),
    "is too old": (
        f"#!/bin/sh\nshift\nexec '{sys.executable}' -c \"import sys; sys.version_info = (3, 9); $1\"\n",
        "is 3.9",
    ),
}


@pytest.mark.parametrize("python", PYTHONS)
def test_a_python_that_will_not_do_is_told_in_one_line_and_nothing_is_made(python: str, tmp_path: Path) -> None:
    script, told = PYTHONS[python]
    for name in ("Makefile", "requirements.lock"):
        shutil.copy(CHECKOUT / name, tmp_path)
    other = tmp_path / "other-python"
    if script:
        other.write_text(script)
        other.chmod(0o755)
    made = subprocess.run(
        ["make", "check", f"PYTHON={other}"],
        check=False,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=_ENVIRONMENT,
    )
    assert made.returncode == 2
    (line,) = made.stderr.splitlines()
    assert told in line
    assert not (tmp_path / ".venv").exists()


# Of a make that runs the tests; one of our own would take over its flags.
_ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
