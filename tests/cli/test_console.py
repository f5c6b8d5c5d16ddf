"""The terminal of `dilamme dev`: which lines of a worker's log are for people, and how they look."""

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest
from rich.console import Console

from dilamme.domain.job import Reason
from dilamme.domain.outcome import Bury, Complete, Outcome, RetryLater, Return
from dilamme.worker.job_lines import log_jobs
from dilamme_cli.console import Tail, rendered
from dilamme_local.runtime import IMPORT_FAILED
from tests.support.waiting import wait_until

JOB = UUID(int=7)


def told(outcome: Outcome, caplog: pytest.LogCaptureFixture, seconds: float = 0.031) -> str | None:
    """The console's line for an end, by way of the log's."""
    claim = SimpleNamespace(id=JOB, type="mail.send", attempt=2, max_attempts=3)
    done: Any = [(SimpleNamespace(claim=claim, seconds=seconds), outcome)]
    with caplog.at_level(logging.INFO, "dilamme.jobs"):
        log_jobs(done, {JOB})
    if not caplog.records:
        return None
    record = vars(caplog.records[-1])
    names = (
        "job_id",
        "job_type",
        "attempt",
        "max_attempts",
        "milliseconds",
        "status",
        "error",
        "reason",
        "delay_seconds",
    )
    line = {"level": "INFO", "message": record["msg"], **{name: record[name] for name in names if name in record}}
    text = rendered(json.dumps(line))
    return None if text is None else text.plain


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        (Complete("1"), f"completed  mail.send  {JOB}  31 ms"),
        (
            RetryLater(Reason.ERROR, "OSError: no route\nmore", 12.34),
            f"  retried  mail.send  {JOB}  31 ms  OSError: no route  (attempt 2 of 3, again in 12.3 s)",
        ),
        (Bury(Reason.FAIL, "no such order"), f"     dead  mail.send  {JOB}  31 ms  no such order  (attempt 2 of 3)"),
        (Return(60.0), f"  snoozed  mail.send  {JOB}  31 ms  put off by its handler for 60 s"),
        (
            Return(30.0, unknown=True),
            f"  unknown  mail.send  {JOB}  31 ms  no handler of this type is here: it is tried again in a while",
        ),
        (Return(), None),
    ],
)
def test_a_job_that_ends_is_a_line(outcome: Outcome, line: str | None, caplog: pytest.LogCaptureFixture) -> None:
    assert told(outcome, caplog) == line


def test_a_long_job_is_told_in_seconds(caplog: pytest.LogCaptureFixture) -> None:
    assert "12.0 s" in str(told(Complete(None), caplog, seconds=12))


def test_a_job_that_was_not_settled_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    claim = SimpleNamespace(id=uuid4(), type="a", attempt=1, max_attempts=3)
    done: Any = [(SimpleNamespace(claim=claim, seconds=1.0), Complete(None))]
    with caplog.at_level(logging.INFO, "dilamme.jobs"):
        log_jobs(done, {JOB})
    assert not caplog.records


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("printed by a handler", "printed by a handler"),
        ("", None),
        ('{"a": 1}', '{"a": 1}'),
        ("{not json", "{not json"),
        (json.dumps({"_aws": {}, "JobsStarted": [1]}), None),
        (
            json.dumps({"level": "INFO", "message": "greeting", "who": "Ada", "timestamp": "t"}),
            "     info  greeting  who=Ada",
        ),
        (json.dumps({"level": "ERROR", "message": "no handler for job type", "job_type": "a"}), None),
        (
            json.dumps(
                {
                    "level": "WARNING",
                    "message": "attempt failed",
                    "job_type": "a",
                    "job_id": "7",
                    "exception": "Traceback\n  x\n",
                }
            ),
            "  warning  attempt failed  job=a 7\nTraceback\n  x",
        ),
    ],
)
def test_other_lines_are_shown_if_they_are_for_people(line: str, text: str | None) -> None:
    found = rendered(line)
    assert (None if found is None else found.plain) == text


def test_what_is_appended_is_shown_by_the_users_names_and_a_failed_import_is_not(tmp_path: Path) -> None:
    log, shown = tmp_path / "worker.log", tmp_path / "shown"
    log.write_text("from before\n")
    with shown.open("w", buffering=1) as file:
        tail = Tail(log, Console(file=file, width=200), tmp_path / "functions" / "worker")
        tail.start()
        with log.open("a") as more:
            more.write(
                f'  File "{tmp_path}/functions/worker/jobs/a.py", line 3\n{IMPORT_FAILED}\nTraceback\n{IMPORT_FAILED}\nin two '
            )
            more.flush()
            wait_until(lambda: "a.py" in shown.read_text())
            more.write("parts\n")
        wait_until(lambda: "parts" in shown.read_text())
        tail.stop()
    assert shown.read_text() == '  File "jobs/a.py", line 3\nin two parts\n'
