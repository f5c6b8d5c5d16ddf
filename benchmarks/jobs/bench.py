"""The benchmarks' job: nothing but a count. Copied beside the users' jobs (`benchmarks._dilamme.functions`)."""

import os
from typing import Any

from jobs.tally import VARIABLE, Counter  # type: ignore[import-not-found]  # it lies there once copied

from dilamme import job

counter = Counter() if VARIABLE in os.environ else None


@job("bench.noop")
def noop(payload: Any, context: Any) -> None:  # noqa: ARG001
    if counter is not None:
        counter.add()
