"""The signals that a handler raises: `Retry`, `Snooze`, `Fail`."""

from typing import Any


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
        self.after_seconds = None if after is None else float(after)  # a value that is no number fails in the handler


class Snooze(Signal):
    """Raised by a handler: not now; come back in ``seconds``. Costs no attempt."""

    def __init__(self, seconds: float | None = None) -> None:
        if seconds is None:  # `raise Snooze`, like `raise Retry`
            raise TypeError("Snooze takes the seconds: Snooze(60)")
        self.seconds = float(seconds)  # a value that is no number fails here, in the handler
        super().__init__(f"snoozed for {self.seconds:g} s")


class Fail(Signal):
    """Raised by a handler: no attempt will help. The job goes to the dead letters at once."""

    def __init__(self, reason: str = "the handler gave up") -> None:
        super().__init__(reason)
