"""One soak: load and chaos side by side, then rest, then the audit."""

import http.client
import json
import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit
from uuid import UUID

import psycopg

from dilamme_local.stack import Stack
from tests.soak.auditor import Violation, audit
from tests.soak.chaos import Chaos
from tests.soak.evidence import Evidence, gather, install_history
from tests.soak.load import DANGEROUS, Load
from tests.soak.mailbox import Mailbox
from tests.soak.stage import KEPT_SECONDS, MAX_ATTEMPTS, stage
from tests.soak.witness import Witness

logger = logging.getLogger("soak")

JOBS_PER_SECOND = 250
BACKLOG_JOBS_MAX = 1_500
REST_SECONDS_MAX = 120
VIOLATIONS_TOLD_MAX, HISTORIES_TOLD_MAX = 100, 20
# What will run soon and has not: all but the blocked, and what is due far ahead.
UNRESTED = """
    SELECT (SELECT count(*) FROM dilamme.jobs WHERE status = 'running'
               OR (status = 'pending' AND unmet_dependencies = 0 AND ready_at < now() + interval '10 minutes'))
         + (SELECT count(*) FROM dilamme.jobs AS child WHERE status = 'pending' AND on_dependency_failure = 'cancel' AND EXISTS (
               SELECT FROM dilamme.job_dependencies AS edge JOIN dilamme.jobs AS parent ON parent.id = edge.parent_id
               WHERE edge.child_id = child.id AND parent.status IN ('dead', 'cancelled')))
         + (SELECT count(*) FROM dilamme.outbox) + (SELECT count(*) FROM dilamme.worker_slots WHERE state <> 'free')
"""
BACKLOG = """
    SELECT count(*) FROM (SELECT FROM dilamme.jobs
    WHERE status = 'pending' AND unmet_dependencies = 0 AND ready_at <= now() LIMIT %s) AS ready
"""


@dataclass
class Report:
    """What a soak came to: ``figures`` in words, and every violation with its jobs' histories.

    ``faults``: misfortunes that came from outside, and runs whose handler ended its process, overran or forked.
    """

    seed: str
    jobs: int
    faults: int
    figures: dict[str, str]
    violations: list[Violation]
    histories: dict[UUID, list[str]] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"  {name:<32} {figure}" for name, figure in self.figures.items()]
        lines += [
            f"VIOLATION: {one.what} {' '.join(map(str, one.jobs))}" for one in self.violations[:VIOLATIONS_TOLD_MAX]
        ]
        for job_id, history in self.histories.items():
            lines += [f"{job_id}:", *(f"    {line}" for line in history)]
        verdict = f"{len(self.violations)} violations" if self.violations else "no violations"
        return "\n".join([*lines, f"{verdict}; SOAK_SEED={self.seed}"])


def soak(seconds: float, seed: str, folder: Path, jobs_per_second: float = JOBS_PER_SECOND) -> Report:
    """Runs load and chaos for ``seconds`` on a stack of its own in ``folder``, which must be empty."""
    with stage(folder) as stack:
        with psycopg.connect(stack.database_url) as connection:
            install_history(connection)
        witness, mailbox = Witness(folder), Mailbox(stack.aws_url, stack.queue_url, folder)
        chaos = Chaos(stack, seed, folder, seconds)
        load = Load(stack.url, seed, jobs_per_second, folder)
        for part in (witness, mailbox, load, chaos):
            part.start()
        braked = _mind_the_backlog(stack, load, until=time.monotonic() + seconds)
        chaos.stop()
        load.stop()
        rested = _rest(stack)
        mailbox.stop()
        witness.stop()
        evidence = gather(stack.database_url, folder, max_attempts=MAX_ATTEMPTS, kept_seconds=KEPT_SECONDS)
        evidence.reasons_given = _ask_why(
            stack.url, [job.id for job in evidence.jobs.values() if job.status == "pending"]
        )
        violations = audit(evidence)
        figures = {
            "load": f"{load.shared.jobs_accepted / seconds:.0f} jobs/s accepted; held back for {braked:.0f} s",
            **_figures(evidence, chaos, stack),
            "rest": f"{rested:.1f} s",
        }
        faults = chaos.number + _runs_of_dangerous(evidence)
        return Report(seed, len(evidence.jobs), faults, figures, violations, _histories(evidence, violations))


def _mind_the_backlog(stack: Stack, load: Load, until: float) -> float:
    """Holds the load back while half the system is dead, which would else need hours of rest; for how many seconds."""
    braked, looked_at = 0.0, time.monotonic()
    while time.monotonic() < until:
        time.sleep(min(0.5, max(0, until - time.monotonic())))
        braked += (time.monotonic() - looked_at) * load.brake.is_set()
        looked_at = time.monotonic()
        backlog = _count(stack, BACKLOG, BACKLOG_JOBS_MAX)
        logger.info("backlog %s, workers %s", backlog, _workers(stack))
        if backlog is None or backlog < BACKLOG_JOBS_MAX:
            load.brake.clear()
        else:
            load.brake.set()
    return braked


def _rest(stack: Stack) -> float:
    """Waits, a bounded time, until nothing more will happen; how long that took. What is undone then, the audit tells."""
    began = time.monotonic()
    while _count(stack, UNRESTED) != 0 and time.monotonic() - began < REST_SECONDS_MAX:
        time.sleep(0.25)
    return time.monotonic() - began


