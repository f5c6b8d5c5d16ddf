"""CASES.md names for every case the tests that hold it; they exist."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
CASES = (TESTS / "CASES.md").read_text(encoding="utf-8")
_CASES, _, _HELD = CASES.partition("## Which test holds which case")
_ROW = re.compile(r"^\| ([A-Z]\d+) \| (.+) \|$", re.MULTILINE)


def named() -> Iterator[tuple[str, str]]:
    """(case, what holds it)."""
    for case, held in _ROW.findall(_HELD):
        for test in re.findall(r"`([^` ]+)`", held):
            yield case, test


def is_there(test: str) -> bool:
    path, _, function = test.partition("::")
    file = TESTS.parent / path if path.startswith("benchmarks/") else TESTS / path
    return file.is_file() and (not function or function in functions(file))


def functions(file: Path) -> set[str]:
    return {node.name for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)}


def test_every_case_is_held_by_something() -> None:
    cases = [case for case, _ in _ROW.findall(_CASES)]
    assert len(cases) > 40
    assert [case for case, _ in _ROW.findall(_HELD)] == cases
    assert {case for case, _ in named()} == set(cases)


def test_whatever_is_said_to_hold_a_case_exists() -> None:
    assert [(case, test) for case, test in named() if not is_there(test)] == []


def test_a_name_that_does_not_exist_is_noticed() -> None:
    assert is_there("docs/test_cases.py::test_every_case_is_held_by_something")
    assert not is_there("docs/test_cases.py::test_nothing")
    assert not is_there("docs/nowhere.py::test_nothing")
