"""Looking at processes from outside."""

import os
from pathlib import Path


def alive(pid: int) -> bool:
    """Does the process exist, and is it more than a line in the table of processes?"""
    try:
        os.kill(pid, 0)
        if not Path("/proc/self").exists():
            return True
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
    except (ProcessLookupError, FileNotFoundError):  # it may end between two looks
        return False
    # A zombie whose other threads are still ending has its pipes open, and cannot be waited for.
    return state not in ("Z", "X") or threads > 1
