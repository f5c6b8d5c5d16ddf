"""The auditor can fail: for each thing that it promises to see, a soak in which just that went wrong."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from tests.soak.auditor import audit
from tests.soak.evidence import Evidence, Exit, Job, Request, Run, Series, Step, gather, install_history, read_runs

NOW = datetime(2030, 1, 1, tzinfo=UTC)
A, B, C = (UUID(int=number) for number in (1, 2, 3))
SERIES = UUID(int=9)
Spoil = Callable[[Evidence], None]


def job(job_id: UUID, **fields: object) -> Job:
    values: Mapping[str, object] = {"key": "k", "scheduled_at": NOW, "ready_at": NOW, "created_at": NOW, **fields}
    return Job(job_id, **values)  # type: ignore[arg-type]


def steps(seq: int, *statuses: str, attempt: int = 1, reason: str | None = None) -> list[Step]:
    """A history in which a claim costs an attempt; numbered from ``seq``."""
    before = (None, *statuses[:-1])
    return [
        Step(seq + place, NOW, was, status, attempt, reason=reason)
        for place, (was, status) in enumerate(zip(before, statuses, strict=True))
    ]


def run(job_id: UUID, started: float, ended: float | None, **more: object) -> Run:
    values: Mapping[str, object] = {"attempt": 1, "process": "7-x", "how": ended and "returned", **more}
    return Run(job_id, started=started, ended=ended, **values)  # type: ignore[arg-type]


@pytest.fixture
def evidence() -> Evidence:
    """Of a soak in which all went well: A completed, B waited for it, C died after its three attempts; one series."""
    n, m = UUID(int=4), UUID(int=5)
    died = [
        *steps(20, "pending", "running", "pending"),
        Step(23, NOW, "pending", "running", 2),
        Step(24, NOW, "running", "pending", 2),
        Step(25, NOW, "pending", "running", 3),
        Step(26, NOW, "running", "dead", 3, reason="worker_lost"),
    ]
    return Evidence(
        now=NOW,
        jobs={
            A: job(A),
            B: job(B),
            C: job(C, status="dead", attempt=3),
            n: job(n, series_id=SERIES),
            m: job(
                m,
                key=None,
                status="pending",
                attempt=0,
                series_id=SERIES,
                scheduled_at=NOW + timedelta(seconds=60),
                ready_at=NOW + timedelta(seconds=60),
            ),
        },
        edges=[(B, A)],
        keys={"k": [A, B, C, n]},
        series={SERIES: Series(60)},
        history={
            A: steps(1, "pending", "running", "completed"),
            B: steps(10, "pending", "running", "completed"),
            C: died,
            n: steps(30, "pending", "running", "completed"),
            m: steps(40, "pending", attempt=0),
        },
        runs={
            A: [run(A, 1, 2)],
            B: [run(B, 3, 4)],
            C: [run(C, 5, None), run(C, 7, None, attempt=2, process="8-x"), run(C, 9, None, attempt=3, process="9-x")],
            n: [run(n, 1, 2)],
        },
        exits={"7-x": Exit(6, 6.1), "8-x": Exit(8, 8.1), "9-x": Exit(10, 10.1)},
        requests=[Request("k", 4, [201], [[A, B, C, n]])],
        letters=Counter({C: 1}),
        reasons_given={m: "It is due in 60 s."},
        kept_seconds=60,
    )


def test_a_soak_in_which_all_went_well_has_no_violations(evidence: Evidence) -> None:
    assert audit(evidence) == []


def change(job_id: UUID, **fields: object) -> Spoil:
    def spoil(evidence: Evidence) -> None:
        evidence.jobs[job_id] = replace(evidence.jobs[job_id], **fields)  # type: ignore[arg-type]
        if "status" in fields:
            last = evidence.history[job_id][-1]
            evidence.history[job_id][-1] = replace(last, status=str(fields["status"]))

    return spoil


def gone(job_id: UUID, seq: int, *, after_seconds: float = 60) -> Spoil:
    """Deleted that long after its end."""
    at = NOW + timedelta(seconds=after_seconds)
    return change(job_id, finished_at=NOW, gone_at=at, gone_seq=seq)


def forget(job_id: UUID) -> Spoil:
    """As if the row had never been."""

    def spoil(evidence: Evidence) -> None:
        del evidence.jobs[job_id], evidence.history[job_id], evidence.runs[job_id]

    return spoil


def put(table: str, key: object, value: object) -> Spoil:
    return lambda evidence: getattr(evidence, table).__setitem__(key, value)


def add(table: str, value: object) -> Spoil:
    return lambda evidence: getattr(evidence, table).append(value)


def answer(*requests: Request) -> Spoil:
    return lambda evidence: setattr(evidence, "requests", list(requests))


def rerun(job_id: UUID, place: int, **fields: object) -> Spoil:
    def spoil(evidence: Evidence) -> None:
        evidence.runs[job_id][place] = replace(evidence.runs[job_id][place], **fields)  # type: ignore[arg-type]

    return spoil


def both(*spoils: Spoil) -> Spoil:
    def spoil(evidence: Evidence) -> None:
        for one in spoils:
            one(evidence)

    return spoil


def second_occurrence(**fields: object) -> Spoil:
    """Another occurrence of the series, completed in its own slot unless ``fields`` say otherwise."""
    other = UUID(int=6)
    values: dict[str, object] = {
        "key": None,
        "series_id": SERIES,
        "scheduled_at": NOW + timedelta(seconds=120),
        "ready_at": NOW + timedelta(seconds=120),
        **fields,
    }
    row = job(other, **values)
    ended = ("running", row.status) if row.status != "pending" else ()
    return both(
        put("jobs", other, row),
        put("history", other, steps(50, "pending", *ended)),
        put("reasons_given", other, "It is due."),
    )


def freed_after(seconds: float) -> Spoil:
    """C's last run had begun at 9, and its process was last seen alive at 10."""
    at = NOW + timedelta(seconds=seconds)

    def spoil(evidence: Evidence) -> None:
        evidence.since_1970 = NOW.timestamp()
        evidence.history[C][-1] = replace(evidence.history[C][-1], at=at)

    return spoil


