"""Every statement that touches a job keeps to the table of transitions and repeats the state it expects.

SKIP LOCKED does not keep doubles out by itself: of a row that was claimed and committed after the snapshot, PostgreSQL
checks again only the conditions of the very statement that takes the lock. So the expected state stands in each.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import dilamme
from dilamme.domain.job import TERMINAL, TRANSITIONS, Status
from dilamme.store.sql_blocks import blocks
from tests.unit.statements import Statement, statements

JOBS = "dilamme.jobs"
# Locks that hold whatever state the row is in, and why that is right.
ANY_STATE = {
    "lock_job": "the use case decides by the status that it reads under this lock, and its writes repeat it",
    "lock_parents": "the status is the answer, whatever it is; FOR SHARE holds it still",
}
# The two that are given the state, the same to both: a terminal one.
GIVEN_STATE = {"lock_prunable", "prune"}
_LITERAL = re.compile(r"status = '(\w+)'")
_GIVEN = "status = %(status)s"


def on_jobs(text_by_block: Mapping[str, str]) -> Iterator[Statement]:
    """The statements that lock or change rows of jobs."""
    for block, text in text_by_block.items():
        for statement in statements(block, text):
            if statement.writes_to == JOBS or statement.locks(JOBS):
                yield statement


def expected(statement: Statement) -> Status | None:
    """The state that a row must be in for the statement to touch it."""
    found = [match[1] for condition in statement.conditions if (match := _LITERAL.fullmatch(condition))]
    return Status(found[0]) if len(found) == 1 else None


def written(statement: Statement) -> Status | None:
    """The state that an UPDATE writes, or None if it leaves the state alone.

    Raises:
        ValueError: it writes one that cannot be read from the statement.
    """
    if "status" not in statement.clauses["SET"] and "()" not in statement.clauses["SET"].split("=")[0]:
        return None
    for assignment in statement.clauses["SET"].split(","):
        if match := re.fullmatch(r"\s*status = '(\w+)'\s*", assignment):
            return Status(match[1])
    raise ValueError(f"{statement.block} writes a status that is no literal")


def changes(text_by_block: Mapping[str, str]) -> Iterator[tuple[str, tuple[Status | None, Status]]]:
    """The status changes: the block, and the states before and after."""
    for statement in on_jobs(text_by_block):
        if statement.verb == "UPDATE" and (after := written(statement)) is not None:
            yield statement.block, (expected(statement), after)


def problems(text_by_block: Mapping[str, str]) -> Iterator[str]:
    """What the statements do that they must not, a sentence each."""
    for statement in on_jobs(text_by_block):
        block = statement.block
        if statement.verb == "INSERT INTO":
            if "DO UPDATE" in statement.clauses:
                yield f"{block} changes jobs that it meant to insert"
        elif expected(statement) is None and not is_excepted(statement):
            yield f"{block}: a {statement.lock or statement.verb} does not repeat the state that it expects"
    for block, (before, after) in changes(text_by_block):
        if (before, after) not in TRANSITIONS.values():
            yield f"{block}: {before} to {after} is no edge of the table"
        locks = [one for one in on_jobs({block: text_by_block[block]}) if one.lock]
        # Without one, the UPDATE itself takes the lock, and its own conditions are checked again.
        if any(expected(lock) != before for lock in locks):
            yield f"{block}: a lock of its own expects another state than {before}"


def is_excepted(statement: Statement) -> bool:
    """Is it a lock that may hold any state, or a statement that is given one?"""
    if statement.block in ANY_STATE:
        return statement.lock is not None
    return statement.block in GIVEN_STATE and _GIVEN in statement.conditions


# ===== the statements as they are =====


def test_every_statement_keeps_to_the_table_and_repeats_the_state_it_expects() -> None:
    assert list(problems(blocks())) == []


@pytest.mark.parametrize("verb", TRANSITIONS)
def test_every_verb_of_the_table_is_a_block_that_makes_just_that_change(verb: str) -> None:
    assert list(changes({verb: blocks()[verb]})) == [(verb, TRANSITIONS[verb])]


def test_the_other_blocks_that_change_a_status_are_forms_of_these_verbs() -> None:
    others = {block: edge for block, edge in changes(blocks()) if block not in TRANSITIONS}
    claims = dict.fromkeys(("claim_handed", "start_and_claim"), TRANSITIONS["claim"])
    assert others == {**claims, "cancel_dependents": TRANSITIONS["cancel"]}


@pytest.mark.parametrize("verb", [verb for verb, (before, _) in TRANSITIONS.items() if before is Status.RUNNING])
def test_a_claim_is_ended_only_under_its_attempt_and_its_token(verb: str) -> None:
    (update,) = on_jobs({verb: blocks()[verb]})
    assert update.verb == "UPDATE"
    assert {"attempt = %(attempt)s", "token = %(token)s"} <= set(update.conditions)


def test_a_job_is_stored_as_pending_or_as_cancelled_and_as_nothing_else() -> None:
    chosen = "CASE WHEN s.failure IS NULL THEN 'pending' ELSE 'cancelled' END"
    assert dict(inserted_statuses(blocks())) == {"insert_next": "'pending'", "insert": chosen, "insert_one": chosen}


def test_retention_is_given_terminal_states_only() -> None:
    assert statuses_given_to_retention() == TERMINAL


def test_the_lists_of_exceptions_name_statements_that_need_them() -> None:
    needed = {one.block for one in on_jobs(blocks()) if one.verb != "INSERT INTO" and expected(one) is None}
    assert needed == ANY_STATE.keys() | GIVEN_STATE


def test_nothing_about_jobs_is_changed_by_a_migration_s_triggers_or_functions() -> None:
    for file in sorted((Path(dilamme.__file__).parent / "store" / "migrations").glob("*.sql")):
        text = re.sub(r"--.*", "", file.read_text(encoding="utf-8"))
        assert not re.search(r"\bCREATE (OR REPLACE )?(TRIGGER|RULE|PROCEDURE)\b", text)
        # A function may store a job (dilamme.submit does), and change none.
        assert not re.search(r"\b(UPDATE|DELETE FROM|MERGE INTO|TRUNCATE)\s+(ONLY\s+)?dilamme\.jobs\b", text)


# ===== and the test itself: what it must catch =====

RUNNING, PENDING, DEAD = (rf"\b(?:\w+\.)?status = '{status}'" for status in ("running", "pending", "dead"))
# What is wrong -> the block, what to look for, which of its occurrences to replace, and by what.
WRONG = {
    "a completion takes whatever it finds": ("complete", RUNNING, 0, "true"),
    "a burial takes another state": ("bury", RUNNING, 0, "job.status = 'pending'"),
    "a claim locks whatever it finds": ("claim", r"job\.status = 'pending'(?=[\s\S]*FOR NO KEY)", 0, "true"),
    "a claim takes whatever it has locked": ("claim", PENDING, -1, "true"),
    "a cancellation locks another state": ("cancel", PENDING, 1, "status = 'running'"),
    "a cancellation takes another state": ("cancel", PENDING, 0, "job.status = 'running'"),
    "the state is one of two": ("replay", rf"{DEAD} AND", 0, "job.status = 'dead' OR"),
    "the state is one of a list": ("replay", DEAD, 0, "job.status IN ('dead', 'cancelled')"),
    "the state is everything but one": ("replay", DEAD, 0, "job.status <> 'completed'"),
    "the change is no edge": ("cancel_dependents", "SET status = 'cancelled'", 0, "SET status = 'dead'"),
    "the change has no literal": ("retry", "SET status = 'pending'", 0, "SET status = outcome.status"),
    "the change hides in a row": ("retry", "SET status = 'pending'", 0, "SET (status, attempt) = ('completed', 1)"),
    "a release counts down whatever it finds": ("release", PENDING, -1, "true"),
    "retention takes what was revived": ("prune", r"job\.status = %\(status\)s", 0, "true"),
    "an insert overwrites": ("insert_next", "DO NOTHING", 0, "(id) DO UPDATE SET status = 'dead'"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_statement_is_caught(wrong: str) -> None:
    block, pattern, occurrence, replacement = WRONG[wrong]
    text = blocks()[block]
    place = list(re.finditer(pattern, text))[occurrence]
    mutated = {**blocks(), block: text[: place.start()] + replacement + text[place.end() :]}
    try:
        found = list(problems(mutated))
    except ValueError as unreadable:
        found = [str(unreadable)]
    assert found
    assert all(sentence.startswith(block) for sentence in found)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM dilamme.jobs WHERE id = %(id)s FOR UPDATE",
        "SELECT job.id FROM dilamme.series JOIN dilamme.jobs AS job ON true FOR SHARE OF job",
        "WITH a AS (SELECT id FROM dilamme.jobs FOR KEY SHARE) SELECT id FROM a",
        "DELETE FROM dilamme.jobs WHERE id = %(id)s",
        "UPDATE dilamme.jobs SET ready_at = dilamme.clock() WHERE id = %(id)s",
        "UPDATE dilamme.jobs SET attempt = 0 WHERE status = %(status)s",
    ],
)
def test_a_new_statement_that_expects_no_state_is_caught(text: str) -> None:
    assert list(problems({"new": text}))


@pytest.mark.parametrize("values", ["'running'", "'dead'", "CASE WHEN true THEN 'pending' END"])
def test_a_job_that_is_stored_in_another_state_is_caught(values: str) -> None:
    text = f"INSERT INTO dilamme.jobs (id, status, payload) SELECT s.id, {values}, s.payload FROM unnest(%(ids)s) AS s (id)"
    assert dict(inserted_statuses({"new": text}))["new"] == values


# ===== what is inserted, and who gives it =====


def inserted_statuses(text_by_block: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The expression that each INSERT into jobs has for the status."""
    for statement in on_jobs(text_by_block):
        if statement.verb == "INSERT INTO":
            text = text_by_block[statement.block]
            columns = re.search(rf"INSERT INTO {re.escape(JOBS)}(?: AS \w+)? \(([^)]*)\)", text)
            assert columns, f"{statement.block} does not name its columns"
            names = [name.strip() for name in columns[1].split(",")]
            yield statement.block, statement.clauses["SELECT"].split(",")[names.index("status")].strip()


def statuses_given_to_retention() -> set[Status]:
    """The states that the code prunes."""
    (prune,) = [
        node
        for tree in callers()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "prune"
    ]
    return set(named_statuses(prune))


def callers() -> Iterator[ast.Module]:
    """The modules that call the store."""
    for folder in ("usecases", "scheduler", "worker"):
        for file in sorted((Path(dilamme.__file__).parent / folder).glob("*.py")):
            yield ast.parse(file.read_text(encoding="utf-8"))


def named_statuses(node: ast.AST) -> Iterator[Status]:
    """The members of Status that an expression names."""
    for child in ast.walk(node):
        if isinstance(child, ast.Attribute) and ast.unparse(child.value) == "Status":
            yield Status[child.attr]
