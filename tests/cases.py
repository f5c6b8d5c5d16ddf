"""Which test holds which row of CASES.md: ``python -m tests.cases`` writes that table anew, from the tests' marks.

A test names its rows: ``@pytest.mark.case("C4")``. The sources are read and not run, so that a look costs no collection.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
FILE = TESTS / "CASES.md"
OPENING, CLOSING = "<!-- held by -->\n", "<!-- /held by -->"

# What holds a row and is no test of pytest's, and what is to be known of a row's tests.
BESIDE = {
    "S1": "(at a fifth of a million)",
    "S2": "`benchmarks/depth.py` (a measurement, not a test: a drain under a held snapshot)",
    "S3": "`tests/through-pgbouncer` (`make test-pgbouncer`)",
    "S5": "(in small; the reads of a batch among the crowd)",
}


def rows(text: str) -> list[str]:
    """The ids of the rows, in order: all tables before the one that is written here, whatever columns they have."""
    lines = text.partition(OPENING)[0].splitlines()
    ids = [line.split("|")[1].strip() for line in lines if line.startswith("| ")]
    return [row for row in ids if row != "#"]


def marks(source: str) -> Iterator[tuple[str, str]]:
    """(row, test function), for each mark in a file."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.case":
                    yield from ((ast.literal_eval(row), node.name) for row in decorator.args)


@cache
def held() -> dict[str, list[str]]:
    """The tests of each row that a test names."""
    found: dict[str, list[str]] = {}
    for file in sorted(TESTS.rglob("test_*.py")):
        for row, test in marks(file.read_text(encoding="utf-8")):
            found.setdefault(row, []).append(f"`{file.relative_to(TESTS)}::{test}`")
    return found


def table(rows: list[str], held: dict[str, list[str]]) -> str:
    """Two columns, as Markdown."""
    lines = ["| # | held by |", "|---|---|"]
    for row in rows:
        tests, beside = "<br>".join(held.get(row, [])), BESIDE.get(row, "")
        lines.append(f"| {row} | {' '.join(filter(None, [tests, beside]))} |")
    return "\n".join(lines) + "\n"


def with_table(text: str) -> str:
    """``text`` with the table between its two marks."""
    before, rest = text.split(OPENING)
    return before + OPENING + table(rows(text), held()) + CLOSING + rest.split(CLOSING)[1]


if __name__ == "__main__":
    FILE.write_text(with_table(FILE.read_text(encoding="utf-8")), encoding="utf-8")
