"""A model check: random steps in random order, on PostgreSQL and in the model, which must agree after each.

Posting, claiming, settling (also late, also twice), crashes, leases that run out, cancelling, replaying, retention, and a
clock that moves between them. The examples are the same at every run.
"""

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from psycopg.rows import dict_row

from dilamme.domain.errors import Conflict
from dilamme.domain.job import Claim, Reason
from dilamme.domain.outcome import Bury, Complete, Outcome, RetryLater, Return, after_failure
from dilamme.domain.retry import Backoff
from dilamme.scheduler.maintenance import prune, sweep
from dilamme.settings import Settings
from dilamme.store.connection import connect
from dilamme.testing.clock import START, Clock
from dilamme.usecases.cancel import cancel_job, cancel_series
from dilamme.usecases.replay import replay_job
from dilamme.usecases.rescue import expire, rescue_worker
from tests.integration.model import BACKOFF_SECONDS, FAILED, MAX_ATTEMPTS, Job, Model
from tests.support.entrance import Entrance
from tests.support.jobs import claim, end_all, put, row

TABLES = ["outbox", "job_dependencies", "jobs", "idempotency_keys", "series"]
PICK = st.integers(0, 99)
WORKERS = 3
SPEC = st.fixed_dictionaries(
    {
        "priority": st.integers(1, 3),
        "delay": st.sampled_from([None, None, None, -60, 0, 1, 30]),
        "most": st.sampled_from([None, None, 1, 2]),
        "parents": st.lists(PICK, max_size=2),
        "policy": st.sampled_from(["wait", "cancel"]),
        "interval": st.sampled_from([None, None, 10, 60]),
        "key": st.sampled_from(["", "", "", "a", "b"]),
    }
)


def some(status: str) -> Callable[[Any], bool]:
    """Is a job in this status?"""
    return lambda machine: any(job.status == status for job in machine.model.jobs.values())


class Stage:
    """One database for all examples, entered as each function; each example leaves nothing behind."""

    def __init__(self, entrance: Entrance, settings: Settings) -> None:
        self.settings = settings
        self.owner = connect(entrance.superuser_url)
        self.api, self.scheduler, self.worker, self.rescue = (
            connect(entrance.url(function)) for function in ("api", "scheduler", "worker", "rescue")
        )
        self.clock = Clock(self.owner, stopped_at=START)

    def empty(self) -> None:
        for table in TABLES:
            self.owner.execute(f"DELETE FROM dilamme.{table}")
        self.clock.set(START)

    def close(self) -> None:
        for connection in (self.owner, self.api, self.scheduler, self.worker, self.rescue):
            connection.close()

    def read(self, statement: str) -> list[dict[str, Any]]:
        with self.owner.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(statement).fetchall()


