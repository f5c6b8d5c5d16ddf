"""The thread pool: jobs run in order, and the loop can count them and take them back."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from queue import SimpleQueue
from typing import Any
from uuid import UUID

import pytest

from dilamme.domain.outcome import Complete, Outcome
from dilamme.handlers.registry import JobType
from dilamme.worker.thread_pool import Done, Execute, Question, RunningJob, ThreadPool
from tests.support.waiting import wait_until
from tests.unit.claims import claim

PATIENCE_SECONDS = 30.0  # of a test for what must happen; nothing waits this long unless it is broken
ECHO = JobType("echo", lambda payload, context: payload)


def job(number: int, claimed_at: float = 0.0) -> RunningJob:
    """A job for the job of this number."""
    return RunningJob(claim(id=UUID(int=number)), ECHO, claimed_at)


def number_of(one: RunningJob) -> int:
    """The job's number."""
    return one.claim.id.int


def echo(one: RunningJob, resolve: Callable[[Any], Any]) -> Outcome:
    """Ends with the job's number as its result."""
    return Complete(str(number_of(one)))


class Gate:
    """An execution that reports its start and waits for its leave."""

    def __init__(self) -> None:
        self.started: SimpleQueue[int] = SimpleQueue()
        self._leaves: dict[int, threading.Event] = {}

    def __call__(self, one: RunningJob, resolve: Callable[[Any], Any]) -> Outcome:
        leave = self._leaves.setdefault(number_of(one), threading.Event())
        self.started.put(number_of(one))
        assert leave.wait(PATIENCE_SECONDS)
        return echo(one, resolve)

    def start(self) -> int:
        """The number of the job that has started next."""
        return self.started.get(timeout=PATIENCE_SECONDS)

    def let_go(self, *numbers: int) -> None:
        """Lets jobs end, whether they have started or not."""
        for number in numbers:
            self._leaves.setdefault(number, threading.Event()).set()


@contextmanager
def working(execute: Execute, concurrency: int = 2) -> Iterator[ThreadPool]:
    """A pool at work, whose runners have gone home in the end."""
    pool = ThreadPool(concurrency, execute)
    inline = [threading.Thread(target=pool.run, daemon=True)] if concurrency == 1 else []
    for thread in inline:
        thread.start()
    yield pool
    pool.close()
    for thread in (*inline, *pool.runners):
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


def collect(pool: ThreadPool, count: int) -> list[Done]:
    """What has been done, once it is as much as this."""
    done: list[Done] = []
    while len(done) < count:
        fresh = pool.collect(PATIENCE_SECONDS)
        assert fresh, "nothing happened"
        done += fresh
    return done


def test_every_job_is_executed_once_and_collected_once() -> None:
    with working(echo, concurrency=4) as pool:
        pool.add([job(number) for number in range(100)])
        done = collect(pool, 100)
        assert sorted((number_of(one), outcome) for one, outcome in done) == [
            (number, Complete(str(number))) for number in range(100)
        ]
        assert pool.collect(0) == []
        assert pool.jobs() == []


def test_a_runner_takes_jobs_in_the_order_of_the_line() -> None:
    with working(echo, concurrency=1) as pool:
        pool.add([job(3), job(1)])
        pool.add([job(2)])
        assert [number_of(one) for one, _ in collect(pool, 3)] == [3, 1, 2]


def test_as_many_jobs_run_at_once_as_there_are_runners_and_no_more() -> None:
    gate = Gate()
    with working(gate, concurrency=2) as pool:
        pool.add([job(number) for number in (1, 2, 3)])
        assert {gate.start(), gate.start()} == {1, 2}
        assert (pool.waiting, pool.in_hand) == (1, 3)
        gate.let_go(1)
        assert gate.start() == 3
        gate.let_go(2, 3)
        collect(pool, 3)
        assert (pool.waiting, pool.in_hand) == (0, 0)


def test_a_runner_comes_for_a_job_that_none_waits_for_and_no_other() -> None:
    gate = Gate()
    with working(gate, concurrency=3) as pool:
        assert pool.runners == []
        for number in (1, 2):
            pool.add([job(number)])
            gate.let_go(number)
            assert gate.start() == number
            collect(pool, 1)
            wait_until(lambda: pool._runners_waiting)
        assert len(pool.runners) == 1
        pool.add([job(number) for number in (3, 4, 5, 6)])
        assert {gate.start() for _ in range(3)} == {3, 4, 5}
        assert len(pool.runners) == 3
        gate.let_go(3, 4, 5, 6)


