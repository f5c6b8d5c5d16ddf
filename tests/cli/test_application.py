"""dilamme.toml: what it may say, and how a mistake in it is told."""

from pathlib import Path

import pytest

from dilamme_local.application import Application, find, load
from dilamme_local.errors import StackError


def application(folder: Path, text: str = "") -> Application:
    (folder / "jobs").mkdir(exist_ok=True)
    (folder / "dilamme.toml").write_text(text)
    return load(folder)


def test_an_empty_file_is_an_application(tmp_path: Path) -> None:
    found = application(tmp_path)
    assert (found.jobs, found.requirements, found.include) == (tmp_path / "jobs", None, ())
    assert (found.settings, found.local, found.aws, found.parameters) == ({}, {}, {}, {})


def test_it_is_found_from_any_folder_within(tmp_path: Path) -> None:
    application(tmp_path)
    (tmp_path / "jobs" / "deep").mkdir()
    assert find(tmp_path / "jobs" / "deep").root == tmp_path
    with pytest.raises(StackError, match=r"no dilamme\.toml in .* or above it: .* `dilamme new`"):
        find(Path("/"))


def test_what_it_says_is_taken(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "needs.txt").write_text("six\n")
    found = application(
        tmp_path,
        """
requirements = "needs.txt"
include = ["shop"]
[settings]
max_attempts = 5
idle_exit = false
[env]
HOST = "here"
PORT = 25
[env.local]
DEBUG = true
[env.aws]
HOST = "there"
[deploy]
stack_name = "my-shop"
region = "eu-central-1"
parameters = {WorkerMemory = 1024}
""",
    )
    assert found.requirements == tmp_path / "needs.txt"
    assert found.include == (tmp_path / "shop",)
    assert found.settings == {"DILAMME_MAX_ATTEMPTS": "5", "DILAMME_IDLE_EXIT": "false"}
    assert found.local == {"HOST": "here", "PORT": "25", "DEBUG": "true"}
    assert found.aws == {"HOST": "there", "PORT": "25"}
    assert (found.stack_name, found.region, found.parameters) == ("my-shop", "eu-central-1", {"WorkerMemory": "1024"})


@pytest.mark.parametrize(
    ("folder", "stack"),
    [("shop", "shop"), ("my_shop 2", "my-shop-2"), ("2nd", "app-2nd"), ("läden", "l-den"), ("_", "app")],
)
def test_a_stack_is_named_after_the_folder(tmp_path: Path, folder: str, stack: str) -> None:
    (tmp_path / folder).mkdir()
    assert application(tmp_path / folder).stack_name == stack


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("jobs = ", "dilamme.toml: Invalid value"),
        ("job = 'jobs'", "job is not a known key: did you mean jobs?"),
        ("colour = 1", "colour is not a known key; known are jobs, requirements"),
        ("jobs = 1", "jobs: input should be a valid string"),
        ("jobs = 'handlers'", "there is no folder .*handlers: make it, or name the one with your handlers"),
        ("jobs = '../elsewhere'", "jobs: must be a path within the application's folder"),
        ("include = ['/etc']", "include.0: must be a path within the application's folder"),
        ("include = ['shop']", "include: there is no .*shop"),
        ("[settings]\nmax_attemps = 3", "settings.max_attemps is no setting of Dilamme: did you mean max_attempts?"),
        ("[settings]\nmax_attempts = 0", r"\[settings\]: DILAMME_MAX_ATTEMPTS is '0'"),
        ("[settings]\nworker_function = 'x'", "settings.worker_function is no setting of Dilamme"),
        ("[settings]\nmax_attempts = [1]", "settings.max_attempts: "),
        ("[env]\n'A-B' = 'x'", "env.A-B cannot name an environment variable"),
        (
            "[env]\nDILAMME_WORKER_SLOTS = 1",
            r"env.DILAMME_WORKER_SLOTS is not the handlers' own: Dilamme's settings stand in \[settings\]",
        ),
        ("[env]\nAWS_REGION = 'x'", "env.AWS_REGION is not the handlers' own"),
        ("[env.test]\nA = 'x'", r"env.test: there are \[env.local\] and \[env.aws\] alone"),
        ("[deploy]\nstackname = 'x'", "deploy.stackname is not a known key: did you mean stack_name?"),
        ("[deploy]\nstack_name = 'a b'", "deploy.stack_name: "),
        ("[deploy]\nregion = 'Frankfurt'", "deploy.region: "),
    ],
)
def test_a_mistake_is_told_with_its_key_and_its_remedy(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(StackError, match=words):
        application(tmp_path, text)
