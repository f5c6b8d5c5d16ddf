"""The log's lines, in a process that is not ours alone: users' code may set up, silence or break Python's logging.

The package's loggers keep their class, their own handler and their own stream, and none of them ever raises. So a line is
lost only with the stream, and an error that is stored is never that of a logger.
"""

import json
import logging
import os
import traceback
from collections.abc import Iterator, Mapping
from copy import copy
from itertools import islice
from typing import Any

MESSAGE_CHARACTERS_MAX = 4_000  # of an exception's text, in a traceback
TRACEBACK_CHARACTERS_MAX = 32_000
_FRAMES_MAX = 50  # of one exception; the innermost ones
_CHAIN_MAX = 8  # exceptions that led to one another, and those in a group
_DEPTH_MAX = 2  # groups within groups
_CAUSED = "The above exception was the direct cause of the following exception"  # Python's own words
_MEANWHILE = "During handling of the above exception, another exception occurred"


class _Stream:
    """A stream of ours, since a handler may redirect or close Python's, or the descriptor, for all threads at once.

    If a handler closes even ours, its number may stand for a file of the handler's a moment later. So each write looks.
    """

    def __init__(self, descriptor: int) -> None:
        try:
            copied = os.dup(descriptor)
        except OSError:  # the process was started without it
            copied = os.open(os.devnull, os.O_WRONLY)
        self._file = os.fdopen(copied, "w", buffering=1, encoding="utf-8", errors="backslashreplace")
        self._identity = self._identify()

    def write(self, text: str) -> None:
        """Writes whole lines.

        Raises:
            OSError, ValueError: the stream is gone.
        """
        if self._identify() != self._identity:
            raise OSError("the descriptor stands for another file")
        self._file.write(text)

    def fileno(self) -> int:
        """The descriptor, for `faulthandler`."""
        return self._file.fileno()

    def _identify(self) -> tuple[int, int]:
        status = os.fstat(self._file.fileno())
        return status.st_dev, status.st_ino


STANDARD_OUTPUT, STANDARD_ERROR = _Stream(1), _Stream(2)


class _Logger(logging.Logger):
    """Can be given other handlers and another level, but is silenced or broken neither by accident nor for all at once."""

    # `logging.config` sets it for every logger that it does not name.
    disabled = property(lambda self: False, lambda self, value: None)

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 (logging's name)
        """By its own level alone, whatever `logging.disable` says."""
        return level >= self.getEffectiveLevel()

    def makeRecord(  # noqa: N802 (logging's name)
        self, name: str, level: int, fn: str, lno: int, msg: object, args: Any, exc_info: Any,
        func: str | None = None, extra: Mapping[str, object] | None = None, sinfo: str | None = None,
    ) -> logging.LogRecord:  # fmt: skip
        """A record, by the process's own factory as long as that works."""
        try:
            record = super().makeRecord(name, level, fn, lno, msg, args, exc_info, func, extra, sinfo)
            if isinstance(record, logging.LogRecord):
                return record
        except Exception:  # noqa: S110  what users' code raises here is of no use to anybody
            pass
        record = logging.LogRecord(name, level, fn, lno, msg, args, exc_info, func, sinfo)
        vars(record).update({key: value for key, value in (extra or {}).items() if key not in vars(record)})
        return record

    def handle(self, record: logging.LogRecord) -> None:
        """Passes the record to the handlers; to ours at least, if a filter or somebody else's handler raises."""
        try:
            super().handle(record)
        except Exception:
            for handler in logging.getLogger("dilamme").handlers:
                if isinstance(handler, _Handler):
                    handler.handle(record)


class _Handler(logging.Handler):
    """Writes lines to standard error, else to standard output. A record is written once."""

    def emit(self, record: logging.LogRecord) -> None:
        if vars(record).get("_written"):
            return
        try:
            line = self.format(_with_short_traceback(record))
        except Exception as error:  # a field that cannot be told
            line = json.dumps(
                {"level": record.levelname, "message": str(record.msg), "unreadable": type(error).__name__}
            )
        vars(record)["_written"] = True
        for stream in (STANDARD_ERROR, STANDARD_OUTPUT):
            try:
                stream.write(f"{line}\n")
            except (OSError, ValueError):
                continue
            return


def hold(formatter: logging.Formatter, level: int | str) -> None:
    """Gives the package's loggers a handler of ours. Those that were made since are not held: call `keep_hold` again."""
    package = logging.getLogger("dilamme")
    handler = _Handler()
    handler.setFormatter(formatter)
    package.handlers = [handler]
    package.setLevel(level)
    package.propagate = False


def keep_hold(function: str) -> None:
    """Makes the package's loggers and the ``function``'s immune to what users' code does to logging, before or after this."""
    for name, found in list(logging.root.manager.loggerDict.items()):
        if isinstance(found, logging.Logger) and f"{name}.".startswith(("dilamme.", f"{function}.")):
            vars(found).pop("disabled", None)
            found.__class__ = _Logger


def _with_short_traceback(record: logging.LogRecord) -> logging.LogRecord:
    if not record.exc_info or record.exc_info[1] is None:
        return record
    error = record.exc_info[1]
    record = copy(record)
    record.exc_info = record.exc_text = None
    vars(record).update(exception=traceback_text(error), exception_name=type(error).__name__)
    return record


def traceback_text(error: BaseException) -> str:
    """The traceback as Python shows it, bounded whatever its texts, frames, causes, notes and groups are.

    Python's own `traceback` has all of it in memory, twice or more, before it could be cut.
    """
    text = "".join(_told(error, 0))
    if len(text) <= TRACEBACK_CHARACTERS_MAX:
        return text
    half = TRACEBACK_CHARACTERS_MAX // 2
    return f"{text[:half]}\n… ({len(text)} characters) …\n{text[-half:]}"


def _told(error: BaseException, depth: int) -> Iterator[str]:
    """The parts of a traceback: the errors that led to one another, the first one first, each with its group."""
    chain: list[tuple[BaseException, str]] = []
    link = ""
    while error not in [one for one, _ in chain] and len(chain) < _CHAIN_MAX:
        chain.append((error, link))
        cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if cause is None:
            break
        link = _CAUSED if error.__cause__ is not None else _MEANWHILE
        error = cause
    for one, after in reversed(chain):
        if one.__traceback__ is not None:
            yield "Traceback (most recent call last):\n"
            yield from traceback.format_tb(one.__traceback__, limit=-_FRAMES_MAX)
        yield f"{type(one).__name__}: {_short(one)}\n"
        notes = getattr(one, "__notes__", None)
        if isinstance(notes, list | tuple):
            yield from (f"{_short(note)}\n" for note in notes[:_CHAIN_MAX])
        if isinstance(one, BaseExceptionGroup) and depth < _DEPTH_MAX:
            for number, member in enumerate(islice(one.exceptions, _CHAIN_MAX), 1):
                yield f"--- {number} of {len(one.exceptions)} ---\n"
                yield from _told(member, depth + 1)
        if after:
            yield f"\n{after}:\n\n"


def _short(value: object) -> str:
    try:
        text = str(value)
    except BaseException:
        return "(its text could not be made)"
    return (
        text if len(text) <= MESSAGE_CHARACTERS_MAX else f"{text[:MESSAGE_CHARACTERS_MAX]} … ({len(text)} characters)"
    )
