"""Read: a job, many, why one is not running, the whole. Nothing here changes a row."""

import json
from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

from dilamme.domain import queue_position
from dilamme.domain.errors import NotFound
from dilamme.domain.job import Head, Status
from dilamme.domain.priority import PRIORITIES
from dilamme.settings import Settings
from dilamme.store import job_types, jobs, reads, series, slots, stats
from dilamme.store.connection import Connection, Row, one_statement, transaction
from dilamme.store.reads import Filter, Slice
from dilamme.usecases.submit import Receipt
from dilamme.wire import cursor
from dilamme.wire.answers import (
    BatchedJob,
    BatchView,
    Count,
    JobCounts,
    JobPage,
    JobSummary,
    JobView,
    SchedulerView,
    Stats,
    Tally,
    TypePage,
    TypeView,
    Workers,
    is_ready,
)
from dilamme.wire.why import RANK_MAX, WAITS_ON_MAX, Facts, Why, explain

PAGE_JOBS_MAX = 200
PAGE_TYPES_MAX = 50  # each may have a schema of 64 KiB, and Lambda's answer has 6 MB
COUNT_MAX = 10_000  # of ready and of dead jobs: people act on these counts
COUNT_MAX_FOR_THE_REST = 1_000
# If a filter's status or series has no more jobs than this, a call reads them all, from an index.
FEW = 2_000
# Else a call looks at this many jobs, newest first: some 10 ms of PostgreSQL's time.
REACH = 10_000
_NEWEST = UUID(int=2**128 - 1)
_PENDING = ("ready", "scheduled", "blocked")


def find_job(connection: Connection, settings: Settings, job_id: UUID) -> JobView:
    """A job in full.

    Raises:
        NotFound: there is no such job.
    """
    with one_statement(connection):
        row = reads.find_job(connection, job_id, settings.max_attempts)
    return JobView.of(_found(row, job_id), settings.ageing_seconds)


def describe_one(connection: Connection, settings: Settings, receipt: Receipt, key: str | None) -> JobView:
    """The single job of a receipt: as it was stored just now, else in its present state.

    If retention has deleted the job that was stored under ``key``, the newest occurrence of its series stands for it.
    """
    if receipt.row is None:
        try:
            return find_job(connection, settings, receipt.ids[0])
        except NotFound:
            newest = series.newest_of_key(connection, key) if key is not None else None
            if newest is None:
                raise
            return find_job(connection, settings, newest)
    row = {**receipt.row, "max_attempts": settings.policy.attempts(receipt.row["max_attempts"])}
    return JobView.of(row, settings.ageing_seconds)


def describe_batch(connection: Connection, receipt: Receipt) -> BatchView:
    """The jobs of a batch, in order: as they were stored just now, else in their present state."""
    statuses: Sequence[Status | None]
    if receipt.statuses is not None:
        statuses = receipt.statuses
    else:
        with one_statement(connection):
            found = reads.statuses_of(connection, receipt.ids)
        statuses = [found.get(job_id) for job_id in receipt.ids]
    jobs = zip(receipt.ids, receipt.refs, statuses, strict=True)
    return BatchView(jobs=[BatchedJob(*job) for job in jobs])


def list_jobs(connection: Connection, settings: Settings, filter_: Filter, limit: int, after: str | None) -> JobPage:
    """A page of jobs, newest first, and the cursor of the next one.

    Raises:
        InvalidInput: the cursor is not one of ours.
    """
    before = _NEWEST if after is None else cursor.decode(after)
    slice_ = Slice(before, limit + 1, settings.max_attempts)
    with transaction(connection):
        few = None
        if filter_.series_id is not None:
            few = reads.few_in_series(connection, filter_.series_id, FEW + 1)
        elif filter_.status is not None:
            few = reads.few_of_status(connection, filter_.status, FEW + 1)
        if few is not None and len(few) <= FEW:
            rows, window_end = reads.page_among(connection, few, filter_, slice_), None
        else:
            rows, window_end = reads.page_of_window(connection, REACH, filter_, slice_)
    shown = rows[:limit]
    last = shown[-1]["id"] if len(rows) > limit else window_end
    return JobPage(
        jobs=[JobSummary.of(row, settings.ageing_seconds) for row in shown],
        next_cursor=cursor.encode(last) if last else None,
    )


def list_types(connection: Connection, settings: Settings, limit: int, after: str | None) -> TypePage:
    """A page of the published types, by name, and the cursor of the next one."""
    with one_statement(connection):
        rows = job_types.list_types(connection, settings.policy, after or "", limit + 1)
    types = [
        TypeView.model_validate({**row, "schema": row["schema"] and json.loads(row["schema"])}) for row in rows[:limit]
    ]
    return TypePage(types=types, next_cursor=types[-1].type if len(rows) > limit else None)


def explain_job(connection: Connection, settings: Settings, job_id: UUID) -> Why:
    """Why a job is not running, or how it ended.

    Raises:
        NotFound: there is no such job.
    """
    with transaction(connection):
        job = _found(reads.explain_job(connection, job_id, settings.max_attempts), job_id)
        blocked = job["status"] == Status.PENDING and job["unmet_dependencies"] > 0
        occupancy = slots.count_slots(connection, settings.worker_slots)
        ahead = 0
        if is_ready(job):
            head = Head(job["id"], job["priority"], job["ready_at"], job["created_at"])
            bounds = queue_position.bounds(head, job["now"], settings.ageing_seconds)
            ahead = reads.count_ahead(connection, bounds, RANK_MAX)
        facts = Facts(
            job=job,
            waits_on=reads.waits_on(connection, job_id, WAITS_ON_MAX) if blocked else [],
            ahead=ahead,
            free=occupancy.free,
            slots=settings.worker_slots,
            ageing_seconds=settings.ageing_seconds,
        )
    return explain(facts)


def _found(row: Row | None, job_id: UUID) -> Row:
    if row is None:
        raise NotFound(f"no job has the id {job_id}")
    return row


def read_stats(connection: Connection, settings: Settings) -> Stats:
    """Counts, ages, workers and the scheduler's pulse."""
    limits = {**dict.fromkeys(stats.KINDS, COUNT_MAX_FOR_THE_REST), "ready": COUNT_MAX, "dead": COUNT_MAX}
    with transaction(connection):
        counted = stats.count_jobs(connection, limits)
        occupancy = slots.count_slots(connection, settings.worker_slots)
        pulse = stats.pulse(connection)
    by_kind: dict[str, list[stats.JobCount]] = defaultdict(list)
    for one in counted:
        by_kind[one.kind].append(one)
        if one.kind in _PENDING:
            by_kind["pending"].append(one)
    tallies = {}
    for kind in JobCounts.model_fields:
        by_priority = {str(p): _count([one for one in by_kind[kind] if one.priority == p]) for p in PRIORITIES}
        tallies[kind] = Tally(**dict(_count(by_kind[kind])), by_priority=by_priority)
    return Stats(
        at=pulse.at,
        jobs=JobCounts(**tallies),
        oldest_ready_seconds=pulse.oldest_ready_seconds,
        workers=Workers(
            slots=settings.worker_slots, active=occupancy.started, invited=occupancy.invited, free=occupancy.free
        ),
        scheduler=SchedulerView(alive=pulse.alive, last_tick_at=pulse.last_tick_at),
    )


def _count(counted: list[stats.JobCount]) -> Count:
    return Count(count=sum(one.jobs for one in counted), capped=any(one.capped for one in counted))


def any_dead(connection: Connection, type_: str | None) -> bool:
    """Is there a dead job, of one type or of any?"""
    with transaction(connection):
        return jobs.any_dead(connection, type_)
