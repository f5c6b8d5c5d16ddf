"""Threads whose failure is not silent: a chaos that has ended unnoticed would make every soak a success."""

import threading
from collections.abc import Callable


class LoudThread(threading.Thread):
    """A daemon; `finish` waits for its end and raises what ended it."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._failure: BaseException | None = None

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self._failure = error

    def finish(self) -> None:
        self.join()
        if self._failure is not None:
            raise self._failure
