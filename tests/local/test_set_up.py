"""Two `make` in one fresh checkout: `make run` in one terminal, `make test` in another."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from local.options import CHECKOUT

Start = Callable[[], subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a set-up of one and the same environment, in which nothing is to be installed."""
    lock = tmp_path / "requirements.lock"
    lock.write_text("# nothing\n")
    script = str(CHECKOUT / "local" / "set_up.py")
    command = [sys.executable, "-P", script, str(tmp_path / ".venv"), str(lock)]
    started: list[subprocess.Popen[str]] = []

    def begin() -> subprocess.Popen[str]:
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
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
