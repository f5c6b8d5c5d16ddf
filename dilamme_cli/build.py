"""`dilamme build` and `dilamme deploy`: the product's template, functions and layers, with an application's handlers in them.

`.dilamme/` is written anew each time, from the installed version: nothing in it is to be edited, and an upgrade is a new
version in the application's requirements.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import dilamme
from dilamme_local.application import Application
from dilamme_local.errors import StackError
from dilamme_local.product import PRODUCT

FOLDER = ".dilamme"
IGNORED = shutil.ignore_patterns("__pycache__", "*.pyc", ".git", ".venv", ".pytest_cache", ".mypy_cache", ".ruff_cache")
# The line of the template after which the handlers' own variables go.
WORKER_VARIABLES = "          DILAMME_DATABASE_USER: dilamme_worker\n"
ALL_VARIABLES = "        DILAMME_DEMO_JOBS: !Ref DemoJobs\n"


def build(application: Application) -> Path:
    """Writes the folder; gives its path.

    Raises:
        StackError: what ``dilamme.toml`` says does not fit the template.
    """
    template = (PRODUCT / "template.yaml").read_text(encoding="utf-8")
    known = _parameters(template)
    for name in application.parameters:
        if name not in known:
            raise StackError(
                f"{application.file}: deploy.parameters.{name} is no parameter of the template; it has {', '.join(sorted(known))}"
            )
    folder = application.root / FOLDER
    built = folder.with_name(f"{FOLDER}.unfinished")
    shutil.rmtree(built, ignore_errors=True)
    built.mkdir()
    for name in ("functions", "layers"):
        shutil.copytree(PRODUCT / name, built / name, ignore=IGNORED)
    shutil.copytree(Path(dilamme.__file__).parent, built / "shared" / "dilamme", ignore=IGNORED)
    _place_handlers(application, built / "functions" / "worker")
    parameters, variables = _settings(application, known)
    template = _insert(template, ALL_VARIABLES, variables)
    template = _insert(template, WORKER_VARIABLES, application.aws)
    (built / "template.yaml").write_text(template, encoding="utf-8")
    (built / "samconfig.toml").write_text(
        _samconfig(application, {**parameters, **application.parameters}), encoding="utf-8"
    )
    _keep_what_sam_built(folder, built)
    shutil.rmtree(folder, ignore_errors=True)
    built.rename(folder)
    return folder


def deploy(application: Application, arguments: list[str]) -> int:
    """`sam build && sam deploy` in the built folder; the exit status of the first that fails, else 0.

    Raises:
        StackError: as `build`; or the SAM CLI is not installed.
    """
    folder = build(application)
    sam = shutil.which("sam")
    if sam is None:
        raise StackError("the SAM CLI is not installed: `pipx install aws-sam-cli`, or see AWS's page on installing it")
    # Its libraries are built for the functions' Python, which is not this one.
    builds = [sam, "build"] if shutil.which("python3.13") else [sam, "build", "--use-container"]
    for command in (builds, [sam, "deploy", *arguments]):
        status = subprocess.run(command, cwd=folder, check=False).returncode
        if status != 0:
            return status
    return 0


def _place_handlers(application: Application, worker: Path) -> None:
    shutil.rmtree(worker / "jobs", ignore_errors=True)
    shutil.copytree(application.jobs, worker / "jobs", ignore=IGNORED)  # links are followed: AWS gets files
    for included in application.include:
        target = worker / included.relative_to(application.root)
        target.parent.mkdir(parents=True, exist_ok=True)
        if included.is_dir():
            shutil.copytree(included, target, ignore=IGNORED)
        else:
            shutil.copy2(included, target)
    requirements = application.requirements.read_text(encoding="utf-8") if application.requirements else ""
    (worker / "requirements.txt").write_text(_without_ourselves(requirements), encoding="utf-8")


def _without_ourselves(requirements: str) -> str:
    """Dilamme itself is in the layer: as a requirement, it would be shipped twice, and another version might win."""
    kept = [line for line in requirements.splitlines() if not re.match(r"\s*dilamme\s*([\[=<>~!;@ ].*)?$", line)]
    return "\n".join(kept) + "\n" if kept else ""


def _settings(application: Application, known: set[str]) -> tuple[dict[str, str], dict[str, str]]:
    """The settings as parameters of the template, where it has them; the rest as variables of all functions."""
    parameters, variables = {}, {}
    for variable, value in application.settings.items():
        name = "".join(part.title() for part in variable.removeprefix("DILAMME_").split("_"))
        if name in known:
            parameters[name] = value
        else:
            variables[variable] = value
    return parameters, variables


def _parameters(template: str) -> set[str]:
    section = template.split("\nParameters:\n", 1)[1].split("\nConditions:\n", 1)[0]
    return set(re.findall(r"^  ([A-Za-z]+):$", section, re.MULTILINE))


def _insert(template: str, after: str, variables: Mapping[str, str]) -> str:
    if template.count(after) != 1:
        raise StackError("the template is not of this version: install dilamme anew")
    indent = after[: len(after) - len(after.lstrip())]
    return template.replace(
        after, after + "".join(f"{indent}{name}: {json.dumps(value)}\n" for name, value in variables.items())
    )


def _samconfig(application: Application, parameters: Mapping[str, str]) -> str:
    text = (PRODUCT / "samconfig.toml").read_text(encoding="utf-8")
    text = text.replace('stack_name = "dilamme"', f"stack_name = {json.dumps(application.stack_name)}")
    more = [f"region = {json.dumps(application.region)}"] if application.region else []
    if parameters:
        overrides = " ".join(f"{name}={json.dumps(value)}" for name, value in parameters.items())
        more.append(f"parameter_overrides = {json.dumps(overrides)}")
    return text.replace(
        "[default.deploy.parameters]\n", "[default.deploy.parameters]\n" + "".join(f"{line}\n" for line in more)
    )


def _keep_what_sam_built(folder: Path, built: Path) -> None:
    """SAM's cache, so that a second build is quick."""
    cache = folder / ".aws-sam"
    if cache.is_dir():
        os.rename(cache, built / ".aws-sam")  # noqa: PTH104
