"""The metrics of a worker: how jobs ended, and how long they had waited."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import timedelta

from dilamme.aws.telemetry import Meter, spread
from dilamme.domain.job import Claim
from dilamme.domain.outcome import Bury, Complete, Outcome, RetryLater, Return

MILLISECOND = timedelta(milliseconds=1)
_METRIC_OF = {Complete: "JobsCompleted", RetryLater: "JobsRetried", Bury: "JobsDied", Return: "JobsHandedBack"}


def observe_settled(meter: Meter, ends: Sequence[tuple[Claim, Outcome]]) -> None:
    """Counts how jobs ended, and how long those that ran had waited, by their original priority."""
    for kind, count in Counter(map(type, [outcome for _, outcome in ends])).items():
        meter.add(_METRIC_OF[kind], count)
    started = [claim for claim, outcome in ends if not isinstance(outcome, Return)]
    if started:
        meter.add("JobsStarted", len(started))
    waits: dict[int, list[timedelta]] = defaultdict(list)
    for claim in started:
        waits[claim.priority].append(claim.started_at - claim.ready_at)
    for priority, waited in waits.items():
        for wait in spread(waited):
            meter.add(f"WaitP{priority}", wait / MILLISECOND)
    if unknown := sum(isinstance(outcome, Return) and outcome.unknown for _, outcome in ends):
        meter.add("JobsOfUnknownType", unknown)
    # At once: if the worker is killed, or ends its process because a handler overran, unflushed metrics are lost.
    meter.flush()