def test_what_is_done_is_in_hand_until_it_is_collected() -> None:
    gate = Gate()
    with working(gate, concurrency=1) as pool:
        pool.add([job(1), job(2)])
        gate.let_go(1)
        assert [gate.start(), gate.start()] == [1, 2]
        assert pool.in_hand == 2
        assert {number_of(one) for one in pool.jobs()} == {1, 2}
        assert [number_of(one) for one, _ in pool.collect(PATIENCE_SECONDS)] == [1]
        assert pool.in_hand == 1
        gate.let_go(2)


def test_collecting_does_not_wait_where_nothing_happens_in_no_time() -> None:
    assert ThreadPool(1, echo).collect(0.0) == []


def test_a_job_that_has_waited_too_long_is_taken_out_of_the_line_and_never_starts() -> None:
    gate = Gate()
    with working(gate, concurrency=1) as pool:
        pool.add([job(1, claimed_at=10.0)])
        assert gate.start() == 1
        pool.add([job(2, claimed_at=20.0), job(3, claimed_at=30.0), job(4, claimed_at=20.0)])
        assert [number_of(one) for one in pool.take_stale(claimed_before=30.0)] == [2, 4]
        assert pool.take_stale(claimed_before=30.0) == []
        assert pool.oldest_claimed_at() == 30.0
        gate.let_go(1, 3)
        assert [number_of(one) for one, _ in collect(pool, 2)] == [1, 3]


class Line(deque[RunningJob]):
    """A line to which something happens before jobs are put back into it."""

    meanwhile: Callable[[], None]

    def extend(self, jobs: Iterable[RunningJob]) -> None:
        kept = list(jobs)
        self.meanwhile()
        super().extend(kept)


def test_a_runner_that_looked_while_jobs_were_sorted_out_hears_of_those_that_stay() -> None:
    gate = Gate()
    with working(gate, concurrency=1) as pool:
        pool.add([job(1, claimed_at=10.0)])
        assert gate.start() == 1
        pool.add([job(2, claimed_at=10.0), job(3, claimed_at=30.0)])
        pool._queue = Line(pool._queue)

        def let_the_runner_find_nothing() -> None:
            gate.let_go(1, 3)
            wait_until(lambda: pool._runners_waiting)

        pool._queue.meanwhile = let_the_runner_find_nothing
        assert [number_of(one) for one in pool.take_stale(claimed_before=20.0)] == [2]
        assert [number_of(one) for one, _ in collect(pool, 2)] == [1, 3]


def test_the_first_in_line_was_claimed_longest_ago_and_an_empty_line_has_none() -> None:
    pool = ThreadPool(1, echo)
    assert pool.oldest_claimed_at() == float("inf")
    pool.add([job(1, claimed_at=10.0), job(2, claimed_at=20.0)])
    assert pool.oldest_claimed_at() == 10.0


def test_a_handler_past_its_time_is_given_up_and_what_it_returns_is_ignored() -> None:
    gate = Gate()
    with working(gate, concurrency=1) as pool:
        late, fine = job(1), job(2)
        late.ends_by = 100.0
        pool.add([late, fine])
        assert gate.start() == 1
        assert pool.first_deadline() == 100.0
        assert pool.abandon_overdue(now=99.9) == []
        assert pool.abandon_overdue(now=100.0) == [late]
        assert pool.abandon_overdue(now=100.0) == []
        assert late.abandoned
        assert (pool.in_hand, pool.first_deadline()) == (1, float("inf"))
        assert late in pool.jobs()
        gate.let_go(1, 2)
        assert [one for one, _ in collect(pool, 1)] == [fine]


def test_a_job_without_a_limit_is_never_given_up() -> None:
    gate = Gate()
    with working(gate, concurrency=1) as pool:
        pool.add([job(1)])
        gate.start()
        assert pool.abandon_overdue(now=1e300) == []
        gate.let_go(1)
        collect(pool, 1)


