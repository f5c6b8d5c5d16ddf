"""Await the results of async handlers, on a thread's event loop."""

import asyncio
import inspect
from collections.abc import Awaitable
from contextvars import copy_context
from typing import Any


class Resolver:
    """Awaits the results of async handlers, on a thread's event loop, and ends the tasks that they leave behind on it.

    Most handlers leave no task. So tasks are counted as they are made: a search for them after each job would slow short
    jobs down.
    """

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._loop = runner.get_loop()
        self._loop.set_task_factory(self._make_task)
        self._tasks_made = 0

    def resolve(self, result: Any) -> Any:
        """The result of a handler, awaited if it is awaitable."""
        if result is None or not inspect.isawaitable(result):
            return result
        coroutine = result if inspect.iscoroutine(result) else _wait(result)
        nothing_left = False
        try:
            value = self._runner.run(coroutine, context=copy_context())
            nothing_left = self._tasks_made == 1
            return value
        finally:
            if not nothing_left and (left := asyncio.all_tasks(self._loop)):
                for task in left:
                    task.cancel()
                self._runner.run(_wait(asyncio.wait(left)))
            self._tasks_made = 0

    def _make_task(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **named: Any) -> "asyncio.Task[Any]":
        self._tasks_made += 1
        return asyncio.Task(coroutine, loop=loop, **named)


async def _wait(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
