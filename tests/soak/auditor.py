"""Holds the evidence of a soak against the invariants; shares no code with what it judges.

Each check yields its violations; `audit` runs them all.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from uuid import UUID

from tests.soak.evidence import Evidence, Job, Run, Step

ENDED = ("completed", "dead", "cancelled")
LIVE = ("pending", "running")
# Deaths that need no full number of attempts: the handler said so, or no worker knew the type for too long.
DEATHS_AT_ONCE = ("fail", "unknown_type")

CLOCKS_AGREE_SECONDS = 0.1  # the database's, by which jobs are freed, and the monotonic one of the runs


@dataclass(frozen=True)
class Violation:
    """``what`` was promised and not kept, in a sentence; the jobs it happened to."""

    what: str
    jobs: tuple[UUID, ...] = ()


Check = Callable[[Evidence], Iterator[Violation]]


def audit(evidence: Evidence) -> list[Violation]:
    """Every violation that the evidence shows."""
    return [violation for check in CHECKS for violation in check(evidence)]


# ===== nothing is lost


def accepted_jobs_are_stored(evidence: Evidence) -> Iterator[Violation]:
    for request in evidence.requests:
        answered = {tuple(ids) for ids in request.ids}
        if len(answered) > 1:
            yield Violation(f"the key {request.key} got different ids in two answers", tuple(request.ids[0]))
        for ids in answered:
            if missing := [job_id for job_id in ids if job_id not in evidence.jobs]:
                yield Violation(f"accepted under {request.key}, and not in the table", tuple(missing))


def requests_are_stored_entirely_or_not_at_all(evidence: Evidence) -> Iterator[Violation]:
    """Also those whose answer was lost."""
    by_key: dict[str | None, set[UUID]] = defaultdict(set)
    for job in evidence.jobs.values():
        by_key[job.key].add(job.id)
    for request in evidence.requests:
        stored, kept = by_key[request.key], evidence.keys.get(request.key, [])
        if len(stored) not in (0, request.jobs) or stored != set(kept):
            what = f"of {request.jobs} jobs under {request.key} {len(stored)} are stored, its key names {len(kept)}"
            yield Violation(what, tuple(sorted(stored)))
        may_be_refused = any(parent in evidence.jobs and evidence.jobs[parent].gone_at for parent in request.parents)
        if any(400 <= status < 500 for status in request.answers) and not may_be_refused:
            yield Violation(f"the valid request {request.key} was refused: {request.answers}")
    for job_id in by_key[None]:
        if evidence.jobs[job_id].series_id is None:
            yield Violation("in the table, and nobody asked for it", (job_id,))


def jobs_have_ended_or_wait_visibly(evidence: Evidence) -> Iterator[Violation]:
    parents = _parents(evidence)
    for job in evidence.jobs.values():
        if job.status in ENDED:
            continue
        if job.status == "running":
            late = job.lease_expires_at is not None and job.lease_expires_at <= evidence.now
            yield Violation("running past its lease" if late else "running in a system at rest", (job.id,))
            continue
        unmet = [parent for parent in parents[job.id] if evidence.jobs[parent].status != "completed"]
        if job.unmet != len(unmet):
            yield Violation(f"counts {job.unmet} unmet dependencies, and has {len(unmet)}", (job.id, *unmet))
        elif not unmet and job.ready_at <= evidence.now:
            yield Violation("ready, and nobody runs it", (job.id,))
        if not evidence.reasons_given.get(job.id):
            yield Violation("waits, and nobody says why", (job.id,))


def only_what_is_old_and_needed_by_nobody_is_deleted(evidence: Evidence) -> Iterator[Violation]:
    for job in evidence.jobs.values():
        if job.gone_at is None:
            continue
        kept = timedelta(seconds=evidence.kept_seconds)
        if job.status not in ENDED or job.finished_at is None or job.finished_at + kept > job.gone_at:
            yield Violation(f"deleted at {job.gone_at} as {job.status} since {job.finished_at}", (job.id,))
    for child, parent in evidence.edges:
        if (gone_seq := evidence.jobs[parent].gone_seq) is not None:
            before = [step for step in evidence.history.get(child, []) if step.seq < gone_seq]
            if not before or before[-1].status not in ENDED:
                yield Violation("a parent was deleted while its child was alive", (parent, child))


def failed_parents_take_their_children_along(evidence: Evidence) -> Iterator[Violation]:
    for child, parent in evidence.edges:
        waits = evidence.jobs[child].status == "pending" and evidence.jobs[child].cancelled_with_parents
        if waits and evidence.jobs[parent].status in ("dead", "cancelled"):
            yield Violation("was to be cancelled with its parent, and waits", (child, parent))


def confirmed_cancellations_hold(evidence: Evidence) -> Iterator[Violation]:
    for job_id in evidence.cancelled:
        if (job := evidence.jobs.get(job_id)) is None or job.status != "cancelled":
            yield Violation("its cancellation was confirmed, and it is not cancelled", (job_id,))
    for series_id in evidence.series_ended:
        if not evidence.series[series_id].ended:
            yield Violation(f"the end of series {series_id} was confirmed, and it has not ended")


def nothing_is_left_unsent(evidence: Evidence) -> Iterator[Violation]:
    for job_id in evidence.outbox:
        yield Violation("a letter about it is still in the outbox", (job_id,))


def slots_are_free(evidence: Evidence) -> Iterator[Violation]:
    for slot in evidence.slots_held:
        yield Violation(f"worker slot {slot} is held in a system at rest")


# ===== nothing runs twice at once, nor too often


def runs_do_not_overlap(evidence: Evidence) -> Iterator[Violation]:
    """By the kernel's lock; and by the clock: a run lasted at least until its end, or until its process was last seen alive."""
    for job_id, runs in evidence.runs.items():
        if not all(run.alone for run in runs):
            yield Violation("a run found another holding the job's lock", (job_id,))
        until = 0.0
        for run in runs:
            if run.started < until:
                yield Violation(f"runs overlap by {until - run.started:.3f} s", (job_id,))
            lasted = _lasted_until(evidence, run)
            if lasted is None:
                yield Violation("a run has no end, and its process was not seen to end", (job_id,))
            until = max(until, lasted or 0.0)


