"""What the auditor judges: the tables, the journals and what came off the queue, read by plain means of its own.

Nothing here imports Dilamme: an error that the product and its auditor shared would be seen by neither.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, LiteralString
from uuid import UUID

import psycopg
from psycopg.rows import namedtuple_row

from tests.soak import journals

LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Job:
    """A row of the jobs, deleted ones too; ``max_attempts`` as it applies: its own, or else its type's, or else the setting."""

    id: UUID
    type: str = "soak.note"
    status: str = "completed"
    attempt: int = 1
    max_attempts: int = 3
    unmet: int = 0
    created_at: datetime = LONG_AGO
    scheduled_at: datetime = LONG_AGO
    ready_at: datetime = LONG_AGO
    lease_expires_at: datetime | None = None
    series_id: UUID | None = None
    replayed: bool = False
    key: str | None = None
    cancelled_with_parents: bool = False
    finished_at: datetime | None = None
    gone_at: datetime | None = None  # deleted by retention, then and there in the order of the history
    gone_seq: int | None = None


@dataclass(frozen=True)
class Step:
    """A line of a job's history, written by PostgreSQL; ``seq`` puts all of them in order."""

    seq: int
    at: datetime
    was: str | None
    status: str
    attempt: int
    gave_back: bool = False
    worker: UUID | None = None
    reason: str | None = None

    @property
    def is_claim(self) -> bool:
        return (self.was, self.status) == ("pending", "running")

    @property
    def is_death(self) -> bool:
        return self.status == "dead" and self.was != "dead"


@dataclass(frozen=True)
class Run:
    """One run of a handler by its own journal, in monotonic seconds; ``ended`` is None where it was cut off."""

    job: UUID
    attempt: int
    process: str
    started: float
    ended: float | None = None
    how: str | None = None
    alone: bool = True


@dataclass(frozen=True)
class Exit:
    """The end of a worker's process, in monotonic seconds."""

    alive_at: float
    dead_at: float


@dataclass(frozen=True)
class Series:
    """A row of the series."""

    interval_seconds: int
    ended: bool = False


@dataclass(frozen=True)
class Request:
    """One submission under one key: how many jobs it asked for, each answer's status, the ids of each answer that gave some.

    ``parents``: jobs of others that it depends on.
    """

    key: str
    jobs: int
    answers: list[int]
    ids: list[list[UUID]]
    parents: list[UUID] = field(default_factory=list)


@dataclass
class Evidence:
    """All of it; empty tables and journals are the default, so that a test can say just what it is about."""

    now: datetime
    since_1970: float = 0.0  # what the wall clock shows at zero of the monotonic one, in seconds
    jobs: dict[UUID, Job] = field(default_factory=dict)
    edges: list[tuple[UUID, UUID]] = field(default_factory=list)  # child, parent
    keys: dict[str, list[UUID]] = field(default_factory=dict)
    series: dict[UUID, Series] = field(default_factory=dict)
    outbox: list[UUID] = field(default_factory=list)
    slots_held: list[int] = field(default_factory=list)
    history: dict[UUID, list[Step]] = field(default_factory=dict)
    runs: dict[UUID, list[Run]] = field(default_factory=dict)
    exits: dict[str, Exit] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    cancelled: set[UUID] = field(default_factory=set)  # jobs whose cancellation was confirmed
    series_ended: set[UUID] = field(default_factory=set)  # series whose end was confirmed
    letters: Counter[UUID] = field(default_factory=Counter)
    reasons_given: dict[UUID, str] = field(default_factory=dict)  # `why`, of those that wait
    kept_seconds: float = 0.0  # the shortest retention


def install_history(connection: "psycopg.Connection[Any]") -> None:
    """From now on PostgreSQL writes down what becomes of each job."""
    connection.execute(Path(__file__).with_name("history.sql").read_bytes())


def gather(database_url: str, folder: Path, *, max_attempts: int, kept_seconds: float) -> Evidence:
    """Reads tables and journals; the reasons why a job waits are asked for elsewhere."""
    with psycopg.connect(database_url, row_factory=namedtuple_row) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        evidence = _read_tables(connection, max_attempts)
    evidence.kept_seconds = kept_seconds
    evidence.since_1970 = time.time() - time.monotonic()
    evidence.runs = read_runs(folder / "runs")
    evidence.exits = {
        line["process"]: Exit(line["aliveAt"], line["deadAt"]) for line in journals.read(folder / "exits.jsonl")
    }
    _read_requests(evidence, journals.read(folder / "requests.jsonl"))
    evidence.letters = Counter(UUID(line["jobId"]) for line in journals.read(folder / "letters.jsonl"))
    return evidence


