"""What `make audit` concludes from what pip-audit says."""

import json

from tools.audit import UNREACHABLE, verdict

CLEAN = {"name": "a", "version": "1", "vulns": []}
SKIPPED = {"name": "b", "skip_reason": "not found"}
ILL = {"name": "c", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"]}]}


def said(*dependencies: object) -> str:
    return json.dumps({"dependencies": dependencies, "fixes": []})


def test_an_advisory_fails_and_says_which_version_mends_it() -> None:
    code, told = verdict(1, said(CLEAN, ILL), "Found 1 known vulnerability in 1 package")
    assert code == 1
    assert "c 2: PYSEC-1, mended in 3" in told


def test_dependencies_without_an_advisory_pass_and_are_counted() -> None:
    assert verdict(0, said(CLEAN, CLEAN), "") == (0, "2 dependencies audited, 0 advisories")


def test_a_dependency_that_the_database_does_not_know_is_named() -> None:
    assert verdict(0, said(CLEAN, SKIPPED), "") == (0, "not in the database: b\n1 dependencies audited, 0 advisories")


def test_a_database_that_knows_none_of_them_is_no_audit() -> None:
    """Else a mirror without advisories would pass for a clean bill of health."""
    assert verdict(0, said(SKIPPED, SKIPPED), "") == (0, UNREACHABLE)


def test_a_database_that_does_not_answer_is_no_audit() -> None:
    assert verdict(1, "", "requests.exceptions.ConnectionError: HTTPSConnectionPool") == (0, UNREACHABLE)


def test_any_other_failure_of_the_tool_is_one() -> None:
    assert verdict(2, "", "usage: pip-audit") == (2, "usage: pip-audit")
    assert verdict(0, "no JSON", "") == (1, "")