def jobs_are_taken_only_from_the_dead(evidence: Evidence) -> Iterator[Violation]:
    """What was freed as lost had no run that went on: behind a long line, a second run may come too late to meet it."""
    for job_id, steps in evidence.history.items():
        for step in steps:
            if step.was == "running" and step.status in ("pending", "dead") and step.reason == "worker_lost":
                at = step.at.timestamp() - evidence.since_1970
                before = [
                    run for run in evidence.runs.get(job_id, []) if run.attempt == step.attempt and run.started < at
                ]
                until = _lasted_until(evidence, before[-1]) if before else None
                if not step.gave_back and until is not None and until > at + CLOCKS_AGREE_SECONDS:
                    yield Violation(f"taken from a run that went on for {until - at:.3f} s", (job_id,))


def _lasted_until(evidence: Evidence, run: Run) -> float | None:
    if run.ended is not None:
        return run.ended
    exit_ = evidence.exits.get(run.process)
    return max(run.started, exit_.alive_at) if exit_ else None


def attempts_stay_within_their_number(evidence: Evidence) -> Iterator[Violation]:
    for job_id, steps in evidence.history.items():
        most = evidence.jobs[job_id].max_attempts
        if any(step.attempt > most for step in steps):
            yield Violation(f"claimed more than {most} times", (job_id,))
    for job_id, runs in evidence.runs.items():
        if any(run.attempt > evidence.jobs[job_id].max_attempts for run in runs):
            yield Violation("ran beyond its attempts", (job_id,))


def runs_follow_claims(evidence: Evidence) -> Iterator[Violation]:
    """Each attempt is run at most as often as it was claimed, which is more than once only after a hand-back or a replay."""
    for job_id, runs in evidence.runs.items():
        claims = Counter(step.attempt for step in evidence.history.get(job_id, []) if step.is_claim)
        ran = Counter(run.attempt for run in runs)
        if ran - claims:
            yield Violation(f"attempts ran that nobody claimed: {dict(ran - claims)}", (job_id,))


def deaths_have_used_all_attempts(evidence: Evidence) -> Iterator[Violation]:
    for job_id, steps in evidence.history.items():
        claims = 0
        for step in steps:
            claims += step.is_claim - step.gave_back
            if step.is_death and step.reason not in DEATHS_AT_ONCE and claims != evidence.jobs[job_id].max_attempts:
                most = evidence.jobs[job_id].max_attempts
                yield Violation(f"dead by {step.reason} after {claims} claims of {most}", (job_id,))
            if step.was == "dead":
                claims = 0


def deaths_are_on_the_queue(evidence: Evidence) -> Iterator[Violation]:
    for job_id, steps in evidence.history.items():
        deaths = sum(step.is_death for step in steps)
        if evidence.letters[job_id] < deaths:
            yield Violation(f"died {deaths} times, announced {evidence.letters[job_id]} times", (job_id,))


def history_ends_where_the_table_is(evidence: Evidence) -> Iterator[Violation]:
    """Else the history has gaps, and what was found in it proves little."""
    for job in evidence.jobs.values():
        steps = evidence.history.get(job.id)
        if not steps or steps[-1].status != job.status:
            yield Violation("its history does not end where its row is", (job.id,))
        elif any(later.was != earlier.status for earlier, later in pairwise(steps)):
            yield Violation("its history has a gap", (job.id,))


