"""``make audit``: the locked dependencies against the published advisories, by pip-audit.

It ends with 1 if one of them has an advisory. If the database of advisories cannot be reached, or knows none of them (a
mirror of packages without advisories), nothing was learned: it says so and ends with 0.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

LOCK = Path(__file__).parents[1] / "requirements.lock"
# The versions as they are locked, by their hashes: nothing is resolved or installed.
COMMAND = [sys.executable, "-m", "pip_audit", "-r", str(LOCK), "--disable-pip", "--require-hashes", "--format", "json"]
UNREACHABLE = "not audited: the database of advisories cannot be reached from here"
# What pip-audit ends with when its service does not answer.
_NO_ANSWER = ("ConnectionError", "ConnectTimeout", "ReadTimeout", "MaxRetryError", "ServiceError", "Could not connect")


def verdict(code: int, output: str, errors: str) -> tuple[int, str]:
    """The exit code and what to say, for pip-audit's own code and its standard output and error."""
    try:
        dependencies = json.loads(output)["dependencies"]
    except (ValueError, KeyError):
        if any(sign in errors for sign in _NO_ANSWER):
            return 0, UNREACHABLE
        return code or 1, errors.strip()
    looked_at = [one for one in dependencies if "skip_reason" not in one]
    if not looked_at:
        return 0, UNREACHABLE
    advisories = [_advisory(one, vulnerability) for one in looked_at for vulnerability in one["vulns"]]
    unknown = [f"not in the database: {one['name']}" for one in dependencies if "skip_reason" in one]
    told = [*advisories, *unknown, f"{len(looked_at)} dependencies audited, {len(advisories)} advisories"]
    return int(bool(advisories)), "\n".join(told)


def _advisory(dependency: dict[str, Any], vulnerability: dict[str, Any]) -> str:
    mended = ", ".join(vulnerability.get("fix_versions", ())) or "no version yet"
    return f"{dependency['name']} {dependency['version']}: {vulnerability['id']}, mended in {mended}"


def main() -> int:
    """Runs pip-audit; the exit code."""
    done = subprocess.run([*COMMAND, "--progress-spinner", "off"], capture_output=True, text=True, check=False)
    code, told = verdict(done.returncode, done.stdout, done.stderr)
    sys.stdout.write(told + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
