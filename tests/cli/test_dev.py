"""`dilamme dev`, as a user runs it, and the commands that talk to it."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import HANDLERS, Run, variables
from tests.support.waiting import wait_until

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Dev:
    """A `dilamme dev` that runs."""

    def __init__(self, application: Path) -> None:
        self.application = application
        self.shown = application / "shown"
        with self.shown.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "dilamme_cli", "dev", "--port", "0"],
                cwd=application,
                env={**variables(), "DILAMME_WORKER_SLOTS": "2"},
                stdout=output,
                stderr=output,
            )
        self.see("Dilamme is ready at http://127.0.0.1:")

    def see(self, words: str) -> str:
        """The output, once it has the words."""
        wait_until(lambda: words in self.shown.read_text() or self.process.poll() is not None)
        text = self.shown.read_text()
        assert words in text, text
        return text

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(60) == 0


@pytest.fixture(scope="module")
def dev(application: Path) -> Iterator[Dev]:
    running = Dev(application)
    yield running
    running.stop()


def save(application: Path, text: str, name: str = "shop.py") -> None:
    """As editors do: a new file in the place of the old one."""
    (application / "jobs" / f"{name}.new").write_text(text)
    (application / "jobs" / f"{name}.new").replace(application / "jobs" / name)


def test_a_job_is_a_line_with_what_its_handler_printed(dev: Dev, dilamme_: Run) -> None:
    done = dilamme_("submit", "shop.hello", '{"name": "Ada"}', "--wait")
    assert re.fullmatch(r'completed  \{"hello": "Ada"\}  \d+ ms\n', done.stdout)
    text = dev.see("completed  shop.hello")
    assert "hello is printed\n" in text
    assert "_aws" not in text
    assert "slot not ours" not in text


def test_a_failure_is_one_traceback_and_a_line(dev: Dev, dilamme_: Run) -> None:
    done = dilamme_("submit", "shop.fail", "--wait", status=1)
    assert done.stdout.startswith("dead  ValueError: as asked for")
    text = dev.see("dead  shop.fail")
    assert text.count("Traceback") == 1
    assert 'File "jobs/shop.py", line ' in text


def test_the_commands_show_and_change_jobs(dev: Dev, dilamme_: Run) -> None:
    stored = dilamme_("submit", "shop.hello", "-", "--at", "2999-01-01T00:00:00Z", stdin='{"name": "Bo"}').stdout
    (found,) = [match[0] for match in UUID.finditer(stored)]
    assert "scheduledAt" in dilamme_("show", found).stdout
    assert json.loads(dilamme_("show", found, "--json").stdout)["payload"] == {"name": "Bo"}
    assert dilamme_("why", found).stdout.startswith("pending: ")
    assert found in dilamme_("list", "--status", "pending").stdout
    assert dilamme_("cancel", found).stdout == f"{found}  cancelled\n"
    assert "cancelled" in dilamme_("list", "--type", "shop.hello").stdout
    assert json.loads(dilamme_("list", "--json", "--limit", "1").stdout)[0]["id"]
    dead = json.loads(dilamme_("submit", "shop.fail", "--wait", "--json", status=1).stdout)["id"]
    assert dead in {job["id"] for job in json.loads(dilamme_("list", "--status", "dead", "--json").stdout)}
    assert dilamme_("replay", dead).stdout == f"{dead}  pending\n"
    wait_until(lambda: "dead" in dilamme_("show", dead).stdout)
    assert re.fullmatch(r"[12] replayed\n", dilamme_("replay", "--type", "shop.fail").stdout)
    assert "workers:" in dilamme_("stats").stdout
    assert re.search(r"shop\.fail +1 +1 ", dilamme_("types").stdout)
    assert "shop.hello" in {one["type"] for one in json.loads(dilamme_("types", "--json").stdout)}
    assert json.loads(dilamme_("stats", "--json").stdout)["workers"]["slots"] == 2
    assert dev.process.poll() is None


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["submit", "NO"], 1, "dilamme: /type: must be"),
        (["submit", "a", "{"], 1, "dilamme: /payload: is no JSON"),
        (["submit", "a", "--priority", "9"], 1, "dilamme: /priority: must be"),
        (["submit", "a", "--at", "tomorrow"], 1, "dilamme: /at: must be a time in RFC 3339"),
        (["submit", "a", "--at", "2030-01-01"], 1, "has no time zone"),
        (["show", "00000000-0000-7000-8000-000000000000"], 1, "dilamme: no job has the id"),
        (["show", "me"], 2, "invalid character"),
        (["replay"], 2, "give a job's id, or --type, or --all"),
        (["list", "--url", "http://127.0.0.1:9"], 1, "dilamme: http://127.0.0.1:9 does not answer"),
        (["list", "--url", "http://a", "--database", "b"], 1, "--url and --database name two places"),
        (["frobnicate"], 2, "No such command 'frobnicate'"),
        (["submit", "never.run", "--wait", "--timeout", "0.2"], 1, "is still pending after 0.2 s"),
    ],
)
def test_a_mistake_is_told_in_a_line(dev: Dev, dilamme_: Run, arguments: list[str], status: int, words: str) -> None:
    done = dilamme_(*arguments, status=status)
    assert words in re.sub(r"\s+", " ", done.stderr.replace("│", ""))
    assert "Traceback" not in done.stderr
    assert dev.process.poll() is None


def test_a_save_is_seen_by_the_next_job_and_what_runs_is_let_end(dev: Dev, dilamme_: Run, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    running = json.loads(dilamme_("submit", "shop.slow", json.dumps(str(gate)), "--json").stdout)["id"]
    wait_until(lambda: "running" in dilamme_("show", running).stdout)
    save(dev.application, HANDLERS.replace("version 1", "version 2"))
    dev.see("reloaded shop.py")
    assert 'completed  "version 2"' in dilamme_("submit", "shop.slow", '""', "--wait").stdout
    gate.touch()
    wait_until(lambda: "completed" in dilamme_("show", running).stdout)
    ended = json.loads(dilamme_("show", running, "--json").stdout)
    assert (ended["result"], ended["attempt"]) == ("version 1", 1)


def test_a_job_that_came_before_its_handler_is_tried_again_when_that_is_saved(dev: Dev, dilamme_: Run) -> None:
    early = json.loads(dilamme_("submit", "shop.early", "--json").stdout)["id"]
    dev.see("unknown  shop.early")
    save(
        dev.application, "from dilamme import job\n\n@job('shop.early')\ndef early(payload, context): ...\n", "early.py"
    )
    wait_until(lambda: "completed" in dilamme_("show", early).stdout, seconds=20)


def test_jobs_wait_while_a_module_cannot_be_imported(dev: Dev, dilamme_: Run) -> None:
    save(dev.application, "import nothing_of_this_name\n", "broken.py")
    text = dev.see("jobs wait until this is mended: jobs/broken.py:1: ModuleNotFoundError")
    waiting = json.loads(dilamme_("submit", "shop.hello", '{"name": "Cy"}', "--json").stdout)["id"]
    assert text.count("Traceback") == dev.shown.read_text().count("Traceback")
    (dev.application / "jobs" / "broken.py").unlink()
    wait_until(lambda: "completed" in dilamme_("show", waiting).stdout, seconds=40)


def test_ports_and_jobs_are_the_same_at_the_next_start(dev: Dev, application: Path, dilamme_: Run) -> None:
    def places() -> tuple[str, str]:
        told = json.loads((application / ".data" / "stack.json").read_text())
        return told["databaseUrl"], told["lambdaUrl"]

    before, jobs = places(), dilamme_("list", "--json").stdout

    def named(told: str) -> list[tuple[str, str]]:
        return [(job["id"], job["type"]) for job in json.loads(told)]

    dev.stop()
    assert "no local stack runs for this application" in dilamme_("list", status=1).stderr
    dev.__init__(application)  # type: ignore[misc]
    assert places() == before
    assert named(dilamme_("list", "--json").stdout) == named(jobs)


def test_the_api_can_be_passed_by(dev: Dev, application: Path, dilamme_: Run) -> None:
    url = json.loads((application / ".data" / "stack.json").read_text())["databaseUrl"]
    stored = json.loads(dilamme_("submit", "shop.hello", '{"name": "Di"}', "--database", url, "--json").stdout)
    wait_until(lambda: "completed" in dilamme_("show", stored["id"], DILAMME_DATABASE=url).stdout, seconds=70)
    assert "dilamme: /type: must be" in dilamme_("submit", "NO", "--database", url, status=1).stderr
    assert dilamme_("migrate", "--check", "--database", url).stdout == "up to date\n"
    assert "nothing was to be done" in dilamme_("migrate", DATABASE_URL=url).stdout
    assert dev.process.poll() is None


def test_a_module_that_cannot_be_imported_is_named_before_it_is_ready(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "bad.py").write_text("\nraise KeyError('no such thing')\n")
    (tmp_path / "dilamme.toml").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "dilamme_cli", "dev", "--port", "0"],
        cwd=tmp_path,
        env=variables(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "jobs/bad.py:2: KeyError: 'no such thing'" in done.stderr
    assert "ready" not in done.stdout


def test_outside_of_an_application_the_remedy_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dilamme_cli", "dev"],
        cwd=tmp_path,
        env=variables(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "make one with `dilamme new`" in done.stderr
    assert os.listdir(tmp_path) == []  # noqa: PTH208
