"""Await the results of async handlers, on a thread's event loop."""

import asyncio
import inspect
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import Any

from dilamme.handlers import fork

# A shorter job cannot have run or closed an event loop: the one after it need not look.
SPOIL_SECONDS = 10e-6


class NoEventLoop(Exception):
    """This process can make no event loop: it has no descriptors left, or users' code has broken asyncio."""


class Resolver:
    """Awaits the results of async handlers, on a thread's event loop, and ends the tasks that they leave behind on it.

    All handlers of the thread use one loop: some keep a client that is bound to it, and to make one takes as long as a short
    job. If a handler leaves the loop closed, or its parts replaced, the next job gets a new one.

    Most handlers leave no task. So tasks are counted as they are made: a search for them after each job would slow short
    jobs down.

    Attributes:
        has_worked: did this process make an event loop, for any thread? If it then makes no more, it has been spoilt.
    """

    has_worked = False

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._executor: _Executor
        self._task_factory = self._make_task  # bound once, to be known again
        self._tasks_made = 0

    def prepare(self) -> None:
        """Makes the thread's event loop the current one: sync handlers may look for it too.

        It does not fail: a job that needs no loop can run without one.
        """
        try:
            loop = self._loop
            if loop is None or loop.is_closed() or self._executor.is_shut:
                loop = self._renew()
            asyncio.set_event_loop(loop)  # `asyncio.run` in a sync handler leaves none
        except Exception:  # noqa: S110  `resolve` raises it, if the loop is needed
            pass

    def resolve(self, result: Any) -> Any:
        """The result of a handler, awaited if it is awaitable.

        Raises:
            NoEventLoop: it cannot be awaited in this process.
        """
        if result is None or not inspect.isawaitable(result):
            return result
        coroutine = result if inspect.iscoroutine(result) else _wait(result)
        loop = self._loop
        if loop is None or loop.is_closed():
            try:
                loop = self._renew()
            except Exception as error:
                coroutine.close()
                raise NoEventLoop(
                    f"no event loop can be made in this process: {type(error).__name__}: {error}"
                ) from error
        born = fork.generation
        nothing_left = False
        try:
            value = loop.run_until_complete(loop.create_task(coroutine, context=copy_context()))
            nothing_left = self._tasks_made == 1
            return value
        finally:
            if not nothing_left and fork.generation == born:
                _end_tasks(loop)
            self._tasks_made = 0
            if fork.generation == born and self._is_spoilt(loop):
                self.close()

    def close(self) -> None:
        """Ends the event loop. Threads that handlers left in its executor are not waited for."""
        loop, self._loop = self._loop, None
        if loop is not None:
            with suppress(Exception):
                self._executor.shutdown(wait=False, cancel_futures=True)
                _end_tasks(loop)
                loop.run_until_complete(loop.shutdown_asyncgens())
            with suppress(Exception):
                asyncio.set_event_loop(None)
                loop.close()

    def _is_spoilt(self, loop: asyncio.AbstractEventLoop) -> bool:
        try:
            return (
                loop.get_task_factory() is not self._task_factory
                or self._executor.is_shut
                or getattr(loop, "_default_executor", self._executor) is not self._executor
                or loop.get_exception_handler() is not None
            )
        except Exception:  # its methods were replaced
            return True

    def _renew(self) -> asyncio.AbstractEventLoop:
        self.close()
        loop = asyncio.new_event_loop()
        self._executor = _Executor(thread_name_prefix="asyncio")
        loop.set_default_executor(self._executor)
        loop.set_task_factory(self._task_factory)
        self._loop = loop
        asyncio.set_event_loop(loop)
        Resolver.has_worked = True
        return loop

    def _make_task(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **named: Any) -> "asyncio.Task[Any]":
        self._tasks_made += 1
        return asyncio.Task(coroutine, loop=loop, **named)


class _Executor(ThreadPoolExecutor):
    """A loop's default executor, which knows whether a handler has shut it down."""

    is_shut = False

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.is_shut = True
        super().shutdown(wait, cancel_futures=cancel_futures)


def _end_tasks(loop: asyncio.AbstractEventLoop) -> None:
    if left := asyncio.all_tasks(loop):
        for task in left:
            task.cancel()
        loop.run_until_complete(_wait(asyncio.wait(left)))


async def _wait(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
