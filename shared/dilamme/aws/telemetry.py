"""Logs and metrics of the functions, as JSON and EMF on standard output."""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

from aws_lambda_powertools import Logger
from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.metrics.functions import is_metrics_disabled
from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import AmazonCloudWatchEMFProvider

from dilamme.aws import log

NAMESPACE = "Dilamme"
VALUES_MAX = 25

# Every metric of ours, by the service that emits it. A name that is not here cannot be emitted: each metric costs money
# every month, and a test holds the dashboard and the alarms against this table.
COUNT, MILLISECONDS, SECONDS = MetricUnit.Count, MetricUnit.Milliseconds, MetricUnit.Seconds
METRICS = {
    "scheduler": {
        "Ticks": COUNT,
        "TickLag": MILLISECONDS,
        "TickDuration": MILLISECONDS,
        "TicksMissed": COUNT,
        "WorkersInvoked": COUNT,
        "InvokesRefused": COUNT,
        "DeadJobs": COUNT,
        "ReadyJobsP1": COUNT,
        "ReadyJobsP2": COUNT,
        "ReadyJobsP3": COUNT,
        "OldestReadyAge": SECONDS,
        "RunningJobs": COUNT,
        "SlotsInvited": COUNT,
        "SlotsStarted": COUNT,
        "Connections": COUNT,
        "OldestSnapshotAge": SECONDS,
        "OldestDeadLetterAge": SECONDS,
    },
    "worker": {
        "JobsStarted": COUNT,
        "JobsCompleted": COUNT,
        "JobsRetried": COUNT,
        "JobsDied": COUNT,
        "JobsHandedBack": COUNT,
        "JobsOfUnknownType": COUNT,
        "WaitP1": MILLISECONDS,
        "WaitP2": MILLISECONDS,
        "WaitP3": MILLISECONDS,
    },
}


class Meter:
    """Collects a service's metrics, each of which `METRICS` must know; `flush` writes them out.

    They have one dimension beside the service, the stack: a dimension from user input could cost any sum.
    Powertools' own `Metrics` is not used: all its instances in a process share one set, and its dimensions.
    """

    def __init__(self, service: str) -> None:
        self._units = METRICS.get(service, {})
        self._emf = AmazonCloudWatchEMFProvider(namespace=NAMESPACE, service=service)
        self._emf.set_default_dimensions(stack=os.environ.get("DILAMME_STACK") or "local")

    def add(self, name: str, value: float) -> None:
        """Adds a value; `KeyError` if `METRICS` does not know the name."""
        self._emf.add_metric(name, self._units[name], value)

    def flush(self) -> None:
        """Writes what was added since the last time, if anything was."""
        if self._emf.metric_set and not is_metrics_disabled():
            line = json.dumps(self._emf.serialize_metric_set(), separators=(",", ":"))
            self._emf.clear_metrics()
            with suppress(OSError, ValueError):  # the stream may be gone: a job does not fail for a metric
                log.STANDARD_OUTPUT.write(f"{line}\n")


def spread(values: Sequence[timedelta]) -> Sequence[timedelta]:
    """At most `VALUES_MAX` of the values, evenly spaced in order of size, so that they have the same percentiles.

    An EMF line holds a hundred values, and Powertools writes out all values of a metric for each one that is added.
    """
    if len(values) <= VALUES_MAX:
        return values
    in_order = sorted(values)
    return [in_order[index * (len(in_order) - 1) // (VALUES_MAX - 1)] for index in range(VALUES_MAX)]


def set_up(service: str) -> tuple[Logger, Meter]:
    """The function's logger and meter; the package's own loggers write through the same formatter."""
    logger = Logger(service=service, use_rfc3339=True, utc=True)
    # Without the serialized stack trace: the text says the same, and the other has no bounds.
    formatter = LambdaPowertoolsFormatter(use_rfc3339=True, utc=True, service=service, serialize_stacktrace=False)
    log.hold(formatter, logger.log_level)
    return logger, Meter(service)
