"""Watches the workers' processes and writes down when each was last seen alive and first seen ended."""

import os
import threading
import time
from pathlib import Path

from tests.soak.journals import Journal
from tests.soak.threads import LoudThread
from tests.support.processes import alive

LOOK_SECONDS = 0.02


class Witness:
    """Knows each process by the name of its journal in ``runs/``, which begins with its pid.

    Lines of ``exits.jsonl``: {process, aliveAt, deadAt} in monotonic seconds; one that still lives at the end has none.
    """

    def __init__(self, folder: Path) -> None:
        self._runs = folder / "runs"
        self._journal = Journal(folder / "exits.jsonl")
        self._alive_at: dict[str, float] = {}
        self._ended: set[str] = set()
        self._stopping = threading.Event()
        self._thread = LoudThread(self._watch)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.finish()
        self._look()
        self._journal.close()

    def _watch(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        for entry in os.scandir(self._runs):
            process = entry.name.removesuffix(".jsonl")
            if process in self._ended:
                continue
            asked_at = time.monotonic()
            if alive(int(process.partition("-")[0])):
                self._alive_at[process] = asked_at
            else:
                self._ended.add(process)
                # One that came and went between two looks is known by its journal only: it was alive when that began.
                seen_at = self._alive_at.get(process, 0.0)
                self._journal.write(process=process, aliveAt=seen_at, deadAt=time.monotonic())