def ended_jobs_stay_ended(evidence: Evidence) -> Iterator[Violation]:
    """All but the dead, which may be replayed."""
    for job_id, steps in evidence.history.items():
        if any(step.was in ("completed", "cancelled") for step in steps):
            yield Violation("changed after it had ended", (job_id,))


def completions_come_from_a_run(evidence: Evidence) -> Iterator[Violation]:
    """Of the attempt that the row names: a result that came late, from an earlier one, must have been dropped."""
    for job in evidence.jobs.values():
        returned = [run.attempt for run in evidence.runs.get(job.id, []) if run.how == "returned"]
        if job.status == "completed" and job.attempt not in returned:
            yield Violation(f"completed in attempt {job.attempt}, and only {returned} returned", (job.id,))


# ===== dependencies


def children_start_after_their_parents(evidence: Evidence) -> Iterator[Violation]:
    for child, parent in evidence.edges:
        claims = [step.seq for step in evidence.history.get(child, []) if step.is_claim]
        runs = evidence.runs.get(child, [])
        if not claims and not runs:
            continue
        done = [step.seq for step in evidence.history.get(parent, []) if step.status == "completed"]
        returned = [
            run.ended for run in evidence.runs.get(parent, []) if run.how == "returned" and run.ended is not None
        ]
        if not done or (claims and claims[0] < done[0]):
            yield Violation("claimed before a job that it depends on was completed", (child, parent))
        if not returned or (runs and runs[0].started < returned[0]):
            yield Violation("ran before a job that it depends on had returned", (child, parent))


def _parents(evidence: Evidence) -> dict[UUID, list[UUID]]:
    parents: dict[UUID, list[UUID]] = defaultdict(list)
    for child, parent in evidence.edges:
        parents[child].append(parent)
    return parents


# ===== series


def series_keep_their_grid(evidence: Evidence) -> Iterator[Violation]:
    for series_id, jobs in _occurrences(evidence).items():
        interval = evidence.series[series_id].interval_seconds
        slots = Counter(job.scheduled_at for job in jobs)
        if doubled := [job.id for job in jobs if slots[job.scheduled_at] > 1]:
            yield Violation(f"series {series_id} has two occurrences in one slot", tuple(doubled))
        first = min(slots)
        if off := [job.id for job in jobs if (job.scheduled_at - first) % timedelta(seconds=interval)]:
            yield Violation(f"series {series_id} is off its grid of {interval} s", tuple(off))


def series_have_one_live_occurrence(evidence: Evidence) -> Iterator[Violation]:
    """At no time more than one; at the end exactly one, unless the series has ended: then none."""
    for series_id, jobs in _occurrences(evidence).items():
        alive = [job.id for job in jobs if job.status in LIVE and not job.replayed]
        wanted = 0 if evidence.series[series_id].ended else 1
        if len(alive) != wanted:
            yield Violation(f"series {series_id} has {len(alive)} live occurrences, not {wanted}", tuple(alive))
        if most := _most_alive_at_once(evidence, jobs):
            yield Violation(f"series {series_id} had {len(most)} live occurrences at once", most)


def _most_alive_at_once(evidence: Evidence, jobs: list[Job]) -> tuple[UUID, ...]:
    steps: list[tuple[int, UUID, Step]] = [
        (step.seq, job.id, step) for job in jobs for step in evidence.history.get(job.id, [])
    ]
    alive: set[UUID] = set()
    for _, job_id, step in sorted(steps, key=lambda one: one[0]):
        if step.status not in LIVE:
            alive.discard(job_id)
        elif step.was is None:  # one that is replayed stands beside the chain
            alive.add(job_id)
        if len(alive) > 1:
            return tuple(sorted(alive))
    return ()


def _occurrences(evidence: Evidence) -> dict[UUID, list[Job]]:
    occurrences: dict[UUID, list[Job]] = defaultdict(list)
    for job in evidence.jobs.values():
        if job.series_id is not None:
            occurrences[job.series_id].append(job)
    return occurrences


CHECKS: tuple[Check, ...] = (
    accepted_jobs_are_stored,
    requests_are_stored_entirely_or_not_at_all,
    jobs_have_ended_or_wait_visibly,
    only_what_is_old_and_needed_by_nobody_is_deleted,
    failed_parents_take_their_children_along,
    confirmed_cancellations_hold,
    nothing_is_left_unsent,
    slots_are_free,
    runs_do_not_overlap,
    jobs_are_taken_only_from_the_dead,
    attempts_stay_within_their_number,
    runs_follow_claims,
    deaths_have_used_all_attempts,
    deaths_are_on_the_queue,
    history_ends_where_the_table_is,
    ended_jobs_stay_ended,
    completions_come_from_a_run,
    children_start_after_their_parents,
    series_keep_their_grid,
    series_have_one_live_occurrence,
)
