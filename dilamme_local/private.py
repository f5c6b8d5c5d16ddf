"""Folders and files that nobody else on the machine may read: logs quote what handlers print, the data is the jobs'."""

import os
from pathlib import Path
from typing import IO

from dilamme_local.postgres_commands import passes_closed_folders


def make_folder(folder: Path, *, ours: bool = True) -> None:
    """Makes a folder for its owner alone. One that was there is closed only if it is ``ours``: DATA_DIR may be anything."""
    existed = folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    if ours or not existed:
        # A server that runs as `nobody`, and may not pass closed folders, must at least get through.
        folder.chmod(0o700 if passes_closed_folders() else 0o711)


def close_file(path: Path) -> None:
    path.chmod(0o600)


def append_to(path: Path) -> IO[bytes]:
    """The file, open for appending, for its owner alone."""
    return open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600))
