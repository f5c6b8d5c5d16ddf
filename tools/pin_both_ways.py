"""Makes a lock file of uv's one that pip takes: `python -m tools.pin_both_ways FILE`.

pip, asked for hashes, wants a package that is needed both with extras and without them pinned both ways; uv writes one.
"""

import re
import sys
from pathlib import Path

_WITH_EXTRAS = re.compile(r"([A-Za-z0-9._-]+)\[[^\]]+\](==.*)", re.DOTALL)


def pinned_both_ways(lock: str) -> str:
    """The lock with each entry that has extras preceded by the same entry without them."""
    entries = re.split(r"\n(?=[A-Za-z0-9])", lock.rstrip("\n"))
    written = [line for entry in entries for line in (_WITH_EXTRAS.sub(r"\1\2", entry), entry)]
    return "\n".join(dict.fromkeys(written)) + "\n"


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(pinned_both_ways(file.read_text(encoding="utf-8")), encoding="utf-8")
