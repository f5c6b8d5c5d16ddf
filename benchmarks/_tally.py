"""How many handlers have run, told by the workers' processes while they run: a line each 5 ms on a named pipe.

A worker's own process counts, in memory: to ask the database instead would load what is measured. Imported by the
workers too, so it needs nothing but the standard library.
"""

import itertools
import os
import select
import threading
import time
from pathlib import Path

VARIABLE = "BENCHMARK_TALLY"
EVERY_SECONDS = 0.005


class Counter:
    """Counts handlers that have run, in any thread, and reports the number to the pipe named in the environment."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._pipe = os.open(os.environ[VARIABLE], os.O_WRONLY)
        self._tell(0)  # here I am
        threading.Thread(target=self._report, daemon=True).start()

    def add(self) -> None:
        next(self._numbers)  # atomic, where += is not

    def _report(self) -> None:
        told = 0
        while True:
            time.sleep(EVERY_SECONDS)
            ran = int(repr(self._numbers)[len("count(") : -1])  # a look that does not count
            if ran != told:
                self._tell(ran)
                told = ran

    def _tell(self, ran: int) -> None:
        os.write(self._pipe, f"{os.getpid()} {ran}\n".encode())


class Tally:
    """The reading end: the sum over all workers."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "tally"
        os.mkfifo(self.path)
        self._pipe = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)
        self._rest = b""
        self._ran: dict[bytes, int] = {}

    def close(self) -> None:
        os.close(self._pipe)
        self.path.unlink()

    @property
    def workers(self) -> int:
        """How many processes have told that they are there."""
        return len(self._ran)

    def wait(self, seconds: float) -> int:
        """Waits for news, at most so long; how many have run so far."""
        if select.select([self._pipe], [], [], seconds)[0]:
            *lines, self._rest = (self._rest + os.read(self._pipe, 65536)).split(b"\n")
            for line in lines:
                worker, ran = line.split()
                self._ran[worker] = int(ran)
        return sum(self._ran.values())