def _count(stack: Stack, query: str, *parameters: int) -> int | None:
    """None while the database is away."""
    try:
        with psycopg.connect(stack.database_url, connect_timeout=2) as connection:
            ((number,),) = connection.execute(query.encode(), parameters).fetchall()
            return int(number)
    except psycopg.OperationalError:
        return None


def _workers(stack: Stack) -> int:
    return sum(one.invocation.function_name == "worker" for one in stack.dispatcher.running())


def _ask_why(url: str, ids: Iterable[UUID]) -> dict[UUID, str]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    reasons = {}
    for job_id in ids:
        connection.request("GET", f"/jobs/{job_id}/why")
        answer = json.loads(connection.getresponse().read())
        reasons[job_id] = " ".join(reason["detail"] for reason in answer.get("reasons", []))
    connection.close()
    return reasons


# ===== telling


def _figures(evidence: Evidence, chaos: Chaos, stack: Stack) -> dict[str, str]:
    runs = [run for of_job in evidence.runs.values() for run in of_job]
    cut = sum(run.ended is None for run in runs)
    freed, ran_again = recoveries(evidence)
    counts = stack.dispatcher.counts()
    return {
        "jobs": f"{len(evidence.jobs):,}: {_tally(Counter(job.status for job in evidence.jobs.values()))}",
        "deleted by retention": f"{sum(job.gone_at is not None for job in evidence.jobs.values()):,}",
        "requests": _requests(evidence),
        "runs": f"{len(runs):,}, of which {cut} were cut off",
        "deaths by reason": _tally(_deaths(evidence)),
        "letters": f"{evidence.letters.total():,} for {len(evidence.letters):,} jobs",
        "dependencies, series": f"{len(evidence.edges):,}, {len(evidence.series):,}",
        "worker processes ended": f"{len(evidence.exits):,}",
        "workers started, failed": f"{counts['worker']['started']:,}, {counts['worker']['failed']:,}",
        "schedulers started, failed": f"{counts['scheduler']['started']:,}, {counts['scheduler']['failed']:,}",
        "misfortunes": f"{chaos.number}: {_tally(chaos.struck)}",
        "runs of dangerous handlers": f"{_runs_of_dangerous(evidence):,}",
        "a cut run's job free": _spread(freed),
        "a cut run's job runs again": _spread(ran_again),
    }


def _runs_of_dangerous(evidence: Evidence) -> int:
    return sum(len(runs) for job_id, runs in evidence.runs.items() if evidence.jobs[job_id].type in DANGEROUS)


def _requests(evidence: Evidence) -> str:
    lost = [one for one in evidence.requests if one.answers[0] not in (200, 201)]
    never = sum(not one.ids for one in lost)
    stored = sum(not one.ids and one.key in evidence.keys for one in lost)
    return f"{len(evidence.requests):,}; {len(lost)} lost their first answer, {never} every one, of those {stored} are stored"


def recoveries(evidence: Evidence) -> tuple[list[float], list[float]]:
    """Of each run that was cut off, from the end of its process: seconds until its job was free, and until it ran again."""
    freed, ran_again = [], []
    for job_id, runs in evidence.runs.items():
        for run in runs:
            if run.ended is None and (exit_ := evidence.exits.get(run.process)):
                ended_at = exit_.dead_at + evidence.since_1970
                steps = [step.at.timestamp() for step in evidence.history[job_id] if step.was == "running"]
                freed += [at - ended_at for at in steps if at > ended_at][:1]
                ran_again += [later.started - exit_.dead_at for later in runs if later.started > exit_.dead_at][:1]
    return freed, ran_again


def _spread(seconds: list[float]) -> str:
    if not seconds:
        return "none"
    return f"median {median(seconds):.2f} s, longest {max(seconds):.2f} s, of {len(seconds)}"


def _deaths(evidence: Evidence) -> Counter[str]:
    return Counter(str(step.reason) for steps in evidence.history.values() for step in steps if step.is_death)


def _tally(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items())) or "none"


def _histories(evidence: Evidence, violations: list[Violation]) -> dict[UUID, list[str]]:
    """Of the first jobs concerned: more than that nobody reads."""
    named = dict.fromkeys(job_id for violation in violations for job_id in violation.jobs)
    return {job_id: _history(evidence, job_id) for job_id in list(named)[:HISTORIES_TOLD_MAX]}


def _history(evidence: Evidence, job_id: UUID) -> list[str]:
    lines = [str(evidence.jobs.get(job_id))]
    lines += [
        f"{step.at:%H:%M:%S.%f} #{step.seq} {step.was} -> {step.status}, attempt {step.attempt}, worker {step.worker}, {step.reason}"
        for step in evidence.history.get(job_id, [])
    ]
    for run in evidence.runs.get(job_id, []):
        end = (
            f"{run.how} at {run.ended:.3f}" if run.ended is not None else f"cut off: {evidence.exits.get(run.process)}"
        )
        lines.append(f"run {run.attempt} in {run.process} from {run.started:.3f}, {end}, alone: {run.alone}")
    return lines
