"""Jobs posted, claimed, ended and looked at: the steps of which the tests are made."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

from psycopg.rows import dict_row

from dilamme.domain.job import Claim, Reason
from dilamme.domain.outcome import Bury, Complete, Outcome, RetryLater, Return
from dilamme.store import lanes
from dilamme.store.connection import Connection
from dilamme.usecases.settle import End, Settlement, settle
from dilamme.usecases.submit import submit
from dilamme.wire.requests import BatchSubmission, Submission, parse

ANY_WORKER = UUID(int=1)
ECHO = "test.echo"


def put(connection: Connection, key: str | None = None, **fields: Any) -> UUID:
    """Posts a job; its id."""
    return submit(connection, [parse(Submission, {"type": ECHO, **fields})], key, single=True).ids[0]


def put_many(connection: Connection, jobs: Iterable[Mapping[str, Any]]) -> list[UUID]:
    """Posts a batch; its ids."""
    return submit(connection, [parse(BatchSubmission, {"type": ECHO, **fields}) for fields in jobs]).ids


def terms(limit: int = 10, **changes: Any) -> lanes.Terms:
    """A worker's terms: ten jobs, ageing every 30 s, nothing else in hand."""
    values = {
        "worker": ANY_WORKER,
        "limit": limit,
        "reach": limit + 32,
        "idle": True,
        "lease_seconds": 310.0,
        "ageing_seconds": 30.0,
        "max_attempts": 3,
    }
    return lanes.Terms(**{**values, **changes})


def claim(connection: Connection, limit: int = 10, **changes: Any) -> list[Claim]:
    """Claims as a worker does."""
    return lanes.claim(connection, terms(limit, **changes), uuid4())


def claim_one(connection: Connection, **changes: Any) -> Claim:
    """The most urgent job, which must exist."""
    (one,) = claim(connection, limit=1, **changes)
    return one


def end(connection: Connection, claims: Iterable[Claim], outcome: Outcome) -> Settlement:
    """Ends claims, all in the same way."""
    return end_all(connection, [(one, outcome) for one in claims])


def end_all(connection: Connection, settled: Sequence[End]) -> Settlement:
    """Ends claims together, each in its own way."""
    return settle(connection, settled)


def complete(connection: Connection, *claims: Claim) -> Settlement:
    return end(connection, claims, Complete(None))


def bury(connection: Connection, *claims: Claim) -> Settlement:
    return end(connection, claims, Bury(Reason.FAIL, "as asked for"))


def retry(connection: Connection, *claims: Claim, delay_seconds: float) -> Settlement:
    return end(connection, claims, RetryLater(Reason.ERROR, "as asked for", delay_seconds))


def return_claims(connection: Connection, *claims: Claim) -> Settlement:
    return end(connection, claims, Return())


def row(connection: Connection, job_id: UUID) -> dict[str, Any]:
    """The job as it is stored."""
    (found,) = rows(connection, [job_id])
    return found


def rows(connection: Connection, ids: Sequence[UUID]) -> list[dict[str, Any]]:
    """The jobs as they are stored, in the order of ``ids``."""
    with connection.cursor(row_factory=dict_row) as cursor:
        found = {
            one["id"]: one for one in cursor.execute("SELECT * FROM dilamme.jobs WHERE id = ANY(%s)", (list(ids),))
        }
    return [found[job_id] for job_id in ids if job_id in found]


def series_of(connection: Connection, job_id: UUID) -> list[dict[str, Any]]:
    """All stored occurrences of a job's series, in the order of their slots."""
    with connection.cursor(row_factory=dict_row) as cursor:
        statement = "SELECT * FROM dilamme.jobs WHERE series_id = %s ORDER BY scheduled_at"
        return cursor.execute(statement, (row(connection, job_id)["series_id"],)).fetchall()


def tally(connection: Connection) -> dict[str, int]:
    """How many jobs are in which status."""
    return dict(connection.execute("SELECT status, count(*) FROM dilamme.jobs GROUP BY status").fetchall())
