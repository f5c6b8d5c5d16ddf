"""One build and one set of servers for all tests in containers. `make sam-test` runs them; they take some minutes.

The build is that of a new application, as `dilamme new` and `dilamme build` make it: what holds there holds for every user. That this
repository's own root can be built too, `test_build.py` looks at.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dilamme_cli.build import build
from dilamme_cli.new import make
from dilamme_local.application import load
from tests.sam.stack import MIGRATE, NotPossible, SamStack

if os.environ.get("SAM_TESTS") != "1":
    collect_ignore_glob = ["test_*.py"]  # the ordinary tests need no container engine


@pytest.fixture(scope="session")
def stack() -> Iterator[SamStack]:
    """Built and migrated; gone with the session."""
    with tempfile.TemporaryDirectory(prefix="dilamme-sam-") as folder:
        stack = SamStack(Path(folder))
        try:
            stack.start()
        except NotPossible as reason:
            pytest.skip(str(reason))
        try:
            make(Path(folder) / "shop")
            stack.build(checkout=build(load(Path(folder) / "shop")))
            stack.migrated = stack.invoke(MIGRATE, {})
            yield stack
        finally:
            stack.stop()