def test_runners_that_are_stuck_or_given_up_are_not_nimble() -> None:
    gate = Gate()
    with working(gate, concurrency=3) as pool:
        assert pool.available_runners(started_after=0.0) == 3
        stuck, overdue = job(1), job(2)
        overdue.ends_by = 100.0
        pool.add([stuck, overdue])
        assert {gate.start(), gate.start()} == {1, 2}
        assert pool.available_runners(started_after=0.0) == 3
        assert pool.available_runners(started_after=float("inf")) == 1
        pool.abandon_overdue(now=100.0)
        assert pool.available_runners(started_after=0.0) == 2
        gate.let_go(1, 2)
        collect(pool, 1)


def test_how_long_a_job_took_is_known_when_it_is_collected() -> None:
    with working(echo) as pool:
        pool.add([job(1)])
        ((one, _),) = collect(pool, 1)
        assert one.started_at > 0
        assert one.seconds >= 0


def test_a_closed_crew_finishes_its_line_before_its_runners_leave() -> None:
    gate = Gate()
    with working(gate, concurrency=1) as pool:
        pool.add([job(1), job(2)])
        pool.close()
        gate.let_go(1, 2)
        assert len(collect(pool, 2)) == 2


def test_with_a_concurrency_of_one_handlers_run_in_the_thread_that_calls_work() -> None:
    where: list[threading.Thread] = []

    def execute(one: RunningJob, resolve: Callable[[Any], Any]) -> Outcome:
        where.append(threading.current_thread())
        return Complete(None)

    pool = ThreadPool(1, execute)
    pool.add([job(1), job(2)])
    pool.close()
    pool.run()
    assert where == [threading.current_thread()] * 2


def test_async_handlers_are_awaited_on_an_event_loop_of_their_runners_own() -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    async def handler() -> str:
        loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return "awaited"

    pool = ThreadPool(1, lambda one, resolve: Complete(resolve(handler())))
    pool.add([job(1), job(2)])
    pool.close()
    pool.run()
    assert [outcome for _, outcome in pool.collect(0)] == [Complete("awaited")] * 2
    assert loops[0] is loops[1]


def test_a_sync_handler_may_put_together_what_is_awaited() -> None:
    """Which needs the thread's event loop before anything runs on it."""

    async def part(number: int) -> int:
        return number

    pool = ThreadPool(1, lambda one, resolve: Complete(str(resolve(asyncio.gather(part(1), part(2))))))
    pool.add([job(1)])
    pool.close()
    pool.run()
    assert [outcome for _, outcome in pool.collect(0)] == [Complete("[1, 2]")]


def ended(*handlers: Callable[[], Any]) -> list[Any]:
    """What calling handlers comes to, one after the other in the thread of one runner: a result, or an exception."""
    results: list[Any] = []

    def execute(one: RunningJob, resolve: Callable[[Any], Any]) -> Outcome:
        try:
            results.append(resolve(handlers[number_of(one)]()))
        except BaseException as error:
            results.append(error)
        return Complete(None)

    pool = ThreadPool(1, execute)
    pool.add([job(number) for number in range(len(handlers))])
    pool.close()
    pool.run()
    return results


