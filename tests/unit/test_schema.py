"""What PostgreSQL holds by itself is what the domain says: the two state the same sets, limits and patterns."""

import re

from dilamme.domain.job import TERMINAL, OnDependencyFailure, Status
from dilamme.domain.patterns import TYPE_PATTERN
from dilamme.store.schema import known_version, steps
from dilamme.wire.requests import Submission


def check(condition: str) -> str:
    """A CHECK of the schema, searched by a pattern: its first group."""
    found = re.search(condition, schema())
    assert found, f"the schema has no {condition}"
    return found[1]


def schema() -> str:
    """All migrations, in order."""
    return "\n".join(text for _, text in steps())


def words(text: str) -> set[str]:
    """The strings of a list."""
    return set(re.findall(r"'(\w+)'", text))


def forms() -> dict[str, str]:
    """What the schema says of a row in each status."""
    cases = check(r"CONSTRAINT jobs_status_check CHECK \(CASE status([\s\S]*?)ELSE false")
    return dict(re.findall(r"WHEN '(\w+)' THEN ([\s\S]*?)(?=WHEN '|\Z)", cases))


def test_a_row_can_be_in_the_states_of_the_domain_and_in_no_other() -> None:
    assert forms().keys() == set(Status)


def test_what_has_ended_has_a_time_of_its_end_and_nothing_else_has() -> None:
    assert {status for status, form in forms().items() if "finished_at IS NOT NULL" in form} == TERMINAL
    assert all(("finished_at, result) =" in form) != (status in TERMINAL) for status, form in forms().items())


def test_a_dependencys_failure_is_handled_in_the_ways_of_the_domain() -> None:
    assert words(check(r"on_dependency_failure IN \(([^)]*)\)")) == set(OnDependencyFailure)


def test_a_type_has_the_same_pattern_in_both() -> None:
    """The schema has the length apart: the first letter and so many more."""
    more = int(check(r"length\(VALUE\) <= (\d+)")) - 1
    assert check(r"VALUE ~ '([^']*)'").replace("*", f"{{0,{more}}}") == TYPE_PATTERN


def test_numbers_have_the_same_limits_in_both() -> None:
    assert check(r"priority BETWEEN (\d AND \d)") == limits("priority")
    assert set(re.findall(r"max_attempts BETWEEN (\d+ AND \d+)", schema())) == {limits("maxAttempts")}
    assert check(r"interval_seconds >= (\d)") == limits("intervalSeconds").partition(" ")[0]


def limits(name: str) -> str:
    """The limits of a submission's field, as its JSON schema has them, in SQL's words."""
    field = Submission.model_json_schema()["properties"][name]
    number = next(kind for kind in field.get("anyOf", [field]) if kind["type"] == "integer")
    return f"{number['minimum']} AND {number['maximum']}"


def test_migrations_count_from_one_without_a_gap() -> None:
    assert [step.version for step, _ in steps()] == list(range(1, known_version() + 1))


def test_a_migration_is_compatible_with_code_from_some_version_up_to_its_own() -> None:
    oldest = [step.compatible_from for step, _ in steps()]
    assert all(1 <= step.compatible_from <= step.version for step, _ in steps())
    assert oldest == sorted(oldest)
