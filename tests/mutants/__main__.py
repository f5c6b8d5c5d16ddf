"""Applies one fault after the other to a copy of the project and runs the tests that should notice: exit 1 if one survives.

``make mutants``; ARGS='claim fence' for those whose names hold one of the words.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.mutants.faults import FAULTS, Fault

ROOT = Path(__file__).parents[2]
PARTS = ["shared", "functions", "dilamme_local", "dilamme_cli", "events", "docs", "benchmarks", "tools", "tests"]
PYTEST = ["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=no", "--no-header", "--timeout=90"]
FAILED, PASSED = 1, 0


def stale(root: Path, faults: Sequence[Fault]) -> Iterator[str]:
    """What each fault no longer finds: its text, just once, and its tests."""
    for fault in faults:
        for file, old, new in fault.edits:
            if (found := (root / file).read_text(encoding="utf-8").count(old)) != 1 or old == new:
                yield f"'{fault.name}': its text stands {found} times in {file}"
        for test in fault.tests:
            if not (root / "tests" / f"{test}.py").is_file():
                yield f"'{fault.name}': there is no tests/{test}.py"


def copy_project(to: Path) -> None:
    """The tree without what Git ignores; never the checkout itself is changed."""
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", ".*")
    for part in PARTS:
        shutil.copytree(ROOT / part, to / part, ignore=ignored)
    for file in ROOT.iterdir():
        if file.is_file() and not file.name.startswith("."):
            shutil.copy2(file, to)


def run(root: Path, tests: Sequence[str]) -> tuple[int, str]:
    """pytest's exit code, and the first test that failed."""
    command = [sys.executable, *PYTEST, *(f"tests/{test}.py" for test in tests)]
    # Without bytecode: two versions of a file within one second would share it.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    ended = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    lines = ended.stdout.splitlines()
    failed = next(
        (line for line in lines if line.startswith(("FAILED", "ERROR"))), lines[-1] if lines else ended.stderr[-200:]
    )
    return ended.returncode, failed.partition(" ")[2].partition(" - ")[0]


def kill(root: Path, fault: Fault) -> tuple[bool, str]:
    """Did a test notice, and which? Afterwards the copy is as it was. A fault that no test can even start with is none."""
    before = {file: (root / file).read_text(encoding="utf-8") for file, _, _ in fault.edits}
    try:
        for file, old, new in fault.edits:
            path = root / file
            path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
        code, failed = run(root, fault.tests)
    finally:
        for file, text in before.items():
            (root / file).write_text(text, encoding="utf-8")
    if code not in (FAILED, PASSED):
        sys.exit(f"'{fault.name}' is no fault but nonsense: {failed}")
    return code == FAILED, failed


def check_unharmed(root: Path, faults: Sequence[Fault]) -> None:
    """Red means something only where green is the rule."""
    tests = sorted({test for fault in faults for test in fault.tests})
    say(f"without a fault: {len(tests)} files of tests …")
    code, failed = run(root, tests)
    if code != PASSED:
        sys.exit(f"red already, so that nothing could be learned: {failed}")
    say("green\n")


def say(line: str) -> None:
    """To the terminal, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(words: Sequence[str]) -> None:
    """The table: fault, invariant, first test that failed."""
    faults = [fault for fault in FAULTS if not words or any(word in fault.name for word in words)]
    if problems := list(stale(ROOT, faults)):
        sys.exit("\n".join(["stale, bring tests/mutants/faults.py up to date:", *problems]))
    survived = []
    with tempfile.TemporaryDirectory(prefix="dilamme-mutants-") as folder:
        root = Path(folder)
        copy_project(root)
        check_unharmed(root, faults)
        for fault in faults:
            began = time.monotonic()
            killed, failed = kill(root, fault)
            verdict = failed.removeprefix("tests/") if killed else "SURVIVED"
            seconds = time.monotonic() - began
            say(f"{fault.invariant or '–':>2}  {fault.name:<64} {seconds:3.0f} s  {verdict}")
            survived += [] if killed else [fault.name]
    say(f"\n{len(faults) - len(survived)} of {len(faults)} noticed")
    sys.exit(1 if survived else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
