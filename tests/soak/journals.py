"""Journals of the soak: files of one JSON object a line, written by many and read at the end."""

import json
import threading
from pathlib import Path
from typing import Any


class Journal:
    """Safe for use from many threads; each line is on its way to the disk when `write` returns."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)
        self._lock = threading.Lock()

    def write(self, **line: Any) -> None:
        with self._lock:
            self._file.write(json.dumps(line).encode() + b"\n")

    def close(self) -> None:
        self._file.close()


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of a journal, which may not exist; a last line that a kill has torn apart is left out."""
    if not path.exists():
        return []
    whole, _, _ = path.read_bytes().rpartition(b"\n")
    return [json.loads(line) for line in whole.splitlines()]
