"""Nothing outlives a transaction, so that a pooler may give each one to another of its connections.

LISTEN, session settings, named prepared statements, temporary tables, cursors that are held and advisory locks of a
session all belong to a connection: behind a pooler, to somebody else's.
"""

import ast
import re
from collections.abc import Iterator

import pytest

from dilamme.store import session_settings
from dilamme.store.sql_blocks import blocks, fragments
from tests.unit.sources import PACKAGE, deployed, strings

FORBIDDEN = {
    "notifications": r"\b(?:LISTEN|UNLISTEN|NOTIFY)\b|\bpg_notify\b",
    "a setting of the session": r"(?:^|;)\s*SET\s+(?!LOCAL\b|CONSTRAINTS\b)|(?:^|;)\s*RESET\b",
    "a setting that outlives the transaction": r"set_config\([^()]*,\s*(?:false|%\(?\w*\)?s)\s*\)",
    "a prepared statement": r"(?:^|;)\s*(?:PREPARE|EXECUTE|DEALLOCATE)\b",
    "an advisory lock of the session": r"\bpg_(?:try_)?advisory_(?:un)?lock",
    # Not where a function's search_path names the schema of temporary things last: unnamed, it would come first.
    "a temporary table": r"\bTEMP(?:ORARY)?\b|(?<!SET search_path = pg_catalog, )\bpg_temp\b",
    "a cursor that is held": r"\bWITH HOLD\b|(?:^|;)\s*DECLARE\b",
    "a discarded session": r"(?:^|;)\s*DISCARD\b",
}
# As our SQL begins in Python: with a keyword in capitals.
_SQL = re.compile(
    r"\s*(?:SELECT|WITH|INSERT|UPDATE|DELETE|SET|RESET|LISTEN|UNLISTEN|NOTIFY|PREPARE|EXECUTE|DEALLOCATE|DECLARE|DISCARD"
    r"|CREATE|ALTER|LOCK)\b"
)


def findings(text: str) -> list[str]:
    """What in the text belongs to a connection."""
    return [what for what, pattern in FORBIDDEN.items() if re.search(pattern, text, re.IGNORECASE)]


def sql_of_the_package() -> Iterator[tuple[str, str]]:
    """Every piece of SQL there is, by where it stands."""
    yield from blocks().items()
    yield from fragments().items()
    for file in sorted(PACKAGE.rglob("*.sql")):
        if file.parent.name != "sql":
            for place, statement in enumerate(re.sub(r"--.*", "", file.read_text(encoding="utf-8")).split(";")):
                yield f"{file.name}, statement {place}", statement
    for module in deployed():
        for text in strings(module.tree):
            if _SQL.match(text):
                yield module.name, text


@pytest.mark.case("S3")
def test_no_sql_of_ours_leaves_anything_on_its_connection() -> None:
    assert [(where, found) for where, text in sql_of_the_package() if (found := findings(text))] == []


def test_the_search_sees_the_sql_that_stands_in_python() -> None:
    seen = [text for where, text in sql_of_the_package() if where.startswith("dilamme.store.")]
    assert any("SET LOCAL statement_timeout" in text for text in seen)
    assert any("set_config('lock_timeout', %s, true)" in text for text in seen)


@pytest.mark.parametrize(
    "text",
    [
        "LISTEN jobs",
        "NOTIFY jobs, 'x'",
        "SELECT pg_notify('jobs', '')",
        "SET statement_timeout = '5s'",
        "SET LOCAL lock_timeout = '5s'; SET search_path = dilamme",
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "reset all",
        "SELECT set_config('lock_timeout', '5s', false)",
        "SELECT set_config('lock_timeout', %s, %s)",
        "PREPARE claim AS SELECT 1",
        "SELECT pg_advisory_lock(1)",
        "SELECT pg_try_advisory_lock(1)",
        "SELECT pg_advisory_unlock_all()",
        "CREATE TEMP TABLE t (id uuid)",
        "CREATE TEMPORARY TABLE t (id uuid)",
        "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
        "DISCARD ALL",
    ],
)
def test_what_belongs_to_a_connection_is_caught(text: str) -> None:
    assert findings(text)


@pytest.mark.parametrize(
    "text",
    [
        "SET LOCAL statement_timeout = '5s'",
        "SELECT set_config('lock_timeout', %s, true)",
        "SELECT pg_advisory_xact_lock(1)",
        "UPDATE dilamme.jobs\nSET status = 'running'",
    ],
)
def test_what_ends_with_the_transaction_is_let_through(text: str) -> None:
    assert not findings(text)


def calls_of_connect() -> list[ast.Call]:
    """Where the package opens connections."""
    return [
        node
        for module in deployed()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"psycopg.connect", "psycopg.Connection.connect"}
    ]


def test_there_is_one_place_that_opens_connections_and_it_prepares_nothing_on_the_server() -> None:
    (call,) = calls_of_connect()
    keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
    assert keywords["prepare_threshold"] == "None"
    assert keywords["autocommit"] == "autocommit"  # the functions' default, and a handler's choice


def test_no_start_up_options_are_given_since_poolers_refuse_them() -> None:
    for module in deployed():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Dict):
                assert "'options'" not in [ast.unparse(key) for key in node.keys if key]
            if isinstance(node, ast.Call):
                assert "options" not in [keyword.arg for keyword in node.keywords]


def test_only_what_poolers_take_is_given_at_the_start_of_a_connection() -> None:
    """PgBouncer and RDS Proxy know these five, and refuse or ignore the others."""
    taken = {"client_encoding", "DateStyle", "TimeZone", "standard_conforming_strings", "application_name"}
    assert session_settings.AT_START.keys() <= taken


def test_no_statement_asks_to_be_prepared() -> None:
    for module in deployed():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.keyword) and node.arg == "prepare":
                assert ast.unparse(node.value) == "False"