def death_after(*rows: tuple[str, str, int, bool]) -> Spoil:
    history = [
        Step(20 + place, NOW, was or None, status, attempt, gave_back, reason="error")
        for place, (was, status, attempt, gave_back) in enumerate(rows)
    ]
    return both(put("history", C, history), put("runs", C, []))


VIOLATIONS: list[tuple[str, Spoil]] = [
    # Nothing is lost.
    ("accepted under k, and not in the table", forget(C)),
    (
        "different ids in two answers",
        answer(Request("k", 4, [201, 200], [[A, B, C, UUID(int=4)], [B, A, C, UUID(int=4)]])),
    ),
    ("of 5 jobs under k 4 are stored", answer(Request("k", 5, [0], []))),
    ("of 4 jobs under k 4 are stored, its key names 3", put("keys", "k", [A, B, C])),
    ("the valid request k was refused", answer(Request("k", 4, [500, 409], []))),
    ("nobody asked for it", change(A, key=None)),
    ("running past its lease", change(A, status="running", lease_expires_at=NOW)),
    ("running in a system at rest", change(A, status="running", lease_expires_at=NOW + timedelta(seconds=9))),
    ("ready, and nobody runs it", both(change(A, status="pending"), put("reasons_given", A, "It is 1st in line."))),
    (
        "counts 1 unmet dependencies, and has 0",
        both(change(B, status="pending", unmet=1), put("reasons_given", B, "why")),
    ),
    ("waits, and nobody says why", put("reasons_given", UUID(int=5), "")),
    ("its cancellation was confirmed, and it is not cancelled", lambda evidence: evidence.cancelled.add(A)),
    ("was confirmed, and it has not ended", lambda evidence: evidence.series_ended.add(SERIES)),
    ("still in the outbox", add("outbox", C)),
    ("worker slot 2 is held", add("slots_held", 2)),
    ("deleted at 2030-01-01 00:00:59+00:00 as completed", gone(B, 90, after_seconds=59)),
    ("deleted at 2030-01-01 00:01:00+00:00 as running", both(change(A, status="running"), gone(A, 90))),
    ("a parent was deleted while its child was alive", gone(A, 12)),
    (
        "was to be cancelled with its parent, and waits",
        both(change(A, status="dead"), change(B, status="pending", unmet=1, cancelled_with_parents=True)),
    ),
    # Nothing runs twice at once, nor too often.
    ("a run found another holding the job's lock", rerun(A, 0, alone=False)),
    ("runs overlap by 0.500 s", rerun(C, 0, ended=7.5, how="raised")),
    ("runs overlap by 1.000 s", put("exits", "7-x", Exit(8, 8.1))),
    ("runs overlap by 1.000 s", put("exits", "8-x", Exit(10, 10.1))),
    ("its process was not seen to end", lambda evidence: evidence.exits.clear()),
    ("taken from a run that went on for 0.500 s", freed_after(9.5)),
    (
        "claimed more than 3 times",
        put("history", C, [*steps(20, "pending", "running", attempt=4), *steps(30, "dead", attempt=4)]),
    ),
    ("ran beyond its attempts", rerun(C, 2, attempt=4)),
    ("attempts ran that nobody claimed: {1: 1}", put("runs", A, [run(A, 1, 2), run(A, 3, 4)])),
    (
        "dead by error after 1 claims of 3",
        death_after(("", "pending", 0, False), ("pending", "running", 1, False), ("running", "dead", 1, False)),
    ),
    (
        "dead by error after 2 claims of 3",
        death_after(
            ("", "pending", 0, False),
            ("pending", "running", 1, False),
            ("running", "pending", 0, True),
            ("pending", "running", 1, False),
            ("running", "pending", 1, False),
            ("pending", "running", 2, False),
            ("running", "dead", 2, False),
        ),
    ),
    ("died 1 times, announced 0 times", lambda evidence: evidence.letters.clear()),
    ("its history does not end where its row is", put("history", A, steps(1, "pending", "running"))),
    ("its history has a gap", put("history", A, [*steps(1, "pending"), Step(3, NOW, "running", "completed", 1)])),
    ("changed after it had ended", put("history", A, steps(1, "pending", "running", "completed", "completed"))),
    ("completed in attempt 2, and only [1] returned", change(A, attempt=2)),
    # Dependencies.
    (
        "claimed before a job that it depends on was completed",
        put("history", B, steps(1, "pending", "running", "completed")),
    ),
    (
        "claimed before a job that it depends on was completed",
        both(change(A, status="dead"), put("letters", A, 1), rerun(A, 0, how="returned")),
    ),
    ("ran before a job that it depends on had returned", rerun(B, 0, started=1.5)),
    ("ran before a job that it depends on had returned", rerun(A, 0, how="raised")),
    # Series.
    ("two occurrences in one slot", second_occurrence(scheduled_at=NOW)),
    ("is off its grid of 60 s", second_occurrence(scheduled_at=NOW + timedelta(seconds=90))),
    ("has 2 live occurrences, not 1", second_occurrence(status="pending", attempt=0)),
    ("has 1 live occurrences, not 0", put("series", SERIES, Series(60, ended=True))),
    ("had 2 live occurrences at once", second_occurrence(scheduled_at=NOW + timedelta(seconds=180))),
]


