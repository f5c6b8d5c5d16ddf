"""The catalogue of SQL: every block is used by one function, every name that is used exists."""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache

import pytest

from dilamme.store import sql_blocks
from dilamme.store.sql_blocks import blocks, fragments, sql
from tests.unit.sources import PACKAGE, Module, deployed, module, strings

# Which argument of a function is the name of a block; `senders` finds those that hand it on.
Function = ast.FunctionDef | ast.AsyncFunctionDef
FIRST_SENDERS = {"sql": 0, "sql_blocks.sql": 0}
# Where SQL may stand in Python: it concerns the connection, a role, or the schema itself, but no table of ours.
_OUR_TABLES = re.compile(r"\b(?:FROM|INTO|UPDATE|JOIN|TABLE)\s+(?:dilamme\.)?\w+", re.IGNORECASE)
_STATEMENT = re.compile(r"\s*(?:WITH|SELECT|INSERT|UPDATE|DELETE|TRUNCATE|CREATE TABLE)\b")


def uses(source: Module) -> Iterator[tuple[str, str]]:
    """(function, block) for each name that a module gives, directly or by a table of names.

    Raises:
        AssertionError: the name cannot be read from the source.
    """
    tables = {ast.unparse(node.targets[0]): node.value for node in source.tree.body if isinstance(node, ast.Assign)}
    for function, name in given_names(source):
        table = tables.get(ast.unparse(name.value)) if isinstance(name, ast.Subscript) else None
        found = list(strings(table or name))
        assert found, f"{source.name}.{function.name} gives a name that cannot be read: {ast.unparse(name)}"
        yield from ((f"{source.name}.{function.name}", block) for block in found)


def given_names(source: Module) -> Iterator[tuple[Function, ast.expr]]:
    """The expressions that stand for a block's name, and the functions that they stand in."""
    (connection,) = [one for one in deployed() if one.name == "dilamme.store.connection"]
    known = senders(source, senders(connection, FIRST_SENDERS))
    for function in functions_of(source):
        yield from ((function, name) for name in names_in(function, known) if parameter(function, name) is None)


def senders(source: Module, known: Mapping[str, int]) -> dict[str, int]:
    """The known ones, and the module's functions that hand a parameter of their own on to one of them."""
    handed_on = {
        function.name: place
        for function in functions_of(source)
        for name in names_in(function, known)
        if (place := parameter(function, name)) is not None
    }
    return {**known, **handed_on}


def functions_of(source: Module) -> list[Function]:
    """The functions and methods of a module."""
    return [node for node in ast.walk(source.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def names_in(function: Function, known: Mapping[str, int]) -> Iterator[ast.expr]:
    """What the function gives to senders for a name."""
    for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
        place = known.get(ast.unparse(call.func))
        if place is not None and len(call.args) > place:
            yield call.args[place]


def parameter(function: Function, name: ast.expr) -> int | None:
    """Which of the function's parameters the expression is, if any."""
    parameters = [argument.arg for argument in function.args.args]
    return parameters.index(name.id) if isinstance(name, ast.Name) and name.id in parameters else None


@cache
def all_uses() -> tuple[tuple[str, str], ...]:
    """(function, block) in the whole project."""
    return tuple(use for source in deployed() for use in uses(source))


def test_every_name_that_is_used_exists() -> None:
    assert {block for _, block in all_uses()} - blocks().keys() == set()


def test_every_block_is_used() -> None:
    assert blocks().keys() - {block for _, block in all_uses()} == set()


def test_a_block_is_used_by_one_function_so_that_one_search_tells_the_story() -> None:
    users = {block: {function for function, used in all_uses() if used == block} for block in blocks()}
    assert {block: functions for block, functions in users.items() if len(functions) > 1} == {}


def test_a_module_of_the_store_uses_the_file_of_its_name() -> None:
    for function, block in all_uses():
        module_name = function.rpartition(".")[0]
        text = (PACKAGE / "store" / "sql" / f"{module_name.rpartition('.')[2]}.sql").read_text(encoding="utf-8")
        assert f"-- name: {block}\n" in text, f"{function} uses {block} of another file"


def test_only_the_store_sends_blocks() -> None:
    assert {function for function, _ in all_uses() if not function.startswith("dilamme.store.")} == set()


def test_every_fragment_is_included_somewhere() -> None:
    included = Counter(re.findall(r"-- include: (\w+)", "\n".join(sql_texts())))
    assert fragments().keys() == included.keys()


def test_no_statement_on_our_tables_stands_outside_of_the_catalogue() -> None:
    outside = [
        (source.name, text)
        for source in deployed()
        for text in strings(source.tree)
        if _STATEMENT.match(text) and _OUR_TABLES.search(text)
    ]
    assert outside == []


@pytest.mark.parametrize("block", blocks())
def test_a_statement_is_whole_when_it_is_sent(block: str) -> None:
    text = sql(block)
    assert "--" not in text
    assert "include:" not in text
    assert ";" not in text
    assert text.count("(") == text.count(")")
    assert re.match(r"WITH|SELECT|INSERT|UPDATE|DELETE|CREATE|\(SELECT", text)
    assert not re.search(r"%(?!\(\w+\)s)", text), "psycopg would take this % for a parameter"


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(KeyError):
        sql("drop_everything")


def test_a_block_named_twice_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    doubled = re.compile(r"^-- (name): (\w)\w*$", re.MULTILINE)  # names cut to a letter: some are the same then
    monkeypatch.setattr(sql_blocks, "_OPENING", doubled)
    with pytest.raises(ValueError, match="named twice"):
        sql_blocks._all_blocks()


def test_comments_are_left_out_and_what_only_looks_like_one_is_kept() -> None:
    body = "-- why\nSELECT errors -> -1, 2 - -1,  -- because\n    'a--b'\n  -- the end\nFROM t\n"
    assert sql_blocks.expand(body) == "SELECT errors -> -1, 2 - -1,\n    'a--b'\nFROM t"


# ===== and the test itself =====


def test_a_use_is_seen_in_every_form_that_it_takes() -> None:
    source = module(
        "dilamme.store.example",
        "TABLE = {1: 'one', **dict.fromkeys((2, 3), 'two')}\n"
        "def a(connection): return fetch(connection, 'three', {'x': 'not this'})\n"
        "def b(connection): return run(connection, TABLE[1])\n"
        "def c(connection): return _settle(connection, 'four', [])\n"
        "def _settle(connection, name, settled): return fetch(connection, name)\n"
        "def d(): return sql_blocks.sql('five')\n",
    )
    assert sorted(block for _, block in uses(source)) == ["five", "four", "one", "three", "two"]


def test_a_name_that_cannot_be_read_is_caught() -> None:
    source = module("dilamme.store.example", "def a(connection): return fetch(connection, make_name())")
    with pytest.raises(AssertionError, match="cannot be read"):
        list(uses(source))


def sql_texts() -> list[str]:
    """The files of the catalogue."""
    return [file.read_text(encoding="utf-8") for file in sorted((PACKAGE / "store" / "sql").glob("*.sql"))]
