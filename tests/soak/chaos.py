"""What goes wrong during a soak, drawn from the seed: kills, lost and doubled events, refusals, a database that goes away.

Only processes that the soak's own stack has started are killed, by their ids.
"""

import logging
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psycopg

from dilamme_local.errors import StackError
from dilamme_local.faults import Fault, Kind
from dilamme_local.stack import Stack
from tests.soak.journals import Journal
from tests.soak.threads import LoudThread

logger = logging.getLogger("soak")

GAP_SECONDS_MAX = 2.5  # between two misfortunes, on average
AWAY_SECONDS_MAX = 3
CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename ~ '^dilamme_' AND random() < %s"
Strike = Callable[["Chaos"], None]


class Chaos:
    """Runs until stopped; each kind of misfortune comes once before any comes again, and then as often as it is listed.

    ``kills.jsonl`` holds {process id, function, at}, ``struck`` how often each kind came.
    """

    def __init__(self, stack: Stack, seed: str, folder: Path, seconds: float) -> None:
        self.stack = stack
        # Each kind comes in a short soak too.
        self._gap_seconds = min(GAP_SECONDS_MAX, 0.8 * seconds / len(MISFORTUNES))
        self.rng = random.Random(f"{seed}/chaos")
        self.struck: Counter[str] = Counter()
        self.number = 0
        self.kills = Journal(folder / "kills.jsonl")
        self._stopping = threading.Event()
        self._thread = LoudThread(self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No more misfortune: what was armed and has not struck is taken back, the database is up."""
        self._stopping.set()
        self._thread.finish()
        self.stack.faults.clear()
        self.kills.close()

    def _run(self) -> None:
        bag = [(name, strike) for name, _, strike in MISFORTUNES]
        self.rng.shuffle(bag)
        while not self._stopping.wait(self.rng.expovariate(1 / self._gap_seconds)):
            if not bag:
                bag = [(name, strike) for name, times, strike in MISFORTUNES for _ in range(times)]
                self.rng.shuffle(bag)
            name, strike = bag.pop()
            logger.info("chaos: %s", name)
            self.struck[name] += 1
            self.number += 1
            strike(self)

    # ===== what the misfortunes are made of

    def kill(self, function: str, most: int) -> None:
        """SIGKILL to processes that are running an invocation of a function."""
        running = [one for one in self.stack.dispatcher.running() if one.invocation.function_name == function]
        for one in self.rng.sample(running, min(len(running), most)):
            try:
                os.kill(one.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue  # it was faster
            self.struck[f"{function} processes killed"] += 1
            self.kills.write(pid=one.pid, function=function, at=time.monotonic())

    def stall(self, function: str, seconds: float) -> None:
        """A process that stands still for a while, and then goes on as if nothing had been."""
        running = [one for one in self.stack.dispatcher.running() if one.invocation.function_name == function]
        if not running:
            return
        pid = self.rng.choice(running).pid
        try:
            os.kill(pid, signal.SIGSTOP)
            self._stopping.wait(seconds)
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            logger.info("chaos: the process to stall has ended")

    def arm(self, name: str, *kinds: Kind, most: int = 2, seconds: float = 3) -> None:
        kind, times = self.rng.choice(kinds), self.rng.randint(1, most)
        self.stack.faults.arm(Fault(name, kind, times, self.rng.uniform(0.2, seconds)))
        self.struck[f"{name} {kind}"] += times

    def cut_connections(self) -> None:
        """Ends some or all of the functions' connections, wherever they are in their work."""
        share = self.rng.choice((0.3, 1.0))
        with psycopg.connect(self.stack.database_url, autocommit=True) as connection:
            self.struck["connections cut"] += connection.execute(CUT, (share,)).rowcount

    def make_sessions_read_only(self) -> None:
        """As a failover leaves them: those that live can no longer write, those that are opened later can."""
        with psycopg.connect(self.stack.database_url, autocommit=True) as connection:
            for value in ("on", "off"):
                for role in ("api", "scheduler", "worker", "rescue"):
                    connection.execute(
                        f"ALTER ROLE dilamme_{role} SET default_transaction_read_only = {value}".encode()
                    )
                if value == "on":
                    self.struck["connections cut"] += connection.execute(CUT, (0.5,)).rowcount
                    self._stopping.wait(1.0)

    def crash_database(self) -> None:
        """Stops PostgreSQL in immediate mode, which is a crash, and starts it again after a while."""
        assert self.stack.postgres is not None
        self.stack.postgres.stop(immediate=True)
        time.sleep(self.rng.uniform(0, AWAY_SECONDS_MAX))
        try:
            self.stack.postgres.start()
        except StackError:
            logger.exception("once more")
            self.stack.postgres.start()


MISFORTUNES: list[tuple[str, int, Strike]] = [
    ("a worker is killed", 4, lambda chaos: chaos.kill("worker", 1)),
    ("all workers are killed", 1, lambda chaos: chaos.kill("worker", 99)),
    ("the scheduler is killed", 2, lambda chaos: chaos.kill("scheduler", 2)),
    ("an api process is killed", 1, lambda chaos: chaos.kill("api", 2)),
    ("a rescue is killed", 1, lambda chaos: chaos.kill("rescue", 1)),
    ("a worker stalls", 1, lambda chaos: chaos.stall("worker", 1.5)),
    ("the scheduler stalls", 1, lambda chaos: chaos.stall("scheduler", 3)),
    ("triggers go wrong", 2, lambda chaos: chaos.arm("clock", Kind.LOSE, Kind.DOUBLE, Kind.DELAY)),
    ("worker events go wrong", 2, lambda chaos: chaos.arm("worker", Kind.LOSE, Kind.DOUBLE, Kind.DOUBLE, Kind.DELAY)),
    (
        "calls of workers go wrong",
        2,
        lambda chaos: chaos.arm("worker", Kind.THROTTLE, Kind.THROTTLE, Kind.FAIL, Kind.HANG, Kind.MUTE, most=6),
    ),
    ("scheduler events go wrong", 1, lambda chaos: chaos.arm("scheduler", Kind.LOSE, Kind.DOUBLE, Kind.DELAY)),
    ("calls of schedulers go wrong", 1, lambda chaos: chaos.arm("scheduler", Kind.THROTTLE, Kind.FAIL, Kind.HANG)),
    ("reports go wrong", 2, lambda chaos: chaos.arm("rescue", Kind.LOSE, Kind.DOUBLE, Kind.DELAY)),
    ("connections are cut", 2, lambda chaos: chaos.cut_connections()),
    ("sessions become read-only", 1, lambda chaos: chaos.make_sessions_read_only()),
    ("the database crashes", 1, lambda chaos: chaos.crash_database()),
]
