"""docs/problems.md lists every problem that the API can answer with, and no other."""

import re
from collections.abc import Iterator
from pathlib import Path

from dilamme.domain.errors import PROBLEM_TYPE, DilammeError
from functions.api import handler as api  # with it, every module that defines an error

PAGE = Path(__file__).parents[2] / "docs" / "problems.md"


def tree(root: type[DilammeError] = DilammeError) -> Iterator[type[DilammeError]]:
    yield root
    for branch in root.__subclasses__():
        if branch.__module__.startswith("dilamme.") and not branch.__module__.startswith("dilamme.client."):
            yield from tree(branch)


def test_each_error_has_a_code_of_its_own() -> None:
    assert api.app
    assert [error.__name__ for error in tree() if "code" not in vars(error)] == []
    codes = [error.code for error in tree()]
    assert len(set(codes)) == len(codes)
    assert [code for code in codes if not re.fullmatch("[a-z]+(-[a-z]+)*", code)] == []


def test_the_page_lists_each_problem_with_its_status() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert f"`{PROBLEM_TYPE}`" in text
    listed = re.findall(r"^\| `([a-z-]+)` \| (\d+) \|", text, re.MULTILINE)
    assert sorted(listed) == sorted((error.code, str(error.status)) for error in tree())
