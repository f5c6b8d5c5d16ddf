"""The ledger: what each soak came to, a line a run, so that evidence adds up.

``make soak`` adds a line to `ledger.jsonl`; ``make docs`` writes their sum into ARCHITECTURE.md.
"""

import json
import subprocess
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.soak import journals
from tests.soak.soak import Report
from tests.support.checkout import CHECKOUT

LEDGER = Path(__file__).with_name("ledger.jsonl")
DOCUMENT = CHECKOUT / "ARCHITECTURE.md"
BEGIN, END = "<!-- ledger -->", "<!-- /ledger -->"


def note(report: Report, seconds: float) -> None:
    """Adds the run, violations or not."""
    line = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": report.seed,
        "commit": _commit(),
        "seconds": seconds,
        "jobs": report.jobs,
        "faults": report.faults,
        "violations": len(report.violations),
    }
    with LEDGER.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _commit() -> str:
    """With ``+`` where the code was changed since: such a run speaks for no commit."""
    described = subprocess.run(
        ["git", "describe", "--always", "--exclude=*", "--dirty=+"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    return described.stdout.strip() or "unknown"


def total(lines: Iterable[Mapping[str, Any]]) -> str:
    """The sum in a sentence, as ARCHITECTURE.md has it."""
    lines = list(lines)
    runs, jobs, faults, violations, seconds = (
        len(lines),
        *(sum(line[name] for line in lines) for name in ("jobs", "faults", "violations", "seconds")),
    )
    return f"{runs} runs, {seconds / 3600:.1f} hours, {jobs:,} jobs, {faults:,} faults, {violations or 'no'} violations"


def written(text: str, lines: Iterable[Mapping[str, Any]]) -> str:
    """The document's text with the sum of now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{total(lines)}{END}{after}"


def main() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(written(text, journals.read(LEDGER)), encoding="utf-8")


if __name__ == "__main__":
    main()