@pytest.mark.parametrize(("what", "spoil"), VIOLATIONS, ids=[what for what, _ in VIOLATIONS])
def test_the_auditor_sees(what: str, spoil: Spoil, evidence: Evidence) -> None:
    spoil(evidence)
    assert any(what in violation.what for violation in audit(evidence)), audit(evidence)


def test_what_has_gone_in_time_is_no_violation(evidence: Evidence) -> None:
    both(
        gone(B, 90),
        gone(A, 91),
        answer(Request("k", 4, [201], [[A, B, C, UUID(int=4)]]), Request("l", 1, [422], [], [A])),
    )(evidence)
    assert audit(evidence) == []


def test_rows_that_were_deleted_are_evidence_too(database_url: str, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    with psycopg.connect(database_url, autocommit=True) as connection:
        install_history(connection)
        connection.execute("INSERT INTO dilamme.series VALUES (%s, 60, now(), NULL)", (SERIES,))
        for job_id in (A, B):
            connection.execute(
                "INSERT INTO dilamme.jobs (id, type, status, priority, created_at, scheduled_at, ready_at, payload, series_id)"
                " VALUES (%s, 'test.x', 'pending', 1, now(), now(), now(), '{}', %s)",
                (job_id, SERIES if job_id == A else None),
            )
        connection.execute("INSERT INTO dilamme.job_dependencies VALUES (%s, %s)", (B, A))
        connection.execute("INSERT INTO dilamme.idempotency_keys VALUES ('k', sha256('k'), %s, '[null]')", ([A],))
        for table in ("idempotency_keys", f"jobs WHERE id = '{B}'", "jobs", "series"):
            connection.execute(f"DELETE FROM dilamme.{table}".encode())
    evidence = gather(database_url, tmp_path, max_attempts=3, kept_seconds=60)
    assert (evidence.edges, evidence.keys, set(evidence.series)) == ([(B, A)], {"k": [A]}, {SERIES})
    assert [(one.id, one.gone_at is not None) for one in evidence.jobs.values()] == [(B, True), (A, True)]


def test_what_a_kill_tore_apart_is_left_out_of_a_journal(tmp_path: Path) -> None:
    line = f'{{"step": "start", "run": "r", "at": 1.0, "job": "{A}", "attempt": 1, "process": "7-x", "alone": true}}'
    (tmp_path / "7-x.jsonl").write_text(f'{line}\n{{"step": "end", "ru')
    assert read_runs(tmp_path) == {A: [run(A, 1.0, None)]}


def test_the_evidence_is_what_the_tables_and_their_history_say(database_url: str, tmp_path: Path) -> None:
    """A job that is claimed, handed back, claimed again and buried, with a letter in the outbox."""
    (tmp_path / "runs").mkdir()
    claim = "UPDATE dilamme.jobs SET status = 'running', attempt = 1, token = id, worker = id, started_at = now(), lease_expires_at = now()"
    let_go = "token = NULL, worker = NULL, lease_expires_at = NULL"
    with psycopg.connect(database_url, autocommit=True) as connection:
        install_history(connection)
        connection.execute(
            "INSERT INTO dilamme.jobs (id, type, status, priority, created_at, scheduled_at, ready_at, payload) "
            "VALUES (%s, 'test.x', 'pending', 1, now(), now(), now(), '{}')",
            (A,),
        )
        connection.execute(claim.encode())
        connection.execute(f"UPDATE dilamme.jobs SET status = 'pending', attempt = 0, {let_go}".encode())
        connection.execute(claim.encode())
        connection.execute("UPDATE dilamme.jobs SET ready_at = now()")  # nothing of interest to a history
        bury = f"UPDATE dilamme.jobs SET status = 'dead', finished_at = now(), {let_go}, errors = '[{{\"reason\": \"error\"}}]'"
        connection.execute(bury.encode())
        connection.execute("INSERT INTO dilamme.outbox VALUES (%s, %s, '{}', now())", (B, A))
    evidence = gather(database_url, tmp_path, max_attempts=3, kept_seconds=60)
    assert (evidence.jobs[A].status, evidence.jobs[A].max_attempts, evidence.outbox) == ("dead", 3, [A])
    assert [(step.was, step.status, step.gave_back, step.reason) for step in evidence.history[A]] == [
        (None, "pending", False, None),
        ("pending", "running", False, None),
        ("running", "pending", True, None),
        ("pending", "running", False, None),
        ("running", "dead", False, "error"),
    ]
    told = {violation.what for violation in audit(evidence)}
    assert {"dead by error after 1 claims of 3", "died 1 times, announced 0 times"} <= told
