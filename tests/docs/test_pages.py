"""Every page: its links arrive, the files and the make targets that it names exist, its Python can be run."""

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

import dilamme
from tests.support.pages import PAGES, ROOT, anchors, blocks, links, text, without_blocks

TARGETS = set(re.findall(r"^([a-z-]+(?:%|_[a-z]+)?):", text("Makefile"), re.MULTILINE))
# Where a path that a page names may begin, beside its own folder.
BASES = [ROOT, ROOT / "shared" / "dilamme"]
# Files that only a running stack, a build, or `dilamme new` makes.
MADE = {".data", ".venv-sam", ".venv-bench", "stack.json", ".dilamme", "jobs/", "test_hello.py", "requirements.txt"}


def name_of(page: Path) -> str:
    """How pytest shows a page."""
    return str(page.relative_to(ROOT))


def exists(path: str, page: Path) -> bool:
    choices = re.split(r"[{},]", path) if "{" in path else []
    spelt = [choices[0] + choice + choices[-1] for choice in choices[1:-1]] or [path]
    return all(any((base / one).exists() for base in [*BASES, page.parent]) for one in spelt)


def paths(page: str) -> set[str]:
    """What stands in backticks and looks like a file or a folder of ours."""
    quoted = re.findall(r"`([A-Za-z_.][\w./{},-]*(?:\.(?:py|sql|md|yaml|json|toml|txt|pem)|/))`", page)
    return {path for path in quoted if not any(part in path for part in MADE) and not re.search("[A-Z]{4}[_.]", path)}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_arrives(page: Path) -> None:
    for file, anchor in links(page.read_text(encoding="utf-8")):
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), file
        assert not anchor or anchor in anchors(target.read_text(encoding="utf-8")), f"{file}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_file_that_it_names_exists(page: Path) -> None:
    assert [path for path in sorted(paths(page.read_text(encoding="utf-8"))) if not exists(path, page)] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_make_target_that_it_names_exists(page: Path) -> None:
    for line in re.findall(r"(?:`|^\s*|&& )make ([a-z][^`#\n]*)", page.read_text(encoding="utf-8"), re.MULTILINE):
        for word in line.split():
            if re.fullmatch(r"[a-z][a-z_-]+", word):
                assert any(fnmatch(word, target.replace("%", "*")) for target in TARGETS), f"make {word}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_its_python_compiles_and_imports_what_there_is(page: Path) -> None:
    for code in blocks(name_of(page), "python"):
        compile(code, name_of(page), "exec")
        for names in re.findall(r"^from dilamme import (.+)$", code, re.MULTILINE):
            assert set(names.split(", ")) <= set(dilamme.__all__)


def test_the_index_names_every_page() -> None:
    named = {file for file, _ in links(text("docs/README.md"))}
    there = {file.name for file in (ROOT / "docs").iterdir() if file.suffix in (".md", ".json")} - {"README.md"}
    assert there <= named


# ===== and the tests themselves =====


def test_a_slip_is_noticed() -> None:
    assert list(links("[a](b.md#c) ![p](d.png) [w](https://example.com/#x)")) == [("b.md", "c"), ("d.png", "")]
    assert anchors("# A map, and `more`\n```\n# no heading\n```\n") == {"a-map-and-more"}
    assert paths("`store/sql/lanes.sql`, `tests/`, `@job`, `GET /jobs`, `.data/stack.json`") == {
        "store/sql/lanes.sql",
        "tests/",
    }
    assert exists("store/sql/lanes.sql", ROOT / "README.md")
    assert exists("tests/unit/test_{transitions,locks}.py", ROOT / "README.md")
    assert not exists("tests/unit/test_{transitions,nothing}.py", ROOT / "README.md")
    assert without_blocks("a\n```sh\nb\n```\nc\n").split() == ["a", "c"]
