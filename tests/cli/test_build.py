"""`dilamme new` and `dilamme build`: the folders that they write."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import dilamme
from dilamme_cli.build import build, deploy
from dilamme_cli.new import make
from dilamme_local.application import load
from dilamme_local.errors import StackError
from dilamme_local.product import PRODUCT


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    make(tmp_path / "shop")
    return tmp_path / "shop"


class _Loader(yaml.SafeLoader):
    """Reads CloudFormation's tags as plain values."""


_Loader.add_multi_constructor("!", lambda loader, _, node: getattr(node, "value", None))


def template(folder: Path) -> Any:
    return yaml.load((folder / "template.yaml").read_text(), _Loader)


def test_a_new_application_is_few_lines_and_complete(shop: Path) -> None:
    files = {str(path.relative_to(shop)) for path in shop.rglob("*") if path.is_file()}
    assert files == {
        *(
            ".gitignore",
            "README.md",
            "dilamme.toml",
            "jobs/hello.py",
            "pyproject.toml",
            "requirements.txt",
            "tests/test_hello.py",
        ),
    }
    assert (
        sum(
            len((shop / name).read_text().splitlines())
            for name in ("jobs/hello.py", "tests/test_hello.py", "dilamme.toml")
        )
        <= 45
    )
    assert not any("{{" in path.read_text() for path in shop.rglob("*") if path.is_file())
    assert load(shop).stack_name == "shop"
    assert f"dilamme[dev]=={dilamme.__version__}" in (shop / "requirements.txt").read_text()


@pytest.mark.parametrize("name", ["1st", "__", "…"])
def test_a_name_that_cannot_begin_a_type_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(StackError, match="cannot name an application"):
        make(tmp_path / name)
    assert not (tmp_path / name).exists()


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "mine").touch()
    with pytest.raises(StackError, match="is not empty"):
        make(tmp_path / "shop")
    (tmp_path / "file").touch()
    with pytest.raises(StackError, match="is not empty"):
        make(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    make(tmp_path / "empty")


def test_the_built_folder_is_the_product_with_the_applications_handlers(shop: Path) -> None:
    (shop / "shop").mkdir()
    (shop / "shop" / "models.py").write_text("ANSWER = 42\n")
    (shop / "jobs" / "deep").mkdir()
    (shop / "jobs" / "deep" / "more.py").write_text("")
    (shop / "jobs" / "linked.py").symlink_to(shop / "shop" / "models.py")
    (shop / "jobs" / "__pycache__").mkdir()
    (shop / "jobs" / "__pycache__" / "x.pyc").write_text("")
    (shop / "requirements.txt").write_text("dilamme[dev]==0.1.0\nsix==1.17.0\n# end\ndilammetry\n")
    (shop / "dilamme.toml").write_text('include = ["shop"]\n')
    built = build(load(shop))
    assert built == shop / ".dilamme"
    worker = built / "functions" / "worker"
    files = {str(path.relative_to(worker)) for path in worker.rglob("*") if path.is_file()}
    assert files == {
        "handler.py",
        "requirements.txt",
        "jobs/hello.py",
        "jobs/deep/more.py",
        "jobs/linked.py",
        "shop/models.py",
    }
    assert not (worker / "jobs" / "linked.py").is_symlink()
    assert (worker / "requirements.txt").read_text() == "six==1.17.0\n# end\ndilammetry\n"
    assert (built / "shared" / "dilamme" / "library.py").is_file()
    assert (built / "layers" / "dependencies" / "requirements.txt").read_text() == (
        PRODUCT / "layers" / "dependencies" / "requirements.txt"
    ).read_text()


def test_an_application_without_wishes_gets_the_template_as_it_is(shop: Path) -> None:
    (shop / "dilamme.toml").write_text("")
    assert (build(load(shop)) / "template.yaml").read_text() == (PRODUCT / "template.yaml").read_text()


def test_settings_variables_and_parameters_reach_the_deployment(shop: Path) -> None:
    (shop / "dilamme.toml").write_text(
        """
[settings]
worker_slots = 3
completed_retention_seconds = 86400
[env]
SMTP_HOST = "here"
QUOTE = 'say "hi": #1'
[env.aws]
SMTP_HOST = "there"
[deploy]
stack_name = "my-shop"
region = "eu-central-1"
parameters = {AlarmEmail = "on-call@example.com", DemoJobs = true}
"""
    )
    built = build(load(shop))
    made = template(built)
    variables = made["Resources"]["WorkerFunction"]["Properties"]["Environment"]["Variables"]
    assert (variables["SMTP_HOST"], variables["QUOTE"]) == ("there", 'say "hi": #1')
    assert "SMTP_HOST" not in made["Resources"]["ApiFunction"]["Properties"]["Environment"]["Variables"]
    everywhere = made["Globals"]["Function"]["Environment"]["Variables"]
    assert everywhere["DILAMME_COMPLETED_RETENTION_SECONDS"] == "86400"
    config = tomllib.loads((built / "samconfig.toml").read_text())["default"]
    assert config["global"]["parameters"]["stack_name"] == "my-shop"
    deployed = config["deploy"]["parameters"]
    assert deployed["region"] == "eu-central-1"
    assert deployed["parameter_overrides"] == 'WorkerSlots="3" AlarmEmail="on-call@example.com" DemoJobs="true"'


def test_an_unknown_parameter_is_refused_and_the_built_folder_stays(shop: Path) -> None:
    built = build(load(shop))
    (shop / "dilamme.toml").write_text("[deploy]\nparameters = {WorkerMemoy = 1}\n")
    with pytest.raises(StackError, match=r"deploy\.parameters\.WorkerMemoy is no parameter of the template"):
        build(load(shop))
    assert (built / "template.yaml").is_file()


def test_a_second_build_takes_away_what_is_gone_and_keeps_sams_cache(shop: Path) -> None:
    built = build(load(shop))
    (built / ".aws-sam").mkdir()
    (built / ".aws-sam" / "cache").touch()
    (shop / "jobs" / "hello.py").unlink()
    build(load(shop))
    assert not list((built / "functions" / "worker" / "jobs").iterdir())
    assert (built / ".aws-sam" / "cache").exists()


def test_without_sam_the_remedy_is_named(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(shop))
    with pytest.raises(StackError, match="pipx install aws-sam-cli"):
        deploy(load(shop), [])


def test_deploy_builds_then_deploys_with_what_was_passed_on(
    shop: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "sam").write_text(f'#!/bin/sh\necho "$PWD $@" >> {tmp_path}/ran\n')
    (programs / "sam").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/bin")
    assert deploy(load(shop), ["--no-confirm-changeset"]) == 0
    assert (tmp_path / "ran").read_text().splitlines() == [
        f"{shop}/.dilamme build --use-container",
        f"{shop}/.dilamme deploy --no-confirm-changeset",
    ]
    (programs / "sam").write_text("#!/bin/sh\nexit 3\n")
    assert deploy(load(shop), []) == 3
