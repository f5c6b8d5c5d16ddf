"""One lock order, by id: two transactions that take the same locks in the same order cannot wait for each other."""

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
            skips = "SKIP LOCKED" in statement.clauses[lock] and not waits_too(block)
            if not skips and "id = %(id)s" not in statement.conditions and not by_id(statement.clauses):
                yield block


def by_id(clauses: Mapping[str, str]) -> bool:
    """Is the order that of ids?"""
    return re.fullmatch(r"(\w+\.)?id", clauses.get("ORDER BY", "")) is not None


def waits_too(block: str) -> bool:
    """Is the block also run with its SKIP LOCKED taken out?"""
    return block in {"complete", "retry", "hand_back", "bury"}


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


@pytest.mark.parametrize("block", ["complete", "retry", "hand_back", "bury"])
def test_the_form_of_a_settle_that_waits_differs_by_its_skip_locked_alone(block: str) -> None:
    assert blocks()[block].count("SKIP LOCKED") == 1
    (lock,) = [one for one in statements(block, blocks()[block].replace("SKIP LOCKED", "")) if one.lock]
    assert lock.clauses["FOR NO KEY UPDATE"] in {"", "OF job"}
    assert by_id(lock.clauses)
