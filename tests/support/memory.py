"""A folder in memory, as Linux has one."""

import os
import shutil
from pathlib import Path

FOLDER = Path("/dev/shm")
ROOM_BYTES = 3 * 2**30  # a server's WAL may grow to one gigabyte before a checkpoint, and a server runs per process


def has_room() -> bool:
    """May the tests live there? A container's own is small, and often runs no program."""
    if not FOLDER.is_dir() or os.statvfs(FOLDER).f_flag & os.ST_NOEXEC:
        return False
    return os.access(FOLDER, os.W_OK) and shutil.disk_usage(FOLDER).free > ROOM_BYTES
