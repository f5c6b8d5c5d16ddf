"""The signals that a handler raises: `Retry`, `Snooze`, `Fail`."""

import math
import reprlib
from typing import Any


def seconds_in(signal: str, value: Any) -> float:
    """The time that a handler names to a ``signal``, as a number of seconds: 0 or more, perhaps infinite.

    Raises:
        TypeError, ValueError: it is none. NaN would come back at once and for ever, and so would a negative number.
    """
    try:
        seconds = math.nan if isinstance(value, bool) else float(value)
    except OverflowError:  # a whole number beyond any float
        seconds = math.nan
    except (TypeError, ValueError) as error:
        raise type(error)(f"{signal} takes its seconds as a number, not {reprlib.repr(value)}") from None
    if not seconds >= 0:  # so that NaN is refused too
        raise ValueError(f"{signal} takes its seconds as a number, 0 or more, not {reprlib.repr(value)}")
    return seconds


class Signal(Exception):
    """A handler raises it to say how its attempt ends.

    A copy or a pickle keeps its values, even if a subclass's ``__init__`` has other arguments.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _without_init, (type(self), self.args), self.__dict__


def _without_init(kind: type[Signal], args: tuple[Any, ...]) -> Signal:
    return kind.__new__(kind, *args)


class Retry(Signal):
    """Raised by a handler: this attempt failed; try again after ``after`` seconds (else after the type's backoff)."""

    after_seconds: float | None = None  # the default for a subclass that does not call `__init__`

    def __init__(self, message: str = "the handler asked for a retry", *, after: float | None = None) -> None:
        if not isinstance(message, str):  # Retry(60) reads like Snooze(60)
            raise TypeError("Retry takes a message; the time is Retry(after=60)")
        super().__init__(message)
        self.after_seconds = None if after is None else seconds_in("Retry", after)  # what is none fails in the handler


class Snooze(Signal):
    """Raised by a handler: not now; come back in ``seconds``, of which less than one counts as one. Costs no attempt."""

    def __init__(self, seconds: float | None = None) -> None:
        if seconds is None:  # `raise Snooze`, like `raise Retry`
            raise TypeError("Snooze takes the seconds: Snooze(60)")
        self.seconds = seconds_in("Snooze", seconds)  # what is none fails here, in the handler
        super().__init__(f"snoozed for {self.seconds:g} s")


class Fail(Signal):
    """Raised by a handler: no attempt will help. The job goes to the dead letters at once."""

    def __init__(self, reason: str = "the handler gave up") -> None:
        super().__init__(reason)
