"""The commands that the documents show do what the documents say, on a running stack."""

import shlex
from collections.abc import Sequence
from typing import Any

from tests.e2e.system import System
from tests.support.answers import Answer
from tests.support.pages import blocks
from tests.support.waiting import wait_until

SETTINGS: dict[str, Any] = {"backoff_base_seconds": 1}
STACK = "localhost:3000"


def commands(page: str) -> list[list[str]]:
    """The arguments of each curl in a page that goes to the local stack, in order."""
    found: list[list[str]] = []
    for block in blocks(page, "sh"):
        for word in shlex.split(block.replace("\\\n", " "), comments=True):
            if word == "curl":
                found.append([])
            elif found:
                found[-1].append(word)
    return [arguments for arguments in found if any(word.startswith(STACK) for word in arguments)]


def run(system: System, arguments: Sequence[str], job_id: str = "") -> Answer:
    """Does what curl would; ``job_id`` stands for the ID in a path."""
    (path,) = [word.removeprefix(STACK).replace("ID", job_id) for word in arguments if word.startswith(STACK)]
    if "-d" not in arguments:
        return system.request("GET", path)
    kind, _, value = arguments[arguments.index("-H") + 1].partition(": ")
    return system.request("POST", path, arguments[arguments.index("-d") + 1], {kind: value})


def test_the_quick_start_stores_a_job_and_shows_it_completed(system: System) -> None:
    store, show = commands("README.md")
    stored = run(system, store)
    assert stored.status == 201, stored.body
    assert stored.json["status"] == "pending"

    def shown() -> Any:
        view = run(system, show, stored.json["id"]).json
        return view if view["status"] == "completed" else None

    assert wait_until(shown)["result"] == {"hello": "world"}


def test_the_examples_of_the_api_run(system: System) -> None:
    diamond, recurring, failing, why = commands("docs/api.md")

    corners = run(system, diamond)
    assert corners.status == 201, corners.body
    for job in corners.json["jobs"]:
        system.wait_for(job["id"])

    every_five_minutes = run(system, recurring)
    assert every_five_minutes.status == 201, every_five_minutes.body
    system.wait_for(every_five_minutes.json["id"])
    ended = system.post(f"/series/{every_five_minutes.json['seriesId']}/cancel")
    assert ended.status == 200, ended.body

    fails_twice = run(system, failing).json["id"]
    wait_until(lambda: system.job(fails_twice)["attempt"] and system.job(fails_twice)["status"] == "pending")
    assert run(system, why, fails_twice).json["detail"].endswith("for attempt 2 of 3.")
    assert system.wait_for(fails_twice)["attempt"] == 3
