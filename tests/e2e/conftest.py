"""Fixtures of the end-to-end tests: stacks of the deployed handlers, each on a database of its own."""

import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from dilamme_local.options import Options
from dilamme_local.postgres import Postgres
from dilamme_local.stack import Stack
from tests.e2e.system import System
from tests.support.checkout import CHECKOUT

JOBS = Path(__file__).parent / "jobs"
Start = Callable[..., System]
_numbers = count(1)


@pytest.fixture(scope="session")
def functions_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The functions as they are deployed, with the tests' job handlers beside the users'."""
    folder = tmp_path_factory.mktemp("deployed") / "functions"
    shutil.copytree(CHECKOUT / "functions", folder, ignore=shutil.ignore_patterns("__pycache__"))
    for module in JOBS.glob("*.py"):
        shutil.copy(module, folder / "worker" / "jobs")
    return folder


@pytest.fixture(scope="module")
def start(functions_folder: Path, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts a stack with these settings (``worker_slots=1``) and options; it ends with the module."""
    stacks: list[Stack] = []

    def start_one(clock_seconds: float | None = 60, **settings: Any) -> System:
        name = f"e2e_{next(_numbers)}"
        postgres.create_database(name)
        folder = tmp_path_factory.mktemp(name)
        variables = {f"DILAMME_{setting.upper()}": str(value) for setting, value in settings.items()}
        options = Options(
            port=0,
            data_dir=folder,
            database_url=postgres.url(name),
            database_roles=True,
            functions_folder=functions_folder,
            variables={"E2E_FOLDER": str(folder), **variables},
            clock_seconds=clock_seconds,
        )
        stacks.append(Stack(options))
        return System(stacks[-1].start(), folder)

    yield start_one
    for stack in stacks:
        stack.stop()


@pytest.fixture(scope="module")
def system_of_module(request: pytest.FixtureRequest, start: Start) -> System:
    """The module's stack, with the settings that it names in ``SETTINGS``."""
    return start(**request.module.SETTINGS)


@pytest.fixture
def system(system_of_module: System) -> Iterator[System]:
    """A running stack on which nothing happens yet."""
    yield system_of_module
    system_of_module.tidy()
