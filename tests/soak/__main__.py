"""`make soak SOAK_SECONDS=120 SOAK_SEED=`: a bounded soak of the local stack; exit status 1 if a promise was broken.

The seed repeats what is posted and what goes wrong, in the same order; the machine's own timing it cannot repeat.
"""

import argparse
import logging
import os
import secrets
import shutil
import sys
import tempfile
from pathlib import Path

from tests.soak import ledger
from tests.soak.soak import JOBS_PER_SECOND, soak


def main() -> int:
    arguments = _parse()
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO if arguments.verbose else logging.CRITICAL)
    folder = Path(tempfile.mkdtemp(prefix="dilamme-soak-"))
    sys.stdout.write(f"soak of {arguments.seconds:g} s, SOAK_SEED={arguments.seed}\n")
    sys.stdout.flush()
    try:
        report = soak(arguments.seconds, arguments.seed, folder, arguments.rate)
    except KeyboardInterrupt:
        shutil.rmtree(folder)
        return 130
    sys.stdout.write(f"{report}\n")
    ledger.note(report, arguments.seconds)
    if report.violations or arguments.keep:
        sys.stdout.write(f"logs and journals: {folder}\n")
    else:
        shutil.rmtree(folder)
    return 1 if report.violations else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("SOAK_SECONDS") or 120))
    parser.add_argument("--seed", default=os.environ.get("SOAK_SEED") or secrets.token_hex(4))
    parser.add_argument("--rate", type=float, default=JOBS_PER_SECOND, help="jobs asked for per second")
    parser.add_argument("--verbose", action="store_true", help="tells each misfortune as it comes")
    parser.add_argument("--keep", action="store_true", help="leaves logs and journals behind in any case")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
