"""tests/README.md knows every folder and every shared module, and the tests keep its rules."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
MAP = (TESTS / "README.md").read_text(encoding="utf-8")
IMPORTS_A_TEST = re.compile(
    r"^\s*(?:from|import) tests\.(?:\w+\.)*test_|^\s*from tests[\w.]* import (?:.*\W)?test_", re.MULTILINE
)


def test_every_folder_and_every_shared_module_is_on_the_map() -> None:
    folders = {path.name for path in TESTS.iterdir() if path.is_dir() and not path.name.startswith((".", "_"))}
    assert {*re.findall(r"`(\w+)/`", MAP)} == folders
    assert {*re.findall(r"`(\w+\.py)`", MAP.split("| in `support/` |")[1])} - {"conftest.py"} == {
        path.name for path in (TESTS / "support").glob("*.py")
    }


def test_every_test_that_it_names_exists() -> None:
    named = re.findall(r"tests/(\S+\.py)::(\w+)", MAP)
    assert named
    assert all(f"def {test}(" in (TESTS / file).read_text(encoding="utf-8") for file, test in named)


def test_no_test_file_imports_another() -> None:
    assert IMPORTS_A_TEST.search("from tests.unit.test_heap import items\n")
    assert IMPORTS_A_TEST.search("from tests.unit import strategies, test_heap\n")
    assert not IMPORTS_A_TEST.search("from tests.unit.strategies import items\n")
    sources = {file: file.read_text(encoding="utf-8") for file in TESTS.rglob("*.py")}
    assert [str(file) for file, text in sources.items() if file != Path(__file__) and IMPORTS_A_TEST.search(text)] == []
