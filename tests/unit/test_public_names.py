"""`dilamme` itself: the names that an application and a handler's module need, and no library of AWS for them."""

import re
import subprocess
import sys

import pytest

import dilamme
from tests.unit.sources import ROOT

FUNCTIONS = (dilamme.submit, dilamme.submit_async, dilamme.submit_many, dilamme.wake)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_every_error_that_a_docstring_promises_can_be_imported_from_dilamme(function: object) -> None:
    promised = re.findall(r"\bdilamme\.([\w.]+)", str(function.__doc__))
    assert promised
    assert [name for name in promised if name not in dilamme.__all__] == []


def test_whoever_handles_a_dilamme_error_handles_them_all() -> None:
    for error in (dilamme.ConfigurationError, dilamme.Conflict, dilamme.InvalidInput, dilamme.SchemaError):
        assert issubclass(error, dilamme.DilammeError)
    for signal in (dilamme.Retry, dilamme.Snooze, dilamme.Fail):
        assert not issubclass(signal, dilamme.DilammeError)


def test_wake_without_boto3_says_which_extra_to_install() -> None:
    program = "import sys; sys.modules['boto3'] = None; import dilamme; dilamme.wake()"  # None: as if not installed
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT / "shared", capture_output=True, text=True, check=False
    )
    (last,) = ended.stderr.splitlines()[-1:]
    assert last.startswith("dilamme.domain.errors.ConfigurationError: ")
    assert "pip install 'dilamme[aws]'" in last
