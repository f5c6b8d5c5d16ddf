"""ARCHITECTURE.md's map is the code's, and its invariants are the ones that the code names."""

import re

from tests.support.pages import ROOT, table, text

PACKAGE = ROOT / "shared" / "dilamme"
MAP = text("ARCHITECTURE.md").split("## The map\n\n")[1].split("\n\n")[0]


def test_every_path_in_the_map_exists() -> None:
    paths = [line.split()[0] for line in MAP.splitlines()]
    assert len(paths) > 15
    assert [path for path in paths if not any(ROOT.rglob(path.rstrip("/")))] == []


def test_the_map_names_every_part_of_the_package() -> None:
    shown = {line.split()[0].rstrip("/") for line in MAP.splitlines()}
    there = {path.name for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert there - {"__init__.py", "__pycache__"} <= shown


def test_the_modules_that_the_map_lists_are_all_that_there_are() -> None:
    for line in MAP.splitlines():
        folder, _, listed = line.strip().partition(" ")
        modules = listed.rpartition(": ")[2].strip().split(", ")
        if (PACKAGE / folder).is_dir() and all(re.fullmatch(r"\w+|…", module) for module in modules):
            there = {file.stem for file in (PACKAGE / folder).glob("*.py")} - {"__init__"}
            named = set(modules) - {"…"}
            assert named <= there, f"{folder} has no {named - there}"
            assert "…" in modules or named == there, f"the map lacks {there - named} of {folder}"


def test_no_store_function_opens_a_transaction() -> None:
    for file in (PACKAGE / "store").glob("*.py"):
        assert file.name == "connection.py" or "transaction(" not in file.read_text(encoding="utf-8"), file


def test_the_invariants_are_numbered_and_every_one_that_the_code_names_is_there() -> None:
    numbers = [int(row[0]) for row in table("ARCHITECTURE.md", "| # | invariant | held by |")]
    assert numbers == list(range(1, 16))
    for file in PACKAGE.rglob("*.py"):
        named = re.findall(r"invariants? (\d+)", file.read_text(encoding="utf-8"))
        assert {int(number) for number in named} <= set(numbers), file
