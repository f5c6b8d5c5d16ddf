"""``make audit``: every lock file against the published advisories, by pip-audit and npm audit.

It ends with 1 if a dependency has an advisory, and with 2 if one was not looked at: the database of advisories cannot be
reached, or does not know it (a mirror of packages knows none). A machine from which that is so may be told to pass all the
same: ``AUDIT_MAY_MISS="the reason"``, which is printed. An advisory is never passed over.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
EXCUSE = "AUDIT_MAY_MISS"
# The versions as they are locked, by their hashes: nothing is resolved or installed.
PIP_AUDIT = (sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes", "--progress-spinner", "off")
NPM_AUDIT = ("npm", "audit", "--package-lock-only", "--json")
UNREACHABLE = "not audited: the database of advisories cannot be reached from here"
# What pip-audit ends with when its service does not answer.
_NO_ANSWER = ("ConnectionError", "ConnectTimeout", "ReadTimeout", "MaxRetryError", "ServiceError", "Could not connect")


def locks() -> list[Path]:
    """Every lock file of the checkout."""
    return [
        *sorted(ROOT.glob("requirements*.lock")),
        ROOT / "layers" / "dependencies" / "requirements.txt",
        *sorted(ROOT.glob("benchmarks/*/package-lock.json")),
    ]


def verdict(code: int, output: str, errors: str) -> tuple[int, str]:
    """The exit code and what to say, for pip-audit's own code and its standard output and error."""
    try:
        dependencies = json.loads(output)["dependencies"]
    except (ValueError, KeyError):
        if any(sign in errors for sign in _NO_ANSWER):
            return 2, UNREACHABLE
        return code or 1, errors.strip()
    looked_at = [one for one in dependencies if "skip_reason" not in one]
    if not looked_at and dependencies:
        return 2, UNREACHABLE
    advisories = [_advisory(one, vulnerability) for one in looked_at for vulnerability in one["vulns"]]
    unknown = [f"not in the database: {one['name']}" for one in dependencies if "skip_reason" in one]
    told = [*advisories, *unknown, f"{len(looked_at)} dependencies audited, {len(advisories)} advisories"]
    return 1 if advisories else 2 if unknown else 0, "\n".join(told)


def verdict_of_npm(code: int, output: str, errors: str) -> tuple[int, str]:
    """The same for npm."""
    try:
        report = json.loads(output)
    except ValueError:
        return code or 1, errors.strip()
    if "vulnerabilities" not in report:  # its registry did not answer, or has no advisories
        return 2, UNREACHABLE
    found = [f"{name}: {one['severity']}, {one['range']}" for name, one in report["vulnerabilities"].items()]
    number = report["metadata"]["dependencies"]["total"]
    return int(bool(found)), "\n".join([*found, f"{number} dependencies audited, {len(found)} advisories"])


def summary(codes: list[int], excuse: str) -> tuple[int, str]:
    """The exit code for those of all lock files, and what to say of those that were not looked at."""
    if any(code not in (0, 2) for code in codes):
        return 1, ""
    if 2 not in codes:
        return 0, ""
    if excuse:
        return 0, f"passes although not everything was audited: {excuse}"
    return 2, f'not everything was audited: where that cannot be helped, say why in {EXCUSE}="…"'


def audit(lock: Path) -> tuple[int, str]:
    """Looks at one lock file."""
    if lock.suffix != ".json":
        done = _run(*PIP_AUDIT, "--format", "json", "-r", str(lock))
        return verdict(done.returncode, done.stdout, done.stderr)
    if shutil.which("npm") is None:
        return 2, "not audited: npm is not here"
    done = _run(*NPM_AUDIT, "--prefix", str(lock.parent))
    return verdict_of_npm(done.returncode, done.stdout, done.stderr)


def _run(*command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _advisory(dependency: dict[str, Any], vulnerability: dict[str, Any]) -> str:
    mended = ", ".join(vulnerability.get("fix_versions", ())) or "no version yet"
    return f"{dependency['name']} {dependency['version']}: {vulnerability['id']}, mended in {mended}"


def main() -> int:
    """Looks at all of them; the exit code."""
    codes = []
    for lock in locks():
        code, told = audit(lock)
        codes.append(code)
        print(f"{lock.relative_to(ROOT)}: {told}")
    code, told = summary(codes, os.environ.get(EXCUSE, ""))
    if told:
        print(told)
    return code


if __name__ == "__main__":
    sys.exit(main())
