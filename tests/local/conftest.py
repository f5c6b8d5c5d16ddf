"""Fixtures of a Lambda service whose functions are puppets."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dilamme_local.functions import Function
from tests.local.puppet_service import PuppetService, puppet


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., PuppetService]]:
    """Starts a service with these functions; it ends with the test."""
    services: list[PuppetService] = []

    def start_service(*functions: Function) -> PuppetService:
        services.append(PuppetService(tmp_path, *functions))
        return services[-1]

    yield start_service
    for service in services:
        service.stop()


@pytest.fixture
def service(start: Callable[..., PuppetService]) -> PuppetService:
    """One function, ``worker``, that reports to another, ``rescue``."""
    return start(puppet("worker", on_failure="rescue"), puppet("rescue"))
