"""One lock order, by id: two transactions that take the same locks in the same order cannot wait for each other.

A settle is the exception: its updates lock in the order in which they find the rows, and it yields before PostgreSQL
would look for a deadlock (tests/integration/test_dag_races.py).
"""

import re
from collections.abc import Iterator, Mapping

import pytest

from dilamme.store.sql_blocks import blocks
from tests.unit.statements import statements

TABLES_BY_ID = ("dilamme.jobs", "dilamme.series")


def unordered(text_by_block: Mapping[str, str]) -> Iterator[str]:
    """The blocks that wait for row locks in no order. Who skips locked rows, or wants one row by its id, waits in none."""
    for block, text in text_by_block.items():
        for statement in statements(block, text):
            lock = statement.lock
            if lock is None or not any(statement.locks(table) for table in TABLES_BY_ID):
                continue
            skips = "SKIP LOCKED" in statement.clauses[lock]
            if not skips and "id = %(id)s" not in statement.conditions and not by_id(statement.clauses):
                yield block


def by_id(clauses: Mapping[str, str]) -> bool:
    """Is the order that of ids?"""
    return re.fullmatch(r"(\w+\.)?id", clauses.get("ORDER BY", "")) is not None


def test_whoever_waits_for_locks_takes_them_in_the_order_of_ids() -> None:
    assert list(unordered(blocks())) == []


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM dilamme.jobs WHERE id = ANY(%(ids)s) FOR NO KEY UPDATE",
        "SELECT id FROM dilamme.jobs WHERE id = ANY(%(ids)s) ORDER BY ready_at, id FOR SHARE",
        "SELECT id FROM dilamme.series WHERE id = ANY(%(ids)s) ORDER BY id DESC FOR UPDATE",
        "WITH a AS (SELECT job.id FROM dilamme.jobs AS job FOR UPDATE OF job) SELECT id FROM a ORDER BY id",
    ],
)
def test_locks_in_another_order_are_caught(text: str) -> None:
    assert list(unordered({"new": text})) == ["new"]
