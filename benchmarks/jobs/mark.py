"""The latency benchmark's job: writes down when its first line ran. Copied beside the users' jobs."""

import os
import time
from typing import Any

from dilamme import job

_marks = os.open(os.environ.get("BENCHMARK_MARKS", os.devnull), os.O_WRONLY | os.O_APPEND)


@job("bench.mark")
def mark(payload: dict[str, int], context: Any) -> None:  # noqa: ARG001
    now = time.time()
    os.write(_marks, f"{payload['n']} {now!r}\n".encode())