class Interleavings(RuleBasedStateMachine):
    """The steps; what the database should hold then says the model."""

    stage: Stage

    def __init__(self) -> None:
        super().__init__()
        self.model = Model(START)
        self.claims: list[Claim] = []  # in workers' hands, the lost ones too: they do not know
        self.workers = [uuid4() for _ in range(WORKERS)]
        self.gone: list[UUID] = []
        self.keys: dict[str, tuple[UUID, dict[str, Any]]] = {}

    def teardown(self) -> None:
        self.stage.empty()

    # ===== posting =====

    @initialize(population=st.lists(SPEC, min_size=3, max_size=8))
    def populate(self, population: list[dict[str, Any]]) -> None:
        for spec in population:
            self.post(**spec)

    @rule(spec=SPEC)
    def post_another(self, spec: dict[str, Any]) -> None:
        self.post(**spec)

    def post(
        self,
        priority: int,
        delay: int | None,
        most: int | None,
        parents: list[int],
        policy: str,
        interval: int | None,
        key: str,
    ) -> None:
        if key in self.keys:
            self._post_again(key)
            return
        now = self.model.now
        at = None if delay is None else now + timedelta(seconds=delay)
        wanted = {self._pick(self.model.jobs, number).id for number in parents if self.model.jobs}
        fields = {"priority": priority, "scheduled_at": at, "max_attempts": most, "dependency_ids": sorted(wanted),
                  "on_dependency_failure": policy, "interval_seconds": interval}  # fmt: skip
        job_id = put(self.stage.api, key or None, **fields)
        if key:
            self.keys[key] = (job_id, fields)
        slot = at or now
        job = Job(job_id, priority, now, slot, max(slot, now), policy, most or MAX_ATTEMPTS, wanted)
        self.model.jobs[job_id] = job
        if policy == "cancel" and any(self.model.jobs[parent].status in FAILED for parent in wanted):
            job.status, job.finished_at = "cancelled", now
        elif interval is not None:
            job.series = row(self.stage.owner, job_id)["series_id"]
            assert job.series is not None
            self.model.intervals[job.series] = timedelta(seconds=interval)

    def _post_again(self, key: str) -> None:
        """The same key and body: the same job, nothing new."""
        job_id, fields = self.keys[key]
        assert put(self.stage.api, key, **fields) == job_id

    # ===== running =====

    @precondition(some("pending"))
    @rule(
        worker=st.integers(0, WORKERS - 1),
        limit=st.integers(1, 4),
        idle=st.sampled_from([True, True, False]),
        lease=st.sampled_from([5, 310]),
        later=st.sampled_from([0, 0, 1, 30, 60]),
    )
    def take(self, worker: int, limit: int, idle: bool, lease: int, later: int) -> None:
        """A claim returns exactly the head of the line, in order."""
        self.wait(later)
        wanted = self.model.claimable(limit, idle)
        token = self.workers[worker]
        claimed = claim(self.stage.worker, limit, reach=1000, idle=idle, lease_seconds=lease, worker=token)
        assert [one.id for one in claimed] == [job.id for job in wanted]
        for one, job in zip(claimed, wanted, strict=True):
            assert (one.attempt, one.max_attempts, one.last_attempt) == (job.attempt + 1, job.most, job.last)
            self.model.start(job, one, token, timedelta(seconds=lease))
        self.claims += claimed

    @precondition(lambda self: self.claims)
    @rule(
        ends=st.lists(
            st.tuples(PICK, st.sampled_from(["complete"] * 4 + ["fail", "ask", "snooze", "return", "give_up"])),
            min_size=1,
            max_size=3,
        ),
        again=st.booleans(),
    )
    def end(self, ends: list[tuple[int, str]], again: bool) -> None:
        """Claims end, those that were lost meanwhile too: they change nothing."""
        chosen = {one.id: (one, how) for number, how in ends for one in [self.claims[number % len(self.claims)]]}
        settled = [(one, _outcome(one, how)) for one, how in chosen.values()]
        held = [(job, *_kind(outcome)) for one, outcome in settled if (job := self.model.held(one)) is not None]
        assert end_all(self.stage.worker, settled).done == {job.id for job, *_ in held}
        self.model.settle(held)
        if not again:  # or else they stay in hand, to be settled once more
            self.claims = [one for one in self.claims if one.id not in chosen]

    @precondition(lambda self: self._usurped())
    @rule(number=PICK, how=st.sampled_from(["complete", "fail", "return", "give_up"]))
    def end_what_another_runs(self, number: int, how: str) -> None:
        """A claim that was lost, or handed back, ends once more while the job runs under another."""
        usurped = self._usurped()
        one = usurped[number % len(usurped)]
        assert not end_all(self.stage.worker, [(one, _outcome(one, how))]).done

    def _usurped(self) -> list[Claim]:
        running = {job.id: job for job in self.model.jobs.values() if job.status == "running"}
        return [one for one in self.claims if one.id in running and running[one.id].claim is not one]

    take_more = take  # twice as often as the rest
    end_more = end

    # ===== losing =====

    @precondition(some("running"))
    @rule(worker=st.integers(0, WORKERS - 1), late=PICK)
    def crash(self, worker: int, late: int) -> None:
        """The platform reports a worker lost, and another again that was lost before; a new one takes its place."""
        if self.gone:
            again = self.gone[late % len(self.gone)]
            assert not rescue_worker(self.stage.rescue, self.stage.settings, again).done
        lost = [job for job in self.model.jobs.values() if job.worker == self.workers[worker]]
        done = rescue_worker(self.stage.rescue, self.stage.settings, self.workers[worker]).done
        assert done == {job.id for job in lost}
        # Those whose time was over have failed by it, and do not run again at once.
        timeout = timedelta(seconds=self.stage.settings.job_timeout_seconds)
        self._lose(lost, {job.id for job in lost if job.claim and self.model.now - job.claim.started_at >= timeout})
        self.gone.append(self.workers[worker])
        self.workers[worker] = uuid4()

    @precondition(some("running"))
    @rule()
    def collect_leases(self) -> None:
        lost = [job for job in self.model.jobs.values() if job.lease_ends_at and job.lease_ends_at <= self.model.now]
        assert expire(self.stage.scheduler, self.stage.settings).done == {job.id for job in lost}
        self._lose(lost)

    def _lose(self, lost: Sequence[Job], overdue: AbstractSet[UUID] = frozenset()) -> None:
        self.model.settle([(job, "bury" if job.attempt >= job.most else "retry", 0.0) for job in lost])
        for job in lost:
            if job.status == "pending" and (
                job.attempt > 1 or job.id in overdue
            ):  # the backoff is random: within its half
                whole = timedelta(seconds=BACKOFF_SECONDS * 2 ** (job.attempt - 1))
                stored = row(self.stage.owner, job.id)["ready_at"]
                assert self.model.now + whole / 2 <= stored <= self.model.now + whole
                job.ready_at = stored

    # ===== revising =====

    @precondition(some("pending"))
    @rule(number=PICK, whole_series=st.booleans())
    def cancel(self, number: int, whole_series: bool) -> None:
        job = self._pick(self.model.jobs, number)
        if whole_series and job.series is not None:
            assert cancel_series(self.stage.api, job.series) is (job.series not in self.model.over)
            self.model.end_series(job.series)
        elif job.status in ("pending", "cancelled"):
            cancel_job(self.stage.api, job.id)
            if job.status == "pending":
                self.model.cancel(job)
        else:
            with pytest.raises(Conflict):
                cancel_job(self.stage.api, job.id)

    @precondition(lambda self: any(job.status == "dead" or job.replayed for job in self.model.jobs.values()))
    @rule(number=PICK)
    def replay(self, number: int) -> None:
        jobs = [job for job in self.model.jobs.values() if job.status == "dead" or job.replayed]
        job = jobs[number % len(jobs)]
        assert replay_job(self.stage.api, job.id) is (job.status == "dead")
        if job.status == "dead":
            self.model.replay(job)

    # ===== time, and what it brings =====

    @rule(seconds=st.sampled_from([0.000001, 1, 7.5, 29, 30, 30, 60, 400]))
    def wait(self, seconds: float) -> None:
        self.stage.clock.advance(seconds)
        self.model.now = self.stage.clock.now
        if seconds == 400:
            self._retire()

    def _retire(self) -> None:
        before = len(self.model.jobs)
        keep = {
            "completed": self.stage.settings.completed_retention_seconds,
            "dead": self.stage.settings.dead_retention_seconds,
        }
        self.model.prune(
            {
                status: timedelta(seconds=keep.get(status, keep["completed"]))
                for status in ("completed", "cancelled", "dead")
            }
        )
        assert prune(self.stage.scheduler, self.stage.settings) == before - len(self.model.jobs)
        self.keys = {key: kept for key, kept in self.keys.items() if kept[0] in self.model.jobs}

    # ===== what must be true after each step =====

    @invariant()
    def everything_is_as_the_model_says(self) -> None:
        stored = {one["id"]: one for one in self.stage.read("SELECT * FROM dilamme.jobs")}
        self._adopt([one for job_id, one in stored.items() if job_id not in self.model.jobs])
        assert stored.keys() == self.model.jobs.keys()
        for job_id, one in stored.items():
            job = self.model.jobs[job_id]
            assert {name: one[name] for name in STORED} == {name: read(job) for name, read in STORED.items()}, job
            assert job.status != "pending" or one["unmet_dependencies"] == len(self.model.unmet(job))
            assert one["attempt"] <= job.most
        edges = {
            (one["child_id"], one["parent_id"]) for one in self.stage.read("SELECT * FROM dilamme.job_dependencies")
        }
        assert edges == {(job.id, parent) for job in self.model.jobs.values() for parent in job.parents}

    def _adopt(self, fresh: Sequence[dict[str, Any]]) -> None:
        """Occurrences that are new must be those that the model expects; it does not know their ids."""
        assert sorted((one["series_id"], one["scheduled_at"]) for one in fresh) == sorted(
            (job.series, job.slot) for job in self.model.expected if job.series is not None
        )
        for one in fresh:
            (job,) = [job for job in self.model.expected if job.series == one["series_id"]]
            job.id = one["id"]
            self.model.jobs[job.id] = job
        self.model.expected.clear()

    @invariant()
    def no_job_runs_whose_dependencies_have_not_completed(self) -> None:
        assert not self.stage.read(
            "SELECT FROM dilamme.jobs AS child JOIN dilamme.job_dependencies AS edge ON edge.child_id = child.id"
            " JOIN dilamme.jobs AS parent ON parent.id = edge.parent_id"
            " WHERE child.status IN ('running', 'completed', 'dead') AND parent.status <> 'completed'"
        )

    @invariant()
    def a_series_that_has_not_ended_has_one_live_occurrence(self) -> None:
        for one in self.stage.read(
            "SELECT series.id, ended_at, (SELECT count(*) FROM dilamme.jobs WHERE series_id = series.id"
            " AND status IN ('pending', 'running') AND NOT replayed) AS live FROM dilamme.series"
        ):
            assert (one["ended_at"] is not None) is (one["id"] in self.model.over)
            assert one["live"] == 1 if one["ended_at"] is None else one["live"] <= 1

    @invariant()
    def every_death_is_announced_once(self) -> None:
        letters = [one["job_id"] for one in self.stage.read("SELECT job_id FROM dilamme.outbox")]
        assert sorted(letters) == sorted(self.model.deaths)

    @invariant()
    def no_counter_disagrees_with_its_parents(self) -> None:
        assert sweep(self.stage.scheduler, 0) == 0

    def _pick(self, jobs: dict[UUID, Job], number: int) -> Job:
        return list(jobs.values())[number % len(jobs)]


