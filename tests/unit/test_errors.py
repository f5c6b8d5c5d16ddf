"""What the tree of errors means to an HTTP caller."""

from collections.abc import Iterator

import pytest

from dilamme.domain import errors
from dilamme.domain.errors import DilammeError, Fault, InvalidInput, TooLarge


def tree(root: type[DilammeError] = DilammeError) -> Iterator[type[DilammeError]]:
    """The error and all below it that the module defines."""
    yield root
    for branch in root.__subclasses__():
        if branch.__module__ == errors.__name__:
            yield from tree(branch)


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("DilammeError", 500),
        ("ConfigurationError", 500),
        ("SchemaError", 503),
        ("DatabaseUnavailable", 503),
        ("DatabaseReadOnly", 503),
        ("OutcomeUnknown", 503),
        ("InvalidInput", 422),
        ("TooLarge", 413),
        ("NotFound", 404),
        ("Conflict", 409),
        ("IdempotencyConflict", 409),
    ],
)
def test_each_error_carries_the_status_it_means(name: str, status: int) -> None:
    assert getattr(errors, name).status == status


def test_no_two_errors_share_a_title_unless_one_is_a_case_of_the_other() -> None:
    titles = [error.title for error in tree() if "title" in vars(error)]
    assert len(set(titles)) == len(titles) == 10


def test_invalid_input_keeps_its_faults_and_tells_them_in_one_sentence() -> None:
    faults = (Fault("/priority", "is required"), Fault("", "is no object"))
    refused = InvalidInput(*faults)
    assert refused.faults == faults
    assert str(refused) == "/priority: is required; /: is no object"


def test_whoever_handles_invalid_input_handles_what_is_too_large() -> None:
    assert isinstance(TooLarge(Fault("/payload", "is too large")), InvalidInput)
