"""CASES.md names for every row the tests that hold it, as their marks say."""

import re

import pytest

from tests.cases import BESIDE, FILE, TESTS, held, marks, rows, table, with_table

CASES = FILE.read_text(encoding="utf-8")


def test_the_table_is_what_the_tool_writes() -> None:
    assert with_table(CASES) == CASES, "run: make docs"


def test_no_row_is_without_a_test() -> None:
    assert len(rows(CASES)) > 40
    is_held = {*held(), *(row for row, note in BESIDE.items() if note.startswith("`"))}
    assert [row for row in rows(CASES) if row not in is_held] == []


def test_every_mark_and_note_names_a_row() -> None:
    assert {*held(), *BESIDE} <= {*rows(CASES)}


def test_no_id_is_given_to_two_rows() -> None:
    assert len({*rows(CASES)}) == len(rows(CASES))


@pytest.mark.parametrize("note", BESIDE.values())
def test_what_holds_a_row_without_being_a_test_exists(note: str) -> None:
    assert all((TESTS.parent / path).is_file() for path in re.findall(r"`(\S+)`", note))


def test_rows_of_any_table_and_marks_of_any_number_are_seen() -> None:
    text = "| # | input | right outcome |\n|---|---|---|\n| A1 | x | y |\n\n| # | input | what happened | right outcome |\n"
    text += "|---|---|---|---|\n| H10 | x | y \\| z | w |\n| H11 | x | y | z |\n<!-- held by -->\n| B1 | no row |\n"
    source = (
        '@pytest.mark.case("A1", "H10")\n@other\ndef test_it(): ...\n\n@pytest.mark.cases("H11")\ndef test_no(): ...\n'
    )
    assert rows(text) == ["A1", "H10", "H11"]
    assert list(marks(source)) == [("A1", "test_it"), ("H10", "test_it")]
    assert table(["A1", "H11"], {"A1": ["`one`", "`two`"]}).splitlines()[2:] == [
        "| A1 | `one`<br>`two` |",
        "| H11 |  |",
    ]
