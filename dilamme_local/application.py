"""An application: a folder with a ``dilamme.toml``, which says where its handlers are and what they need.

jobs = "jobs"                        # the folder of handlers; these three are the defaults
requirements = "requirements.txt"    # what handlers need beside Dilamme
include = []                         # further packages and files that handlers use: ["shop"]

[settings]                           # Dilamme's own: docs/settings.md, in lower case
max_attempts = 5

[env]                                # the handlers' environment variables, in `dilamme dev` and on AWS
SMTP_HOST = "localhost"
[env.aws]                            # … there alone; [env.local] is its like
SMTP_HOST = "email-smtp.eu-central-1.amazonaws.com"

[deploy]
stack_name = "shop"
region = "eu-central-1"
parameters = {AlarmEmail = "on-call@example.com"}    # of template.yaml
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from dilamme.domain.errors import ConfigurationError
from dilamme.domain.misspelt import nearest
from dilamme.settings import PREFIX, Settings, read
from dilamme_local.errors import StackError

FILE = "dilamme.toml"
SET_BY_DEPLOYMENT = {"worker_function", "scheduler_function", "dead_letter_queue_url"}
RESERVED = ("DILAMME_", "AWS_", "LAMBDA_", "DATABASE_URL", "PYTHONPATH", "_")
Scalar = str | int | float | bool


def _below(text: str) -> str:
    path = Path(text)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError("must be a path within the application's folder")
    return text


Below = Annotated[str, AfterValidator(_below)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Deploy(_Table):
    stack_name: str = Field("", pattern=r"^([A-Za-z][A-Za-z0-9-]{0,63})?$")
    region: str = Field("", pattern=r"^([a-z]{2}(-[a-z]+)+-\d)?$")
    parameters: dict[str, Scalar] = {}


class _File(_Table):
    jobs: Below = "jobs"
    requirements: Below = "requirements.txt"
    include: list[Below] = []
    settings: dict[str, Scalar] = {}
    env: dict[str, Scalar | dict[str, Scalar]] = {}
    deploy: _Deploy = _Deploy()


@dataclass(frozen=True)
class Application:
    """``settings`` by their variables' names; ``local`` and ``aws``: the handlers' variables here and there.

    ``requirements`` is None where there is no such file. ``parameters`` are the template's own.
    """

    root: Path
    jobs: Path
    requirements: Path | None
    include: tuple[Path, ...]
    settings: Mapping[str, str]
    local: Mapping[str, str]
    aws: Mapping[str, str]
    stack_name: str
    region: str
    parameters: Mapping[str, str]

    @property
    def file(self) -> Path:
        """Its ``dilamme.toml``."""
        return self.root / FILE


def find(start: Path) -> Application:
    """The application in whose folder, or below it, ``start`` lies.

    Raises:
        StackError: there is none, or its file is wrong; the message names the line, or the key and the remedy.
    """
    for folder in (start.resolve(), *start.resolve().parents):
        if (folder / FILE).is_file():
            return load(folder)
    raise StackError(
        f"no {FILE} in {start.resolve()} or above it: go to an application's folder, or make one with `dilamme new`"
    )


def load(root: Path) -> Application:
    """The application in ``root``; errors as in `find`."""
    try:
        content = tomllib.loads((root / FILE).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StackError(f"{root / FILE}: {error}") from None
    try:
        file = _File.model_validate(content)
    except ValidationError as error:
        raise StackError("; ".join(f"{root / FILE}: {_sentence(fault)}" for fault in error.errors())) from None
    jobs, requirements = root / file.jobs, root / file.requirements
    if not jobs.is_dir():
        raise StackError(f"{root / FILE}: jobs: there is no folder {jobs}: make it, or name the one with your handlers")
    for name in file.include:
        if not (root / name).exists():
            raise StackError(f"{root / FILE}: include: there is no {root / name}")
        if name in {"jobs", "handler.py"}:
            raise StackError(
                f"{root / FILE}: include: {name} is a name of Dilamme's own in the deployed folder: choose another"
            )
    variables, local, aws = _environment(root, file.env)
    return Application(
        root,
        jobs,
        requirements if requirements.is_file() else None,
        tuple(root / name for name in file.include),
        _settings(root, file.settings),
        {**variables, **local},
        {**variables, **aws},
        file.deploy.stack_name or _as_stack_name(root.name),
        file.deploy.region,
        {name: _text(value) for name, value in file.deploy.parameters.items()},
    )


def _settings(root: Path, settings: Mapping[str, Scalar]) -> dict[str, str]:
    known = [name for name in Settings.model_fields if name not in SET_BY_DEPLOYMENT]
    for name in settings:
        if name not in known:
            raise StackError(f"{root / FILE}: settings.{name} is no setting of Dilamme{_meant(name, known)}")
    variables = {PREFIX + name.upper(): _text(value) for name, value in settings.items()}
    try:
        read(variables)
    except ConfigurationError as error:
        raise StackError(f"{root / FILE}: [settings]: {error}") from None
    return variables


def _environment(
    root: Path, env: Mapping[str, Scalar | dict[str, Scalar]]
) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    tables: dict[str, dict[str, str]] = {"": {}, "local": {}, "aws": {}}
    for name, value in env.items():
        if not isinstance(value, dict):
            tables[""][name] = _text(value)
        elif name in tables:
            tables[name] = {inner: _text(one) for inner, one in value.items()}
        else:
            raise StackError(f"{root / FILE}: env.{name}: there are [env.local] and [env.aws] alone")
    for name in {name for table in tables.values() for name in table}:
        if not name.isidentifier() or not name.isascii():
            raise StackError(f"{root / FILE}: env.{name} cannot name an environment variable")
        if name.startswith(RESERVED):
            raise StackError(
                f"{root / FILE}: env.{name} is not the handlers' own"
                + (": Dilamme's settings stand in [settings]" if name.startswith(PREFIX) else "")
            )
    return tables[""], tables["local"], tables["aws"]


def _sentence(fault: Any) -> str:
    key = ".".join(str(part) for part in fault["loc"][:2])  # deeper ones are pydantic's names for the kinds of a value
    if fault["type"] == "extra_forbidden":
        table = _Deploy if fault["loc"][0] == "deploy" else _File
        return f"{key} is not a known key{_meant(str(fault['loc'][-1]), [*table.model_fields])}"
    message = fault["msg"].removeprefix("Value error, ")
    return f"{key}: {message[0].lower()}{message[1:]}"


def _meant(name: str, known: list[str]) -> str:
    near = nearest(name, known)
    return f": did you mean {near}?" if near else f"; known are {', '.join(known)}"


def _text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _as_stack_name(name: str) -> str:
    kept = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in name).strip("-")
    return kept if kept[:1].isalpha() else f"app-{kept}".rstrip("-")
