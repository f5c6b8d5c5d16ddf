"""What `make audit` looks at, and what it concludes from what pip-audit and npm say."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import audit
from tools.audit import UNREACHABLE, locks, summary, verdict, verdict_of_npm

ROOT = Path(__file__).parents[2]
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
    assert verdict(0, said(), "") == (0, "0 dependencies audited, 0 advisories")


@pytest.mark.case("E10")
def test_a_dependency_that_the_database_does_not_know_is_named_and_was_not_audited() -> None:
    assert verdict(0, said(CLEAN, SKIPPED), "") == (2, "not in the database: b\n1 dependencies audited, 0 advisories")
    assert verdict(1, said(ILL, SKIPPED), "")[0] == 1


@pytest.mark.case("E10")
def test_a_database_that_knows_none_of_them_is_no_audit() -> None:
    """Else a mirror without advisories would pass for a clean bill of health."""
    assert verdict(0, said(SKIPPED, SKIPPED), "") == (2, UNREACHABLE)


@pytest.mark.case("E10")
def test_a_database_that_does_not_answer_is_no_audit() -> None:
    assert verdict(1, "", "requests.exceptions.ConnectionError: HTTPSConnectionPool") == (2, UNREACHABLE)


def test_any_other_failure_of_the_tool_is_one() -> None:
    assert verdict(2, "", "usage: pip-audit") == (2, "usage: pip-audit")
    assert verdict(0, "no JSON", "") == (1, "")
    assert verdict_of_npm(1, "no JSON", "npm error") == (1, "npm error")


def test_npms_words_are_understood() -> None:
    counted = {"metadata": {"dependencies": {"total": 90}}}
    ill = {"vulnerabilities": {"pg": {"severity": "high", "range": "<9"}}, **counted}
    assert verdict_of_npm(1, json.dumps(ill), "") == (1, "pg: high, <9\n90 dependencies audited, 1 advisories")
    assert verdict_of_npm(0, json.dumps({"vulnerabilities": {}, **counted}), "")[0] == 0
    assert verdict_of_npm(1, json.dumps({"message": "request to … failed", "error": {}}), "") == (2, UNREACHABLE)


@pytest.mark.case("E10")
def test_what_was_not_audited_fails_unless_a_reason_is_told_which_is_printed() -> None:
    assert summary([0, 0], "") == (0, "")
    assert summary([0, 2], "")[0] == 2
    code, told = summary([0, 2], "no way to the database")
    assert (code, "no way to the database" in told) == (0, True)
    assert summary([2, 1], "no way to the database")[0] == 1


@pytest.mark.case("E10")
def test_every_lock_file_is_looked_at() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    locked = [
        name
        for name in tracked
        if name.endswith((".lock", "package-lock.json", "layers/dependencies/requirements.txt"))
    ]
    assert not tracked or sorted(str(lock.relative_to(ROOT)) for lock in locks()) == sorted(locked)
    assert len(locks()) >= 6


@pytest.mark.case("E10")
@pytest.mark.parametrize(("reason", "code"), [("", 2), ("there is no way to it", 0)])
def test_an_audit_without_a_way_out_fails_unless_told_why(reason: str, code: int, tmp_path: Path) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text("idna==3.10 --hash=sha256:946d195a0d259cbba61165e88e65941f16e9b36ea6ddb97f00452bae8b1287d3\n")
    program = "import sys; from pathlib import Path; from tools import audit; audit.ROOT = Path(sys.argv[1]);"
    program += "audit.locks = lambda: [audit.ROOT / 'requirements.lock']; sys.exit(audit.main())"
    nowhere = {"HTTPS_PROXY": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9", audit.EXCUSE: reason}
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, **nowhere, "XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"requirements.lock: {UNREACHABLE}" in done.stdout, done.stderr
    assert done.returncode == code
    assert reason in done.stdout


@pytest.mark.case("E10")
def test_ci_says_why_it_may_miss_something() -> None:
    assert f'export {audit.EXCUSE}="' in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
