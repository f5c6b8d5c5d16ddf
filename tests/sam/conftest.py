"""One build and one set of servers for all tests in containers. `make sam-test` runs them; they take some minutes."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

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
            stack.build()
            stack.migrated = stack.invoke(MIGRATE, {})
            yield stack
        finally:
            stack.stop()
