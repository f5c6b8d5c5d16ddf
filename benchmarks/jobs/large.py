"""Jobs with large results, and one that reads those of its dependencies."""

from typing import Any

from dilamme import Context, job


@job("bench.text")
def give_text(payload: int, context: Context) -> str:  # noqa: ARG001
    """A text of so many characters."""
    return "x" * payload


@job("bench.ones")
def give_ones(payload: int, context: Context) -> list[int]:  # noqa: ARG001
    """So many small numbers: as `jsonb` the largest for its text."""
    return [1] * payload


@job("bench.join")
def join(payload: Any, context: Context) -> int:  # noqa: ARG001
    """The characters of all results that it waited for."""
    return sum(len(result) for result in context.dependency_results.values())
