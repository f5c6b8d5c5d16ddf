"""What the README says is held to what the code does."""

import re
from typing import Any

from dilamme.domain.errors import InvalidInput
from dilamme.domain.job import TERMINAL, TRANSITIONS, Status
from dilamme.domain.outcome import MESSAGE_CHARACTERS_MAX
from dilamme.settings import Settings
from dilamme.usecases.read import COUNT_MAX, COUNT_MAX_FOR_THE_REST, PAGE_JOBS_MAX
from dilamme.wire import requests
from dilamme.wire.why import RANK_MAX
from dilamme.worker.execute import RESULT_BYTES_MAX
from dilamme_local.options import LOCAL_DEFAULTS
from tests.support.pages import blocks, table

ARROW = re.compile(r"(\S+) --> (\S+?)(?:: (\w+))?")
# A verb of the table whose name would be a keyword of Python's.
SPELT = {"return_claim": "return"}


def arrows() -> list[tuple[str, str, str | None]]:
    """(from, to, verb) of the state machine that is drawn."""
    (diagram,) = blocks("README.md", "mermaid")
    found = [ARROW.fullmatch(line.strip()) for line in diagram.splitlines()[1:]]
    assert all(found), diagram
    return [(match[1], match[2], match[3]) for match in found if match]


def test_the_state_machine_that_is_drawn_is_the_one_that_runs() -> None:
    drawn = {(verb, before, after) for before, after, verb in arrows() if "[*]" not in (before, after)}
    assert drawn == {(SPELT.get(verb, verb), before, after) for verb, (before, after) in TRANSITIONS.items()}


def test_a_job_begins_as_pending_and_ends_where_no_verb_leads_on() -> None:
    assert {after for before, after, _ in arrows() if before == "[*]"} == {Status.PENDING}
    left = {before for before, _ in TRANSITIONS.values()}
    assert {before for before, after, _ in arrows() if after == "[*]"} == TERMINAL - left


def deepest_payload() -> int:
    """How many levels of JSON are taken."""

    def is_taken(levels: int) -> bool:
        payload: list[Any] = []
        for _ in range(levels - 1):
            payload = [payload]
        try:
            requests.parse(requests.Submission, {"type": "deep", "payload": payload})
        except InvalidInput:
            return False
        return True

    return next(levels for levels in range(1, 1_000) if not is_taken(levels + 1))


def test_the_limits_are_the_codes() -> None:
    limits = {row[0]: row[1] for row in table("README.md", "| | at most |")}
    settings = Settings()
    most = {name: field.get("maximum", 0) for name, field in Settings.model_json_schema()["properties"].items()}
    seconds = most["worker_timeout_seconds"] - settings.worker_reserve_seconds
    assert requests.PAYLOAD_BYTES_MAX == RESULT_BYTES_MAX
    assert limits == {
        "payload, result": f"{RESULT_BYTES_MAX // 1024} KiB of JSON each, {deepest_payload()} levels deep",
        "a batch": f"{requests.BATCH_JOBS_MAX:,} jobs and {requests.BATCH_BYTES_MAX // 1024**2} MiB",
        "dependencies of a job": f"{requests.DEPENDENCIES_MAX:,}; of all jobs of a batch together "
        f"{requests.BATCH_DEPENDENCIES_MAX:,}",
        "attempts of a job": str(most["max_attempts"]),
        "interval": f"1 s to {requests.INTERVAL_SECONDS_MAX // (365 * 86_400)} years",
        "a handler's time": f"{settings.job_timeout_seconds:g} s unless its type says; {seconds:g} s at the most",
        "a page of a list": f"{PAGE_JOBS_MAX} jobs",
        "counts in `/stats`": f"{COUNT_MAX:,} ready and {COUNT_MAX:,} dead jobs of a priority, {COUNT_MAX_FOR_THE_REST:,} of "
        "every other kind; beyond that marked as capped",
        "a rank in `/why`": f"{RANK_MAX:,}; beyond that marked as capped",
        "errors of a job": f"the latest 100 are kept, with {MESSAGE_CHARACTERS_MAX:,} characters each",
        "retention": f"completed and cancelled {settings.completed_retention_seconds / 86_400:g} days, dead "
        f"{settings.dead_retention_seconds / 86_400:g} days (settings)",
        "workers at once": f"{settings.worker_slots}, `make run` {LOCAL_DEFAULTS['DILAMME_WORKER_SLOTS']} "
        f"(a setting, up to {most['worker_slots']:,})",
        "handlers at once in a worker": f"{settings.worker_concurrency} (a setting, up to {most['worker_concurrency']})",
    }
