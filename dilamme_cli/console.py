"""The terminal of `dilamme dev`: a line a job, what handlers print and log, a traceback once. Metric lines stay in the files."""

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from dilamme.worker.job_lines import ENDED
from dilamme_local.runtime import IMPORT_FAILED

TAIL_SECONDS = 0.05
LINE_BYTES_MAX = 1_000_000
COLOURS = {"completed": "green", "retried": "yellow", "snoozed": "cyan", "unknown": "yellow", "dead": "red"}
LEVELS = {"WARNING": "yellow", "ERROR": "red", "CRITICAL": "red"}
SAID_BY_THE_JOBS_LINE = {"no handler for job type", "snoozed"}
# Fields of Powertools' lines that say nothing on one's own machine.
BOILERPLATE = {
    *("level", "location", "message", "timestamp", "service", "xray_trace_id", "cold_start", "sampling_rate"),
    *("function_name", "function_memory_size", "function_arn", "function_request_id", "exception", "exception_name"),
    *("taskName", "job_id", "job_type", "attempt"),
}


class Tail:
    """Shows what is appended to a worker's log, from `start` on.

    The handlers' files are named as the user knows them, not by the links in ``placed``, the worker's folder. The traceback of a
    failed import stays in the log: whoever asked for the import tells the error, with file and line.
    """

    def __init__(self, log: Path, console: Console, placed: Path) -> None:
        self._prefix = f"{placed}/".encode()
        self._importing = False
        self._log = log
        self._console = console
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._offset = log.stat().st_size if log.exists() else 0
        self._rest = b""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Shows what is left, and ends."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _follow(self) -> None:
        while not self._stopping.wait(TAIL_SECONDS):
            self._show_new()
        self._show_new()

    def _show_new(self) -> None:
        try:
            with self._log.open("rb") as file:
                file.seek(self._offset)
                new = file.read()
        except FileNotFoundError:
            return
        self._offset += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        if len(self._rest) > LINE_BYTES_MAX:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            if line == IMPORT_FAILED.encode():
                self._importing = not self._importing
            if self._importing or line == IMPORT_FAILED.encode():
                continue
            shown = line.replace(self._prefix, b"")
            if (text := rendered(shown.decode(errors="replace"))) is not None:
                self._console.print(text, soft_wrap=True, highlight=False)


def rendered(line: str) -> Text | None:
    """A line of the log for people; None if it is not for them."""
    told = _fields(line)
    if told is None:
        return Text(line) if line.strip() else None
    if "_aws" in told or told["message"] in SAID_BY_THE_JOBS_LINE:
        return None
    if told["message"] == ENDED:
        return _job_line(told)
    level = str(told.get("level", "INFO"))
    text = Text(f"{level.lower():>9}  ", style=LEVELS.get(level, "dim"))
    text.append(str(told["message"]), style="not dim")
    more = {name: value for name, value in told.items() if name not in BOILERPLATE}
    if "job_type" in told:
        more = {"job": f"{told['job_type']} {told.get('job_id', '')}", **more}
    text.append("".join(f"  {name}={_short(value)}" for name, value in more.items()), style="dim")
    if told.get("exception"):
        text.append(f"\n{str(told['exception']).rstrip()}", style="dim")
    return text


def _fields(line: str) -> Mapping[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        told = json.loads(line)
    except ValueError:
        return None
    return told if isinstance(told, dict) and ("_aws" in told or {"message", "level"} <= told.keys()) else None


def _job_line(told: Mapping[str, Any]) -> Text:
    status = str(told["status"])
    text = Text(f"{status:>9}  ", style=COLOURS.get(status, ""))
    text.append(f"{told['job_type']}", style="bold not dim")
    text.append(f"  {told['job_id']}  ", style="dim")
    text.append(_duration(float(told["milliseconds"])))
    match status:
        case "completed":
            pass
        case "unknown":
            text.append("  no handler of this type is here: it is tried again in a while")
        case "snoozed":
            text.append(f"  put off by its handler for {told['delay_seconds']:g} s")
        case _:
            text.append(f"  {_short(told['error'])}")
            text.append(f"  (attempt {told['attempt']} of {told['max_attempts']}", style="dim")
            text.append(f", again in {told['delay_seconds']:.1f} s)" if status == "retried" else ")", style="dim")
    return text


def _duration(milliseconds: float) -> str:
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


def _short(value: object) -> str:
    line = str(value).partition("\n")[0]
    return line if len(line) <= 200 else f"{line[:200]} …"
