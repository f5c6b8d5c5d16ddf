"""What should be stored, in a few dozen lines of Python that share nothing with the SQL: the model of the model check."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from dilamme.domain.job import Claim

AGEING = timedelta(seconds=30)
MAX_ATTEMPTS = 3
BACKOFF_SECONDS = 10.0
LIVE, ENDED, FAILED = {"pending", "running"}, {"completed", "dead", "cancelled"}, {"dead", "cancelled"}


@dataclass
class Job:
    """A job as it should be."""

    id: UUID
    priority: int
    created_at: datetime
    slot: datetime
    ready_at: datetime
    policy: str
    most: int
    parents: set[UUID]
    series: UUID | None = None
    status: str = "pending"
    attempt: int = 0
    replayed: bool = False
    finished_at: datetime | None = None
    claim: Claim | None = None
    worker: UUID | None = None
    lease_ends_at: datetime | None = None

    def effective(self, now: datetime) -> int:
        """The priority after ageing."""
        return max(1, self.priority - (now - self.ready_at) // AGEING)

    @property
    def last(self) -> bool:
        """Would the next claim be its last?"""
        return self.attempt + 1 >= self.most


@dataclass
class Model:
    """All jobs, by id; each method is a step and leaves the model as the database should be."""

    now: datetime
    jobs: dict[UUID, Job] = field(default_factory=dict)
    intervals: dict[UUID, timedelta] = field(default_factory=dict)
    over: set[UUID] = field(default_factory=set)  # series that have ended
    deaths: list[UUID] = field(default_factory=list)
    expected: list[Job] = field(default_factory=list)  # occurrences that must have been stored, without their ids

    def unmet(self, job: Job) -> set[UUID]:
        """The dependencies that are not completed."""
        return {parent for parent in job.parents if self.jobs[parent].status != "completed"}

    def children(self, job_id: UUID) -> Iterator[Job]:
        """Who depends on it."""
        return (job for job in self.jobs.values() if job_id in job.parents)

    def line(self) -> list[Job]:
        """What can run, in the exact order."""
        ready = (job for job in self.jobs.values() if job.status == "pending" and not self.unmet(job))
        due = (job for job in ready if job.ready_at <= self.now)
        return sorted(due, key=lambda job: (job.effective(self.now), job.ready_at, job.created_at, job.id))

    def claimable(self, most: int, idle: bool) -> list[Job]:
        """What a claim must return: the head of the line, up to the first job that must run alone."""
        head = self.line()[:most]
        if head and head[0].last:
            return head[:1] if idle else []
        alone = next((place for place, job in enumerate(head) if job.last), len(head))
        return head[:alone]

    def start(self, job: Job, claim: Claim, worker: UUID, lease: timedelta) -> None:
        job.status, job.attempt, job.claim, job.worker = "running", job.attempt + 1, claim, worker
        job.lease_ends_at = self.now + lease

    def held(self, claim: Claim) -> Job | None:
        """The job, if the claim is still the one that holds it."""
        job = self.jobs.get(claim.id)
        return job if job is not None and job.claim is claim else None

    def settle(self, settled: Sequence[tuple[Job, str, float | None]]) -> None:
        """Ends claims together: (job, kind, delay in seconds), in the order in which one transaction takes the kinds."""
        for wanted in ("complete", "retry", "return", "bury"):
            for job, kind, delay in settled:
                if kind == wanted:
                    self._end_claim(job, kind, delay)

    def _end_claim(self, job: Job, kind: str, delay: float | None) -> None:
        job.claim = job.worker = job.lease_ends_at = None
        if kind == "complete":
            self._finish(job, "completed")
            for child in self.children(job.id):
                if child.status == "pending":
                    child.ready_at = max(child.ready_at, self.now)
        elif kind == "bury":
            self.deaths.append(job.id)
            self._finish(job, "dead")
            self._fail_children(job)
        else:
            job.status = "pending"
            job.attempt -= kind == "return"
            job.ready_at = job.ready_at if delay is None else self.now + timedelta(seconds=delay)

    def _finish(self, job: Job, status: str) -> None:
        open_before = self.unmet(job)
        job.status, job.finished_at = status, self.now
        if job.series is not None and job.series not in self.over and not job.replayed:
            self.expected.append(self._next(job, open_before))

    def _next(self, job: Job, parents: set[UUID]) -> Job:
        """The next occurrence: on the grid, the first slot in the future."""
        assert job.series is not None
        slot = job.slot + self.intervals[job.series]
        while slot <= self.now:
            slot += self.intervals[job.series]
        return Job(UUID(int=0), job.priority, self.now, slot, slot, job.policy, job.most, parents, job.series)

    def _fail_children(self, job: Job) -> None:
        for child in list(self.children(job.id)):
            if child.status == "pending" and child.policy == "cancel":
                child.status, child.finished_at = "cancelled", self.now
                if child.series is not None:
                    self.over.add(child.series)
                self._fail_children(child)

    def cancel(self, job: Job) -> None:
        self._finish(job, "cancelled")
        self._fail_children(job)

    def end_series(self, series: UUID) -> None:
        self.over.add(series)
        for job in [one for one in self.jobs.values() if one.series == series and one.status == "pending"]:
            self.cancel(job)

    def replay(self, job: Job) -> None:
        job.status, job.attempt, job.ready_at, job.finished_at, job.replayed = "pending", 0, self.now, None, True

    def prune(self, keep: dict[str, timedelta]) -> None:
        """Forgets what has ended long ago and has no living child, one status after the other."""
        for status in ("completed", "cancelled", "dead"):
            gone = {
                job.id
                for job in self.jobs.values()
                if job.status == status and job.finished_at is not None and job.finished_at <= self.now - keep[status]
                and not any(child.status in LIVE for child in self.children(job.id))
            }  # fmt: skip
            self.jobs = {job_id: job for job_id, job in self.jobs.items() if job_id not in gone}
            for job in self.jobs.values():
                job.parents -= gone
