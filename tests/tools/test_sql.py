"""`make sql` prints a statement as it is sent, and says what to do about a name that it does not know."""

import re

import pytest

from dilamme.store.sql_blocks import blocks, fragments, sql
from tools.sql import catalogue, main, whole


def without_comments(text: str) -> str:
    return " ".join(re.sub(r"(?m)^\s*--.*$|\s--\s.*$", "", text).split())


@pytest.mark.parametrize("name", blocks())
def test_what_is_printed_is_the_statement_that_is_sent(name: str) -> None:
    assert without_comments(whole(name)) == " ".join(sql(name).split())
    assert "-- include:" not in whole(name)


def test_the_comments_of_a_statement_and_of_its_fragments_are_printed() -> None:
    text = whole("claim")
    assert "-- fragment: lane_heads\n" in text
    assert "SKIP LOCKED passes" in text


def test_a_fragment_is_as_deep_as_the_line_before_it() -> None:
    lines = whole("claim").splitlines()
    places = [place for place, line in enumerate(lines) if line.strip() == "-- fragment: effective"]
    assert places
    for place in places:
        indents = {len(line) - len(line.lstrip()) for line in (lines[place - 1], lines[place], lines[place + 1])}
        assert len(indents) == 1, lines[place - 1 : place + 2]


def test_without_a_name_all_statements_are_listed_by_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out == catalogue() + "\n"
    listed = {name for line in catalogue().splitlines()[1:] for name in line.split()[1:]}
    assert listed == set(blocks())
    assert re.search(r"(?m)^lanes\.sql .*\bclaim\b", catalogue())


def test_an_unknown_name_is_answered_with_the_names_that_resemble_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clame"]) == 2
    assert capsys.readouterr().err == "No statement is called clame. Did you mean claim?\n"


def test_a_name_that_resembles_none_is_answered_with_the_way_to_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["xyzzy"]) == 2
    assert capsys.readouterr().err == "No statement is called xyzzy. `make sql` lists all names.\n"


def test_a_fragments_name_is_answered_with_the_statements_that_it_is_part_of(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "take" in fragments()
    assert main(["take"]) == 2
    answer = capsys.readouterr().err
    assert answer.startswith("take is a fragment, a part of these statements: ")
    assert {"claim", "claim_handed", "start_and_claim"} <= set(answer.split())
