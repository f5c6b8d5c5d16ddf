"""Asynchronous invocations as Lambda does them: accepted at once, run in a moment, retried, reported when given up.

An accepted event has a thread of its own until it has run or is given up. Throttled, it tries again after 1 s, 2 s, 4 s …
up to 5 min, so one that meets the function's full concurrency comes late, as on AWS. After an error the retries follow
after one and two minutes. Out of retries, or past its maximum age, its record goes to the OnFailure function.
"""

import threading
import time

from dilamme_local.dispatcher import Dispatcher
from dilamme_local.faults import Faults, Kind
from dilamme_local.functions import Function
from dilamme_local.invocation import Invocation, Outcome, StoppingError, ThrottledError, on_failure_record

RETRY_SECONDS = (60, 120)
THROTTLED_SECONDS_MAX = 300
REPORTS_SECONDS_MAX = 5  # how long a stop waits for the reports about what it killed


class Events:
    """The asynchronous front of a dispatcher."""

    def __init__(self, dispatcher: Dispatcher, faults: Faults) -> None:
        self._dispatcher = dispatcher
        self._faults = faults
        self._stopping = threading.Event()
        self._settled = threading.Condition()
        self._open = 0

    def submit(self, name: str, event: bytes) -> str:
        """Accepts an event and returns its request id.

        Raises:
            UnknownFunctionError, StoppingError: it was not accepted.
        """
        function = self._dispatcher.function(name)
        if self._stopping.is_set():
            raise StoppingError
        return self._accept(function, Invocation(name, event))

    def stop(self) -> None:
        """Kills what runs.

        OnFailure functions go last, after the reports about what was killed before: a job that ran at Ctrl-C is free at
        the next start, instead of waiting for its lease.
        """
        self._stopping.set()
        functions = self._dispatcher.functions
        destinations = {function.on_failure for function in functions.values()}
        self._dispatcher.close(functions.keys() - destinations)
        with self._settled:
            self._settled.wait_for(lambda: self._open == 0, REPORTS_SECONDS_MAX)
        self._dispatcher.close(functions)

    def _accept(self, function: Function, invocation: Invocation) -> str:
        self._dispatcher.count(function.name, "accepted")
        if self._faults.strike(function.name, Kind.LOSE):
            return invocation.request_id
        delay = self._faults.strike(function.name, Kind.DELAY)
        for _ in range(2 if self._faults.strike(function.name, Kind.DOUBLE) else 1):
            with self._settled:
                self._open += 1
            arguments = (function, invocation, delay.seconds if delay else 0)
            threading.Thread(target=self._see_through, args=arguments, daemon=True).start()
        return invocation.request_id

    def _see_through(self, function: Function, invocation: Invocation, delay_seconds: float) -> None:
        try:
            if delay_seconds == 0 or not self._stopping.wait(delay_seconds):
                self._try(function, invocation)
        except StoppingError:
            pass  # it was waiting when the stack stopped: lost, as the event of a deleted function would be
        finally:
            with self._settled:
                self._open -= 1
                self._settled.notify_all()

    def _try(self, function: Function, invocation: Invocation) -> None:
        expires_at = time.monotonic() + function.event_age_seconds
        outcome: Outcome | None = None
        runs = throttled = 0
        while True:
            try:
                outcome = self._dispatcher.run(invocation)
            except ThrottledError:
                pause = min(2**throttled, THROTTLED_SECONDS_MAX)
                throttled += 1
            else:
                runs += 1
                if outcome.succeeded:
                    return
                if runs > function.retries:
                    self._report(function, on_failure_record(invocation, outcome, runs, "RetriesExhausted"))
                    return
                pause = RETRY_SECONDS[min(runs, len(RETRY_SECONDS)) - 1]
            left = expires_at - time.monotonic()
            if self._stopping.wait(min(pause, max(left, 0))):
                return
            if pause >= left:
                self._report(function, on_failure_record(invocation, outcome, runs, "EventAgeExceeded"))
                return

    def _report(self, function: Function, record: bytes) -> None:
        if function.on_failure is not None:
            self._accept(self._dispatcher.function(function.on_failure), Invocation(function.on_failure, record))