STORED: dict[str, Callable[[Job], Any]] = {
    "status": lambda job: job.status,
    "attempt": lambda job: job.attempt,
    "priority": lambda job: job.priority,
    "created_at": lambda job: job.created_at,
    "scheduled_at": lambda job: job.slot,
    "ready_at": lambda job: job.ready_at,
    "finished_at": lambda job: job.finished_at,
    "lease_expires_at": lambda job: job.lease_ends_at,
    "token": lambda job: job.claim and job.claim.token,
    "worker": lambda job: job.worker,
    "series_id": lambda job: job.series,
    "replayed": lambda job: job.replayed,
}


def _outcome(one: Claim, how: str) -> Outcome:
    match how:
        case "complete":
            return Complete('"done"')
        case "fail":
            return after_failure(one, Reason.ERROR, "as asked for", Backoff(BACKOFF_SECONDS, 3600), rand=0.5)
        case "ask":
            return after_failure(
                one, Reason.RETRY, "as asked for", Backoff(BACKOFF_SECONDS, 3600), 0.5, after_seconds=1.0
            )
        case "give_up":
            return Bury(Reason.FAIL, "as asked for")
        case _:
            return Return(5.0 if how == "snooze" else None)


def _kind(outcome: Outcome) -> tuple[str, float | None]:
    match outcome:
        case RetryLater():
            return "retry", outcome.delay_seconds
        case Return():
            return "return", outcome.delay_seconds
        case _:
            return ("complete" if isinstance(outcome, Complete) else "bury"), None


@pytest.fixture
def stage(entrance: Entrance, settings: Settings) -> Iterator[Stage]:
    quick = settings.model_copy(update={"completed_retention_seconds": 300.0, "dead_retention_seconds": 900.0})
    with closing(Stage(entrance, quick)) as stage:
        yield stage


@pytest.mark.timeout(300)
def test_the_database_agrees_with_the_model_after_every_step(stage: Stage) -> None:
    machine = type("Staged", (Interleavings,), {"stage": stage})
    run_state_machine_as_test(
        machine,
        settings=settings(
            derandomize=True, database=None, deadline=None, max_examples=80, stateful_step_count=40,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],  # a failure is told as it was found: to shrink it would take minutes
        ),
    )  # fmt: skip
