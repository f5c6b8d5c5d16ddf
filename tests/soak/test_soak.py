"""A short soak, so that every run of the tests has one; `make soak` is the long one."""

import os
import secrets
from pathlib import Path

import pytest

from tests.soak.soak import soak

SECONDS = 30


@pytest.mark.timeout(300)  # the rest afterwards is bounded too
def test_no_promise_is_broken_whatever_goes_wrong(tmp_path: Path) -> None:
    """Invariants 1, 2, 5, 6, 9, 10, 11 and 13, and more: each check of the auditor."""
    report = soak(SECONDS, os.environ.get("SOAK_SEED") or secrets.token_hex(4), tmp_path)
    assert not report.violations, f"\n{report}"
