"""Fixtures of a Lambda service whose functions are puppets."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from local.functions import Function
from tests.local.bench import Bench, puppet


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    """Starts a service with these functions; it ends with the test."""
    benches: list[Bench] = []

    def start_bench(*functions: Function) -> Bench:
        benches.append(Bench(tmp_path, *functions))
        return benches[-1]

    yield start_bench
    for bench in benches:
        bench.stop()


@pytest.fixture
def bench(start: Callable[..., Bench]) -> Bench:
    """One function, ``worker``, that reports to another, ``rescue``."""
    return start(puppet("worker", on_failure="rescue"), puppet("rescue"))