def _read_tables(connection: "psycopg.Connection[Any]", max_attempts: int) -> Evidence:
    ((now,),) = connection.execute("SELECT now()").fetchall()
    jobs = connection.execute(
        """SELECT job.id, job.type, status, attempt, coalesce(job.max_attempts, job_type.max_attempts, %s) AS max_attempts,
                  unmet_dependencies AS unmet, created_at, scheduled_at, ready_at, lease_expires_at, series_id, replayed,
                  idempotency_key AS key, on_dependency_failure = 'cancel' AS cancelled_with_parents, finished_at, gone_at,
                  gone_seq
           FROM (SELECT *, NULL::timestamptz AS gone_at, NULL::bigint AS gone_seq FROM dilamme.jobs
                 UNION ALL SELECT * FROM soak.gone_jobs) AS job
           LEFT JOIN dilamme.job_types AS job_type ON job_type.type = job.type""",
        (max_attempts,),
    )
    history: dict[UUID, list[Step]] = defaultdict(list)
    for row in connection.execute(
        "SELECT job_id, seq, at, was, status, attempt, gave_back, worker, reason FROM soak.history ORDER BY seq"
    ):
        history[row[0]].append(Step(*row[1:]))
    return Evidence(
        now=now,
        jobs={row.id: Job(**row._asdict()) for row in jobs},
        history=dict(history),
        edges=[tuple(row) for row in connection.execute(_with_the_gone("child_id, parent_id", "job_dependencies"))],
        keys={row.key: row.job_ids for row in connection.execute(_with_the_gone("key, job_ids", "idempotency_keys"))},
        series={
            row.id: Series(row.interval_seconds, row.ended)
            for row in connection.execute(
                _with_the_gone("id, interval_seconds, ended_at IS NOT NULL AS ended", "series")
            )
        },
        outbox=[row.job_id for row in connection.execute("SELECT job_id FROM dilamme.outbox")],
        slots_held=[
            row.slot
            for row in connection.execute("SELECT slot FROM dilamme.worker_slots WHERE state <> 'free' ORDER BY slot")
        ],
    )


def _with_the_gone(columns: LiteralString, table: LiteralString) -> LiteralString:
    return f"SELECT {columns} FROM dilamme.{table} UNION ALL SELECT {columns} FROM soak.gone_{table}"


def read_runs(folder: Path) -> dict[UUID, list[Run]]:
    """The runs of each job in the order in which they started, from the journals of all processes."""
    runs: dict[UUID, list[Run]] = defaultdict(list)
    for file in folder.iterdir():
        for run in _runs_of(journals.read(file)):
            runs[run.job].append(run)
    for of_job in runs.values():
        of_job.sort(key=lambda run: run.started)
    return dict(runs)


def _runs_of(lines: Iterable[Mapping[str, Any]]) -> list[Run]:
    lines = list(lines)
    ends = {line["run"]: line for line in lines if line["step"] == "end"}
    return [
        Run(
            job=UUID(line["job"]),
            attempt=line["attempt"],
            process=line["process"],
            started=line["at"],
            ended=ends.get(line["run"], {}).get("at"),
            how=ends.get(line["run"], {}).get("how"),
            alone=line["alone"],
        )
        for line in lines
        if line["step"] == "start"
    ]


def _read_requests(evidence: Evidence, lines: Iterable[Mapping[str, Any]]) -> None:
    for line in lines:
        if line["what"] == "submit":
            ids = [[UUID(job_id) for job_id in answer] for answer in line["ids"]]
            parents = [UUID(job_id) for job_id in line["parents"]]
            evidence.requests.append(Request(line["key"], line["jobs"], line["answers"], ids, parents))
        elif line["status"] == 200 and line["what"] == "cancel":
            evidence.cancelled.add(UUID(line["id"]))
        elif line["status"] == 200 and line["what"] == "end":
            evidence.series_ended.add(UUID(line["id"]))