class Background:
    """A task that a handler leaves behind, and how far it came."""

    def __init__(self) -> None:
        self.steps = 0
        self.cancelled = False
        self.tasks: list[asyncio.Task[None]] = []

    async def go(self) -> None:
        """Runs until it is cancelled, and has something to await even then."""
        try:
            while True:
                await asyncio.sleep(0)
                self.steps += 1
        finally:
            await asyncio.sleep(0)
            self.cancelled = True

    async def leave(self) -> str:
        """Starts the task, sees it run, and returns."""
        self.tasks.append(asyncio.create_task(self.go()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return "left"

    async def leave_and_fail(self) -> None:
        await self.leave()
        raise ValueError

    def leave_before(self) -> None:
        """Starts it where nothing runs yet, in a handler that is not async."""
        self.tasks.append(asyncio.get_event_loop().create_task(self.go()))


async def look_around() -> int:
    """How many tasks run beside this handler's own, after a while in which they could."""
    for _ in range(10):
        await asyncio.sleep(0)
    return len(asyncio.all_tasks()) - 1


def test_a_task_that_a_handler_leaves_behind_ends_with_it() -> None:
    background = Background()
    assert ended(background.leave, lambda: background.steps, look_around)[::2] == ["left", 0]
    assert background.cancelled
    assert background.steps <= 2


def test_a_task_that_a_failed_handler_leaves_behind_ends_with_it() -> None:
    background = Background()
    failure, around = ended(background.leave_and_fail, look_around)
    assert isinstance(failure, ValueError)
    assert (background.cancelled, around) == (True, 0)


def test_a_handler_that_stops_its_own_loop_is_not_resumed_in_the_next_one() -> None:
    resumed: list[bool] = []

    async def stop() -> None:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        resumed.append(True)

    failure, around = ended(stop, look_around)
    assert isinstance(failure, RuntimeError)
    assert (resumed, around) == ([], 0)


def test_a_task_that_nobody_awaited_ends_with_the_next_async_handler_at_the_latest() -> None:
    background = Background()
    ended(background.leave_before, look_around)
    assert background.cancelled


def test_a_task_whose_end_fails_changes_nothing_of_what_its_handler_returned() -> None:
    async def fail() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise ValueError

    async def leave() -> str:
        task.append(asyncio.create_task(fail()))
        await asyncio.sleep(0)
        return "left"

    task: list[asyncio.Task[None]] = []
    assert ended(leave, look_around) == ["left", 0]
    assert isinstance(task[0].exception(), ValueError)


def test_what_a_handler_awaits_need_not_be_a_coroutine() -> None:
    class Later:
        def __await__(self) -> Generator[Any, Any, str]:
            yield from asyncio.sleep(0).__await__()
            return "awaited"

    assert ended(Later) == ["awaited"]


TENANT = ContextVar("TENANT", default="nobody")


def test_what_one_job_sets_in_its_context_the_next_does_not_see() -> None:
    def sync_handler(name: str) -> str:
        before = TENANT.get()
        TENANT.set(name)
        return before

    async def async_handler(name: str) -> str:
        before = sync_handler(name)
        await asyncio.sleep(0)
        assert TENANT.get() == name
        return before

    jobs = [partial(handler, name) for name in "ab" for handler in (async_handler, sync_handler, async_handler)]
    assert ended(*jobs) == ["nobody"] * 6


def test_a_sync_handlers_context_is_that_of_what_it_returns_to_be_awaited() -> None:
    async def later() -> str:
        return TENANT.get()

    def handler() -> Any:
        TENANT.set("a")
        return later()

    assert ended(handler) == ["a"]


def test_what_a_sync_handler_returns_is_taken_as_it_is() -> None:
    pool = ThreadPool(1, lambda one, resolve: Complete(resolve("as it is")))
    pool.add([job(1)])
    pool.close()
    pool.run()
    assert [outcome for _, outcome in pool.collect(0)] == [Complete("as it is")]


def test_a_handler_that_asks_waits_for_the_loops_answer() -> None:
    pool: ThreadPool

    def execute(one: RunningJob, resolve: Callable[[Any], Any]) -> Outcome:
        return Complete(str(pool.ask(one.claim.id)))

    with working(execute, concurrency=1) as pool:
        pool.add([job(1)])
        question, answer = _asked(pool)
        assert question == (UUID(int=1), None)
        assert pool.asked() == []
        answer.set_result({UUID(int=2): "result"})
        ((_, outcome),) = collect(pool, 1)
        assert outcome == Complete(str({UUID(int=2): "result"}))


def test_an_answer_that_fails_is_raised_in_the_handler() -> None:
    pool: ThreadPool

    def execute(one: RunningJob, resolve: Callable[[Any], Any]) -> Outcome:
        with pytest.raises(RuntimeError, match="database lost"):
            pool.ask(one.claim.id)
        return Complete(None)

    with working(execute, concurrency=1) as pool:
        pool.add([job(1)])
        _, answer = _asked(pool)
        answer.set_exception(RuntimeError("database lost"))
        assert [outcome for _, outcome in collect(pool, 1)] == [Complete(None)]


def _asked(pool: ThreadPool) -> tuple[Question, "Future[Any]"]:
    while not (asked := pool.asked()):
        pool.collect(PATIENCE_SECONDS)
    return asked[0]
