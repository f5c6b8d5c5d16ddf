"""Store jobs: one, or a batch, all or nothing, in whichever transaction the connection is in."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from dilamme.domain import dag
from dilamme.domain.errors import Fault, IdempotencyConflict, InvalidInput
from dilamme.domain.job import Status
from dilamme.store import jobs as store
from dilamme.store.connection import Connection, Row, atomic, one_statement, repeat_on_conflict, transaction
from dilamme.store.ids import new_ids
from dilamme.wire.requests import BatchSubmission, Submission, request_hash

_DEPENDENCY_FAILED = "a job that it depends on was already dead or cancelled"


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was stored, in the order in which it was asked for.

    ``statuses`` are those that the jobs were stored with; None when an idempotency key led to jobs stored before.
    ``due`` says that one of them can run now, ``later`` that one waits for its time. ``row`` is the job in full where
    `submit` stored a single one.
    """

    ids: list[UUID]
    refs: list[str | None]
    statuses: list[Status] | None
    due: bool = False
    later: bool = False
    row: Row | None = None

    @property
    def created(self) -> bool:
        """Were the jobs stored just now?"""
        return self.statuses is not None


@repeat_on_conflict
def submit(
    connection: Connection, batch: Sequence[Submission], key: str | None = None, *, single: bool = False
) -> Receipt:
    """`submit_here` in a transaction of its own; the receipt of a ``single`` job has its row."""
    edges = dag.resolve_refs(batch)
    alone = one_statement if key is None and _are_rows_alone(batch, edges) else transaction
    with alone(connection):
        return _submit(connection, batch, edges, key, single=single, in_full=single)


def submit_here(
    connection: Connection, batch: Sequence[Submission], key: str | None = None, *, single: bool = False
) -> Receipt:
    """Stores ``batch`` in the caller's transaction; ``single`` shortens the faults' pointers to those of one job.

    Raises:
        InvalidInput: a dependency is unknown, a ref doubled or unknown, or jobs wait for each other.
        IdempotencyConflict: the idempotency key stands for another request.
    """
    edges = dag.resolve_refs(batch)  # before anything is asked of the database
    with atomic(connection):
        return _submit(connection, batch, edges, key, single=single, in_full=False)


def _are_rows_alone(batch: Sequence[Submission], edges: dag.Edges) -> bool:
    """Is there nothing to store but the jobs' own rows?"""
    return not any(edges) and not any(job.dependency_ids or job.interval_seconds for job in batch)


def _submit(
    connection: Connection,
    batch: Sequence[Submission],
    edges: dag.Edges,
    key: str | None,
    *,
    single: bool,
    in_full: bool,
) -> Receipt:
    ids = new_ids(len(batch))
    kept = _take_key(connection, batch, ids, key)
    return kept or _store(connection, batch, ids, edges, key, "" if single else "/jobs/{}", in_full=in_full)


def _take_key(connection: Connection, batch: Sequence[Submission], ids: list[UUID], key: str | None) -> Receipt | None:
    if key is None:
        return None
    asked = request_hash(batch)
    while not store.take_key(connection, key, asked, ids, _refs(batch)):
        kept = store.find_key(connection, key)
        # None: retention took the key between the two statements, so it is free again.
        if kept is not None and kept.request_hash != asked:
            raise IdempotencyConflict(
                f"the idempotency key '{key}' stands for another request: use a new key, or send the same body"
            )
        if kept is not None:
            return Receipt(kept.job_ids, kept.refs, statuses=None)
    return None


def _refs(batch: Sequence[Submission]) -> list[str | None]:
    return [job.ref if isinstance(job, BatchSubmission) else None for job in batch]


def _store(
    connection: Connection,
    batch: Sequence[Submission],
    ids: list[UUID],
    edges: dag.Edges,
    key: str | None,
    where: str,
    *,
    in_full: bool,
) -> Receipt:
    statuses = _lock_parents(connection, batch, where)
    failed = {parent for parent, status in statuses.items() if status in (Status.DEAD, Status.CANCELLED)}
    cancelled = dag.cancelled_from_the_start(batch, edges, failed)
    jobs = store.NewJobs(
        ids,
        batch,
        unmet=_count_unmet(batch, edges, statuses),
        series_ids=_open_series(connection, batch, cancelled),
        failures=dict.fromkeys(cancelled, _DEPENDENCY_FAILED),
    )
    row = store.insert_one(connection, jobs, key) if in_full else None
    rows = [(row["free"], row["due"])] if row else store.insert(connection, jobs, key)
    pairs = [
        (ids[place], parent)
        for place, job in enumerate(batch)
        if job.dependency_ids
        for parent in dict.fromkeys(job.dependency_ids)
    ]
    pairs += [(ids[place], ids[parent]) for place, parents in enumerate(edges) for parent in parents]
    if pairs:
        store.insert_edges(connection, pairs)
    if row:
        interval_seconds = batch[0].interval_seconds if jobs.series_ids else None
        row.update(interval_seconds=interval_seconds, dependency_ids=sorted(parent for _, parent in pairs))
    due = [is_due for is_free, is_due in rows if is_free]
    stored = [Status.CANCELLED if place in cancelled else Status.PENDING for place in range(len(batch))]
    return Receipt(ids, _refs(batch), stored, due=any(due), later=not all(due), row=row)


def _count_unmet(batch: Sequence[Submission], edges: dag.Edges, statuses: Mapping[UUID, Status]) -> dict[int, int]:
    """By the places of those that wait for others: for how many."""
    unmet = {parent for parent, status in statuses.items() if status is not Status.COMPLETED}
    return {
        place: count
        for place, (job, parents) in enumerate(zip(batch, edges, strict=True))
        if (job.dependency_ids or parents) and (count := len(unmet.intersection(job.dependency_ids)) + len(parents))
    }


def _lock_parents(connection: Connection, batch: Sequence[Submission], where: str) -> dict[UUID, Status]:
    wanted = {parent for job in batch for parent in job.dependency_ids}
    statuses = store.lock_parents(connection, wanted) if wanted else {}
    if missing := wanted - statuses.keys():
        raise InvalidInput(*_unknown(batch, missing, where))
    return statuses


def _unknown(batch: Sequence[Submission], missing: Collection[UUID], where: str) -> list[Fault]:
    return [
        Fault(f"{where.format(place)}/dependencyIds/{index}", f"no job has the id {parent}")
        for place, job in enumerate(batch)
        for index, parent in enumerate(job.dependency_ids)
        if parent in missing
    ]


def _open_series(connection: Connection, batch: Sequence[Submission], cancelled: Collection[int]) -> dict[int, UUID]:
    # A job that is stored as cancelled starts no series: what it waits for has failed for good.
    intervals = {
        place: job.interval_seconds
        for place, job in enumerate(batch)
        if job.interval_seconds is not None and place not in cancelled
    }
    ids = new_ids(len(intervals))
    if intervals:
        store.insert_series(connection, ids, list(intervals.values()))
    return dict(zip(intervals, ids, strict=True))
