"""A mixed load over HTTP: what is posted, cancelled and replayed is drawn from the seed, what was answered is written down."""

import http.client
import json
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from tests.soak.journals import Journal
from tests.soak.threads import LoudThread

CLIENTS = 3
# Of a request whose answer was lost, under the same key; some clients give up at once and never know.
TRIES = (1, 5)
ANSWER_SECONDS_MAX = 30
RECENT_JOBS = 200
SHORT_SERIES_MAX = 12
CHAIN_JOBS = 800
CHAINS = 3  # one behind the other
# What a client does next, and how likely it is.
SHAPES = {
    "batch": 36,
    "single": 14,
    "diamond": 10,
    "layers": 5,
    "child": 10,
    "scheduled": 8,
    "series": 3,
    "dangerous": 2,
    "cancel": 5,
    "replay": 4,
    "end": 1,
    "cascade": 0.3,
}
Job = dict[str, Any]


def briefly(rng: random.Random) -> dict[str, float]:
    """Mostly a moment; sometimes so long that whoever takes a job from a worker that lives would meet it."""
    return {"seconds": round(rng.uniform(0.02, 0.4) if rng.random() < 0.85 else rng.uniform(2, 5), 3)}


# What most jobs are: type, weight, payload.
PLAIN: list[tuple[str, int, Callable[[random.Random], Any]]] = [
    ("soak.note", 70, lambda rng: {"number": rng.random()}),
    ("soak.slow", 5, briefly),
    ("soak.async", 3, briefly),
    ("soak.flaky", 7, lambda rng: {}),
    ("soak.error", 2, lambda rng: {}),
    ("soak.fail", 2, lambda rng: {}),
    ("soak.retry", 3, lambda rng: {}),
    ("soak.snooze", 3, lambda rng: {}),
    ("soak.unknown", 1, lambda rng: {}),
    ("soak.large", 1, lambda rng: {"weight": rng.choice(("", "x" * 200_000))}),
]
DANGEROUS = ("soak.exit", "soak.kill", "soak.overrun", "soak.fork")
_TYPES = {name: payload for name, _, payload in PLAIN}
_WEIGHTS = [weight for _, weight, _ in PLAIN]


def plain(rng: random.Random) -> Job:
    (name,) = rng.choices(list(_TYPES), _WEIGHTS)
    return {"type": name, "payload": _TYPES[name](rng), "priority": rng.randint(1, 3)}


def dangerous(rng: random.Random) -> Job:
    """One that takes its process along, sometimes only at first, sometimes until it is buried; or doubles it."""
    name = rng.choice(DANGEROUS)
    payload = {"times": rng.choice((1, 1, 2, 9)), "child": rng.choice(("returns", "raises", "exits"))}
    return {"type": name, "payload": payload, "priority": rng.randint(1, 3)}


def soon(rng: random.Random) -> str:
    return (datetime.now(UTC) + timedelta(seconds=rng.uniform(0.2, 5))).isoformat()


def policy(rng: random.Random) -> str:
    return rng.choice(("wait", "cancel"))


def diamond(rng: random.Random) -> list[Job]:
    """One, two that wait for it, one that waits for both; the middle may fail."""
    middle = [
        {**plain(rng), "ref": name, "dependencyRefs": ["top"], "onDependencyFailure": policy(rng)} for name in "lr"
    ]
    bottom = {"type": "soak.sum", "dependencyRefs": ["l", "r"], "onDependencyFailure": policy(rng)}
    return [{**plain(rng), "ref": "top"}, *middle, bottom]


def layers(rng: random.Random) -> list[Job]:
    """A DAG of three layers of four; each job waits for one to four of the layer above."""
    jobs: list[Job] = []
    above: list[str] = []
    for layer in range(3):
        refs = [f"{layer}.{place}" for place in range(4)]
        for ref in refs:
            waits = rng.sample(above, rng.randint(1, len(above))) if above else []
            job = {"type": "soak.sum"} if waits else {"type": "soak.flaky"}
            jobs.append({**job, "ref": ref, "dependencyRefs": waits, "onDependencyFailure": policy(rng)})
        above = refs
    return jobs


