"""Store jobs: one, or a batch, all or nothing, in whichever transaction the connection is in."""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from dilamme.domain import dag
from dilamme.domain.errors import Fault, IdempotencyConflict, InvalidInput
from dilamme.domain.job import OnDependencyFailure, Status
from dilamme.store import dependencies, idempotency_keys, jobs, series, submit_function
from dilamme.store.connection import (
    AsyncConnection,
    Connection,
    Row,
    atomic,
    atomic_async,
    one_statement,
    repeat_on_conflict,
    transaction,
)
from dilamme.store.ids import new_ids
from dilamme.store.job_columns import CHOSEN
from dilamme.usecases.published import Findings, look_at_payloads
from dilamme.wire.requests import BATCH_DEPENDENCIES_MAX, BatchSubmission, Submission, request_hash

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
    connection: Connection,
    batch: Sequence[Submission],
    key: str | None = None,
    *,
    single: bool = False,
    is_checked: Callable[[], bool] = lambda: True,
) -> Receipt:
    """`submit_here` in a transaction of its own; the receipt of a ``single`` job has its row."""
    edges = _resolve_refs(batch)
    findings = look_at_payloads(connection, batch, "" if single else "/jobs/{}", (), is_checked)
    with (one_statement if key is None and _is_plain(batch, edges) else transaction)(connection):
        return _submit(connection, batch, edges, findings, key, single=single, in_full=single)


def submit_here(
    connection: Connection,
    batch: Sequence[Submission],
    key: str | None = None,
    *,
    single: bool = False,
    vouched: Container[int] = (),
    is_checked: Callable[[], bool] = lambda: True,
) -> Receipt:
    """Stores ``batch`` in the caller's transaction; ``single`` shortens the faults' pointers to those of one job.

    The payloads of the ``vouched`` ones, by their places, have been checked before; ``is_checked`` says whether the others are.

    Raises:
        InvalidInput: a payload does not fit its type's published schema, a dependency is unknown, a ref doubled or unknown,
            jobs wait for each other, or there are too many dependencies.
        IdempotencyConflict: the idempotency key stands for another request.
    """
    edges = _resolve_refs(batch)  # before anything is asked of the database
    findings = look_at_payloads(connection, batch, "" if single else "/jobs/{}", vouched, is_checked)
    with atomic(connection, one_statement=key is None and _is_plain(batch, edges)):
        return _submit(connection, batch, edges, findings, key, single=single, in_full=False)


async def submit_here_async(connection: AsyncConnection, job: Submission, key: str | None = None) -> UUID:
    """Stores one job by the SQL function, in the caller's transaction; its id. Raises as `submit_here`."""
    async with atomic_async(connection):
        arguments = {name: getattr(job, name) for name in Submission.model_fields}
        arguments |= {"on_dependency_failure": job.on_dependency_failure.value, "idempotency_key": key}
        return await submit_function.submit(connection, arguments)


def _resolve_refs(batch: Sequence[Submission]) -> dag.Edges:
    waits = [job.dependency_refs if isinstance(job, BatchSubmission) else () for job in batch]
    so_far = 0
    for index, (job, refs) in enumerate(zip(batch, waits, strict=True)):
        for field, named in (("dependencyIds", job.dependency_ids), ("dependencyRefs", refs)):
            so_far += len(named)
            if so_far > BATCH_DEPENDENCIES_MAX:
                raise InvalidInput(
                    Fault(
                        f"/jobs/{index}/{field}",
                        f"with these the batch has more than {BATCH_DEPENDENCIES_MAX:,} dependencies: send several batches, or,"
                        " where many jobs wait for the same many, put one job that waits for all of them in between",
                    )
                )
    return dag.resolve_refs(_refs(batch), waits)


def _is_plain(batch: Sequence[Submission], edges: dag.Edges) -> bool:
    """Without a key, is one INSERT all that there is to store?"""
    return not any(edges) and not any(job.dependency_ids or job.interval_seconds for job in batch)


def _refs(batch: Sequence[Submission]) -> list[str | None]:
    return [job.ref if isinstance(job, BatchSubmission) else None for job in batch]


