"""`python -m dilamme_local`, which is `make run`: starts the stack and stops it at Ctrl-C."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 (whoever starts it by hand may have an older one)
    sys.exit("Dilamme needs Python 3.11 or newer; this is {}.{}".format(*sys.version_info[:2]))

import logging
import os
import signal
import time
from typing import NoReturn

from dilamme_local.errors import StackError
from dilamme_local.options import Options, from_environment
from dilamme_local.stack import Stack

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> int:
    try:
        return run(from_environment(os.environ))
    except StackError as error:
        print(f"dilamme: {error}", file=sys.stderr)
        return 1


def run(options: Options) -> int:
    """Runs a stack until a signal ends it, which is no error: 0.

    Raises:
        StackError: it could not start, or could not go on.
    """
    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.WARNING)
    for number in SIGNALS:
        signal.signal(number, _interrupt)
    try:
        stack = Stack(options)
        try:
            stack.start()
            print(f"Dilamme is ready at {stack.url}   (docs at /docs)", flush=True)
            _wait(stack)
        finally:
            _finish(stack)
    except KeyboardInterrupt:
        return 0


def _wait(stack: Stack) -> NoReturn:
    """Until a signal interrupts, or what cannot be done without is gone."""
    while stack.postgres is None or stack.postgres.running:
        time.sleep(1)
    raise StackError(f"PostgreSQL has ended: see {stack.postgres.log}")


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _finish(stack: Stack) -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # an impatient second Ctrl-C must not leave half of it running
    stack.stop()


if __name__ == "__main__":
    sys.exit(main())
