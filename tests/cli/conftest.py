"""What the tests of the command line share: an application, and the command as a user starts it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.checkout import CHECKOUT

HANDLERS = """
import os
import time
from dilamme import job

@job("shop.hello")
def hello(payload, context):
    print("hello is printed")
    return {"hello": payload["name"]}

@job("shop.fail", max_attempts=1)
def fail(payload, context):
    raise ValueError("as asked for")

@job("shop.slow")
def slow(payload, context):
    while payload and not os.path.exists(payload):
        time.sleep(0.02)
    return "version 1"
"""
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an application."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "jobs").mkdir()
    (folder / "jobs" / "shop.py").write_text(HANDLERS)
    (folder / "dilamme.toml").write_text("")
    return folder


def variables() -> dict[str, str]:
    """Without those of whoever runs the tests."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("DILAMME", "PYTEST", "DATA_DIR", "PORT"))
    }
    return {**kept, "PYTHONPATH": f"{CHECKOUT}:{CHECKOUT / 'shared'}"}


@pytest.fixture(scope="module")
def dilamme_(application: Path) -> Run:
    """Runs the command in the application's folder."""

    def run(*arguments: str, status: int = 0, stdin: str = "", **more: str) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            [sys.executable, "-m", "dilamme_cli", *arguments],
            cwd=application,
            env={**variables(), **more},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done

    return run