def _submit(
    connection: Connection,
    batch: Sequence[Submission],
    edges: dag.Edges,
    findings: Findings,
    key: str | None,
    *,
    single: bool,
    in_full: bool,
) -> Receipt:
    ids = new_ids(len(batch))
    if key is not None and (kept := _find_kept(connection, batch, ids, key)):
        return kept
    if findings.faults:  # only now: what was stored before, under the key, is not judged by what is published today
        raise InvalidInput(*findings.faults)
    statuses = _lock_parents(connection, batch, "" if single else "/jobs/{}")
    new = _new_jobs(connection, batch, ids, edges, findings.versions, statuses)
    row = jobs.insert_one(connection, new, key) if in_full else None
    stored = [(row["free"], row["due"])] if row else jobs.insert(connection, new, key)
    pairs = [
        (ids[index], parent)
        for index, job in enumerate(batch)
        if job.dependency_ids
        for parent in dict.fromkeys(job.dependency_ids)
    ]
    pairs += [(ids[index], ids[parent]) for index, parents in enumerate(edges) for parent in parents]
    if pairs:
        dependencies.insert_edges(connection, pairs)
    if row:
        interval_seconds = batch[0].interval_seconds if new.series_ids else None
        row.update(interval_seconds=interval_seconds, dependency_ids=sorted(parent for _, parent in pairs))
    due = [is_due for is_free, is_due in stored if is_free]
    now = [Status.CANCELLED if index in new.failures else Status.PENDING for index in range(len(batch))]
    return Receipt(ids, _refs(batch), now, due=any(due), later=not all(due), row=row)


def _find_kept(connection: Connection, batch: Sequence[Submission], ids: list[UUID], key: str) -> Receipt | None:
    """The receipt of the jobs that were stored under the key before; None if the key is ours now."""
    asked = request_hash(batch)
    while not idempotency_keys.take_key(connection, key, asked, ids, _refs(batch)):
        kept = idempotency_keys.find_key(connection, key)
        if kept is None:
            continue  # retention took the key between the two statements, so it is free again
        if kept.request_hash != asked and kept.request_hash != request_hash(batch, of_kept=True):
            raise IdempotencyConflict(
                f"the idempotency key '{key}' stands for another request: use a new key, or send the same body"
            )
        return Receipt(kept.job_ids, kept.refs, statuses=None)
    return None


def _lock_parents(connection: Connection, batch: Sequence[Submission], where: str) -> dict[UUID, Status]:
    wanted = {parent for job in batch for parent in job.dependency_ids}
    statuses = dependencies.lock_parents(connection, wanted) if wanted else {}
    if missing := wanted - statuses.keys():
        faults = [
            Fault(f"{where.format(index)}/dependencyIds/{place}", f"no job has the id {parent}")
            for index, job in enumerate(batch)
            for place, parent in enumerate(job.dependency_ids)
            if parent in missing
        ]
        raise InvalidInput(*faults)
    return statuses


def _new_jobs(
    connection: Connection,
    batch: Sequence[Submission],
    ids: list[UUID],
    edges: dag.Edges,
    versions: Sequence[int | None],
    statuses: Mapping[UUID, Status],
) -> jobs.NewJobs:
    """The rows of the batch; opens their series."""
    unmet = {parent for parent, status in statuses.items() if status is not Status.COMPLETED}
    failed = {parent for parent, status in statuses.items() if status in (Status.DEAD, Status.CANCELLED)}
    cancelled: frozenset[int] = frozenset()
    if failed:
        cancelled = dag.cancelled_from_the_start(
            edges,
            failed={index for index, job in enumerate(batch) if not failed.isdisjoint(job.dependency_ids)},
            cancelling={
                index for index, job in enumerate(batch) if job.on_dependency_failure is OnDependencyFailure.CANCEL
            },
        )
    # A job that is stored as cancelled starts no series: its dependency has failed for good.
    intervals = {
        index: job.interval_seconds
        for index, job in enumerate(batch)
        if job.interval_seconds is not None and index not in cancelled
    }
    series_ids = new_ids(len(intervals))
    if intervals:
        series.insert_series(connection, series_ids, list(intervals.values()))
    return jobs.NewJobs(
        ids,
        chosen={
            **{column.name: [getattr(job, column.name) for job in batch] for column in CHOSEN},
            "payload_version": versions,
        },
        scheduled_at=[job.scheduled_at for job in batch],
        unmet={
            index: count
            for index, (job, parents) in enumerate(zip(batch, edges, strict=True))
            if (job.dependency_ids or parents) and (count := len(unmet.intersection(job.dependency_ids)) + len(parents))
        },
        series_ids=dict(zip(intervals, series_ids, strict=True)),
        failures=dict.fromkeys(cancelled, _DEPENDENCY_FAILED),
    )