def chain(rng: random.Random) -> list[Job]:
    """Hundreds, each of which is cancelled with the one before; the first may die or be cancelled."""
    head = {"type": rng.choice(("soak.fail", "soak.fail", "soak.note")), "ref": "0", "scheduledAt": soon(rng)}
    links = [
        {"type": "soak.sum", "ref": f"{n}", "dependencyRefs": [f"{n - 1}"], "onDependencyFailure": "cancel"}
        for n in range(1, CHAIN_JOBS)
    ]
    return [head, *links]


def recurring(rng: random.Random) -> Job:
    interval = rng.choice((1, 1, 2, 3, 3600))
    job = {"type": rng.choice(("soak.note", "soak.flaky", "soak.fail", "soak.slow")), "intervalSeconds": interval}
    return {**job, "payload": {"seconds": 0.3}, "priority": rng.randint(1, 3)}


@dataclass
class Shared:
    """What the clients know of each other's doings."""

    recent: deque[str] = field(default_factory=lambda: deque(maxlen=RECENT_JOBS))
    short_series: deque[str] = field(default_factory=deque)
    jobs_accepted: int = 0


class Client:
    """One of the load's threads: orders, posts and notes until it is stopped."""

    def __init__(self, url: str, rng: random.Random, jobs_per_second: float, journal: Journal, shared: Shared) -> None:
        self._address = urlsplit(url).netloc
        self._rng = rng
        self._rate = jobs_per_second
        self._journal = journal
        self._shared = shared
        self._connection: http.client.HTTPConnection | None = None

    def work(self, stopping: threading.Event, brake: threading.Event) -> None:
        due = time.monotonic()
        while not stopping.wait(max(0, due - time.monotonic())):
            if brake.is_set():
                due = time.monotonic() + 0.2
                continue
            jobs = self._act()
            # What was late is not made good: the load is a rate, not a debt.
            due = max(due, time.monotonic() - 1) + max(1, jobs) / self._rate

    def _act(self) -> int:
        """Does one thing; how many jobs it asked for."""
        rng = self._rng
        (shape,) = rng.choices(list(SHAPES), list(SHAPES.values()))
        match shape:
            case "batch":
                jobs = [plain(rng) for _ in range(rng.randint(10, 60))]
            case "diamond":
                jobs = diamond(rng)
            case "layers":
                jobs = layers(rng)
            case "cascade":
                return self._cascade()
            case "cancel" | "replay" | "end":
                return self._revise(shape)
            case _:
                self._submit([self._one(shape)], single=True)
                return 1
        self._submit(jobs)
        return len(jobs)

    def _one(self, shape: str) -> Job:
        rng, recent = self._rng, list(self._shared.recent)
        match shape:
            case "child" if recent:
                parents = rng.sample(recent, min(len(recent), rng.randint(1, 3)))
                return {**plain(rng), "dependencyIds": parents, "onDependencyFailure": policy(rng)}
            case "scheduled":
                return {**plain(rng), "scheduledAt": soon(rng)}
            case "series":
                return recurring(rng)
            case "dangerous":
                return dangerous(rng)
            case _:
                return plain(rng)

    # ===== submitting

    def _cascade(self) -> int:
        """A chain over several batches; sometimes its head is cancelled at once."""
        head, last, posted = None, None, 0
        for _ in range(CHAINS):
            jobs = chain(self._rng)
            if last is not None:
                jobs[0] |= {"type": "soak.sum", "dependencyIds": [last], "onDependencyFailure": "cancel"}
            ids = self._submit(jobs)
            posted += len(jobs)
            if not ids:
                break
            head, last = head or ids[0], ids[-1]
        if head is not None and self._rng.random() < 0.5:
            self._change("cancel", f"/jobs/{head}/cancel")
        return posted

    def _submit(self, jobs: list[Job], *, single: bool = False) -> list[str]:
        """Posts them under a key of their own; their ids, as far as an answer told them."""
        key = uuid4().hex
        path, content = ("/jobs", jobs[0]) if single else ("/jobs/batch", {"jobs": jobs})
        tries = self._rng.choice(TRIES)
        answers = [self._ask("POST", path, content, key)]
        while (answers[-1][0] == 0 or answers[-1][0] >= 500) and len(answers) < tries:
            time.sleep(0.1 * 2 ** len(answers))
            answers.append(self._ask("POST", path, content, key))
        if self._rng.random() < 0.05:
            answers.append(self._ask("POST", path, content, key))
        return self._note(key, jobs, answers, single=single)

    def _note(self, key: str, jobs: list[Job], answers: list[tuple[int, Any]], *, single: bool) -> list[str]:
        stored = [[body] if single else body["jobs"] for status, body in answers if status in (200, 201)]
        ids = [[job["id"] for job in given] for given in stored]
        parents = [parent for job in jobs for parent in job.get("dependencyIds", ())]
        self._journal.write(
            what="submit", key=key, jobs=len(jobs), answers=[status for status, _ in answers], ids=ids, parents=parents
        )
        if not ids:
            return []
        self._shared.jobs_accepted += len(jobs)
        self._shared.recent.extend(ids[0][-3:])
        if single and stored[0][0].get("intervalSeconds") in (1, 2, 3):
            self._shared.short_series.append(stored[0][0]["seriesId"])
        return ids[0]

    # ===== cancelling and replaying

    def _revise(self, shape: str) -> int:
        recent = list(self._shared.recent)
        if shape == "cancel" and recent:
            self._change("cancel", f"/jobs/{self._rng.choice(recent)}/cancel")
        elif shape == "replay":
            self._change("replay", "/dead-letters/replay", {"limit": self._rng.randint(1, 5)})
        elif shape == "end" or len(self._shared.short_series) > SHORT_SERIES_MAX:
            self.end_oldest_series()
        return 1

    def end_oldest_series(self) -> None:
        """Cancels one of the series with a short interval, and keeps it in mind unless that was confirmed."""
        try:
            series_id = self._shared.short_series.popleft()
        except IndexError:
            return
        if self._change("end", f"/series/{series_id}/cancel") != 200:
            self._shared.short_series.append(series_id)

    def _change(self, what: str, path: str, content: Any = None) -> int:
        status, _ = self._ask("POST", path, content)
        self._journal.write(what=what, id=path.split("/")[2], status=status)
        return status

    # ===== HTTP

    def _ask(self, method: str, path: str, content: Any, key: str | None = None) -> tuple[int, Any]:
        """The status and the body; (0, None) when there was no answer."""
        headers = {"content-type": "application/json", **({"idempotency-key": key} if key else {})}
        try:
            if self._connection is None:
                self._connection = http.client.HTTPConnection(self._address, timeout=ANSWER_SECONDS_MAX)
            self._connection.request(method, path, None if content is None else json.dumps(content), headers)
            response = self._connection.getresponse()
            return response.status, json.loads(response.read() or b"null")
        except (OSError, http.client.HTTPException, ValueError):
            if self._connection is not None:
                self._connection.close()
            self._connection = None
            return 0, None


class Load:
    """The clients and their journal, ``requests.jsonl``; ``brake`` holds new orders back while the backlog is deep."""

    def __init__(self, url: str, seed: str, jobs_per_second: float, folder: Path) -> None:
        self.brake = threading.Event()
        self._stopping = threading.Event()
        self._journal = Journal(folder / "requests.jsonl")
        self.shared = Shared()
        rate = jobs_per_second / CLIENTS
        self._clients = [
            Client(url, random.Random(f"{seed}/load/{place}"), rate, self._journal, self.shared)
            for place in range(CLIENTS)
        ]
        self._threads = [LoudThread(partial(client.work, self._stopping, self.brake)) for client in self._clients]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Lets each client finish what it is at, then ends the series that would never come to rest."""
        self._stopping.set()
        for thread in self._threads:
            thread.finish()
        deadline = time.monotonic() + 30
        while self.shared.short_series and time.monotonic() < deadline:
            self._clients[0].end_oldest_series()
        self._journal.close()
