"""What 0.1.0 does before, during and after an upgrade: `test_upgrade` runs this file as a process, with 0.1.0's own package.

It may import nothing but that package, `v0_1_0.zip` beside it: the tests' own helpers move on with the code of today.
Arguments: a verb, and the database's URL as its owner.

    fill       makes the database and puts a job into every state; writes what the test must know, as JSON
    work       a leader that ticks and a worker that runs what it is invited for, until standard input is closed;
               a line for each job that ran
    settle ID… completes the running job as its worker would, which has lived through the upgrade
    submit     stores a job, as 0.1.0's API does; writes its id
"""

import json
import select
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from dilamme.domain.durations import Durations
from dilamme.domain.errors import DatabaseUnavailable
from dilamme.domain.job import Claim, Reason
from dilamme.domain.outcome import Bury, Complete, RetryLater
from dilamme.domain.worker_event import WorkerEvent
from dilamme.handlers.registry import Registry
from dilamme.scheduler import outbox
from dilamme.scheduler.tick import Leader, tick
from dilamme.settings import read
from dilamme.store import lanes, lease, slots
from dilamme.store.connection import Connection, connect
from dilamme.store.job_types import upsert_types
from dilamme.usecases import wake
from dilamme.usecases.cancel import cancel_job
from dilamme.usecases.migrate import check, migrate
from dilamme.usecases.settle import settle
from dilamme.usecases.submit import submit
from dilamme.wire.requests import BatchSubmission, Submission, parse
from dilamme.worker.drain import drain
from dilamme.worker.worker import Worker

ECHO = "test.echo"
READY = 150
FAR = "2999-01-01T00:00:00Z"
LEASE_SECONDS = 3600.0  # longer than any run of the tests
invited: list[WorkerEvent] = []
Enter = Callable[[str], Connection]


def fill(enter: Enter) -> dict[str, Any]:
    """Jobs that rest, each in a state of its own, one that runs, and many that are ready."""
    with closing(enter("owner")) as owner:
        migrate(owner, read({}))
    with closing(enter("worker")) as worker:
        upsert_types(worker, [])
    with closing(enter("api")) as api, closing(enter("worker")) as worker:
        done, dead, later = put_many(api, [{}, {}, {}])
        mine = {one.id: one for one in claim(worker)}
        settle(worker, [(mine[done], Complete('{"ok": true}'))])
        settle(worker, [(mine[dead], Bury(Reason.FAIL, "as asked for"))])
        settle(worker, [(mine[later], RetryLater(Reason.ERROR, "as asked for", 3600))])
        cancel_job(api, put(api))
        put(api, intervalSeconds=3600)
        settle(worker, [(one, Complete(None)) for one in claim(worker)])  # its next occurrence is in an hour
        put(api, "k", scheduledAt=FAR)
        running = put(api)
        (claimed,) = claim(worker)
        assert claimed.id == running
        child = put(api, dependencyIds=[str(running)])
        ready = put_many(api, [{"priority": 1 + number % 3} for number in range(READY)])
    return {
        "ready": [str(job_id) for job_id in ready],
        "child": str(child),
        "claimed": [str(claimed.id), str(claimed.attempt), str(claimed.token)],
    }


def put(api: Connection, key: str | None = None, **fields: Any) -> UUID:
    return submit(api, [parse(Submission, {"type": ECHO, **fields})], key, single=True).ids[0]


def put_many(api: Connection, jobs: list[dict[str, Any]]) -> list[UUID]:
    return submit(api, [parse(BatchSubmission, {"type": ECHO, **fields}) for fields in jobs]).ids


def claim(worker: Connection) -> list[Claim]:
    terms = lanes.Terms(
        worker=uuid4(), limit=10, reach=42, idle=True, lease_seconds=LEASE_SECONDS, ageing_seconds=30.0, max_attempts=3
    )
    return lanes.claim(worker, terms, uuid4())


def work(enter: Enter, stopped: Callable[[], bool]) -> None:
    """One invocation after the other, each of which looks at the schema, as one in a new process does."""
    registry = Registry()
    registry.job(ECHO)(echo)
    # One worker, so that jobs start in one order; without ageing, so that it does not depend on how long this takes.
    settings = read({"DILAMME_WORKER_SLOTS": "1", "DILAMME_AGEING_SECONDS": "0"})
    executor = ThreadPoolExecutor(max_workers=4)
    owner = uuid4()
    stop = False
    while not stop:
        stop = stopped()  # and once more, so that it has seen whatever there was before
        with suppress(DatabaseUnavailable), closing(enter("scheduler")) as scheduler:  # the next trigger comes through
            check(scheduler)
            slots.provide_slots(scheduler, settings.worker_slots)
            leader = Leader(owner, lease.take_lead(scheduler, owner, settings.leader_lease_seconds))
            tick(scheduler, settings, leader, executor)
        while invited:
            with suppress(DatabaseUnavailable), closing(enter("worker")) as connection:
                check(connection)
                upsert_types(connection, list(registry.values()))
                drain(connection, worker(enter, registry, settings), invited.pop())
        time.sleep(0.05)


def worker(enter: Enter, registry: Registry, settings: Any) -> Worker:
    end = time.monotonic() + 300
    return Worker(
        settings=settings,
        registry=registry,
        durations=Durations(),
        remaining_seconds=lambda: end - time.monotonic(),
        reconnect=lambda: enter("worker"),
        connect=lambda: enter("worker"),
        observe=lambda settled: None,
        end_process=sys.exit,
    )


def echo(payload: Any, context: Any) -> Any:
    """Says which job it ran, to whoever started this process."""
    say(str(context.job_id))
    time.sleep(0.05)
    return payload


def complete(enter: Enter, job_id: str, attempt: str, token: str) -> None:
    now = datetime.now(UTC)
    empty = dict.fromkeys(Claim._fields)
    held = Claim(**{**empty, "id": UUID(job_id), "attempt": int(attempt), "token": UUID(token), "type": ECHO, "priority": 2,
                    "max_attempts": 3, "ready_at": now, "started_at": now})  # fmt: skip
    with closing(enter("worker")) as connection:
        assert settle(connection, [(held, Complete('{"late": true}'))]).done == {held.id}


def take(function: str, event: Any) -> None:
    """Takes the place of AWS."""
    if "slot" in event:
        invited.append(WorkerEvent.from_json(event))


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(verb: str, url: str, *arguments: str) -> None:
    def enter(function: str) -> Connection:
        scheme, rest = url.split("://")
        return connect(url if function == "owner" else f"{scheme}://dilamme_{function}@{rest.rpartition('@')[2]}")

    vars(wake)["invoke"] = take
    vars(outbox)["send"] = lambda queue_url, messages: []  # accepts none: they stay where the test can see them
    match verb:
        case "fill":
            say(json.dumps(fill(enter)))
        case "work":
            say("at work")
            work(enter, lambda: bool(select.select([sys.stdin], [], [], 0)[0]))
        case "settle":
            complete(enter, *arguments)
        case "submit":
            with closing(enter("api")) as api:
                say(str(put(api)))


if __name__ == "__main__":
    main(*sys.argv[1:])
