"""Child processes that users' code forks: each ends where that code ends.

A child is a copy of the worker, with the claims in its memory and the database's connection among its files. If it went on,
each job would run twice, and its words on the connection would mix with ours.
"""

import os
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

FLUSH_SECONDS = 1.0

generation = 0  # one more in a child than in its parent. The rival, os.getpid(), is a system call for each job


def _be_born() -> None:
    global generation  # noqa: PLW0603
    generation += 1


os.register_at_fork(after_in_child=_be_born)


@contextmanager
def children_end_here() -> Iterator[None]:
    """Runs users' code; a child process that it forks does not come out of this block."""
    born = generation
    try:
        yield
    except BaseException as error:
        if generation != born:
            end_child(error)
        raise
    if generation != born:
        end_child()


def end_child(error: BaseException | None = None) -> NoReturn:
    """Ends this process as `multiprocessing` ends its own: what is in its buffers is written, nothing of ours is run.

    Its status is 0, or 1 if its code raised, or the status that it passed to `sys.exit`.
    """
    status = 0 if error is None else 1
    if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
        status, error = (error.code or 0) & 0xFF, None
    try:
        # In a thread: another one of the parent's, which is not here, may have held a stream's lock when it was copied.
        thread = threading.Thread(target=_tell, args=(error,), daemon=True)
        thread.start()
        thread.join(FLUSH_SECONDS)
    finally:
        os._exit(status)


def _tell(error: BaseException | None) -> None:
    if error is not None:
        traceback.print_exception(error)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
