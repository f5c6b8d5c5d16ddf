"""Arrows point down, from the functions to the domain (`BELOW`). And each library has one home."""

import ast
import subprocess
import sys
from collections.abc import Iterator

import psycopg
import pytest

import dilamme
from tests.unit.sources import ROOT, Module, imports, module, modules

# What a part may import of ours: the floors of the house, from the ground up. The longest prefix of a module's name counts.
BELOW = {
    "dilamme.domain": ["dilamme.domain"],
    "dilamme.settings": ["dilamme.domain"],
    "dilamme.wire": ["dilamme.wire", "dilamme.domain"],
    "dilamme.handlers": ["dilamme.handlers", "dilamme.domain"],
    "dilamme.store": ["dilamme.store", "dilamme.domain"],
    "dilamme.aws": ["dilamme.aws", "dilamme.wire", "dilamme.domain"],
    "dilamme.usecases": [
        *("dilamme.usecases", "dilamme.store", "dilamme.aws", "dilamme.wire", "dilamme.settings", "dilamme.domain"),
    ],
    "dilamme.worker": [
        *("dilamme.worker", "dilamme.usecases", "dilamme.handlers", "dilamme.store", "dilamme.aws", "dilamme.wire"),
        *("dilamme.settings", "dilamme.domain"),
    ],
    "dilamme.scheduler": [
        *(
            "dilamme.scheduler",
            "dilamme.usecases",
            "dilamme.store",
            "dilamme.aws",
            "dilamme.settings",
            "dilamme.domain",
        ),
    ],
    "dilamme.session": ["dilamme.usecases", "dilamme.store", "dilamme.aws", "dilamme.domain"],
    "dilamme.library": [
        *("dilamme.session", "dilamme.usecases", "dilamme.store", "dilamme.wire", "dilamme.settings", "dilamme.domain"),
    ],
    # A client knows the wire, and neither the database nor the functions.
    "dilamme.client": ["dilamme.client", "dilamme.wire", "dilamme.domain"],
    # What an application's tests stand on: everything, and the local stack.
    "dilamme.testing": ["dilamme"],
    "dilamme.typed": ["dilamme", "dilamme.library", "dilamme.handlers", "dilamme.domain"],
    "dilamme": ["dilamme.typed", "dilamme.library", "dilamme.client", "dilamme.handlers", "dilamme.domain"],
    "functions": ["dilamme"],
    # What users write needs what they are told of, and no more.
    "functions.worker.jobs": [f"dilamme.{name}" for name in dilamme.__all__],
}
# Where a library may be imported. What is not named here comes with Python.
HOMES = {
    "pydantic": ["dilamme.wire", "dilamme.settings", "dilamme.client", "dilamme.handlers", "functions.api"],
    "pydantic_core": ["dilamme.wire", "dilamme.handlers"],
    # At home in the store; beside it, for the names below and for its exceptions.
    "psycopg": [
        *(
            "dilamme.store",
            "dilamme.usecases",
            "dilamme.worker",
            "dilamme.scheduler",
            "dilamme.session",
            "dilamme.library",
            "dilamme.testing",
            "dilamme.typed",
            "dilamme.handlers.context",
        ),
        "dilamme.aws.database",
    ],
    "uuid_utils": ["dilamme.store"],
    "boto3": ["dilamme.aws"],
    "botocore": ["dilamme.aws", "dilamme.client.signing"],
    "httpx": ["dilamme.client"],
    "pytest": ["dilamme.testing"],
    "dilamme_local": ["dilamme.testing"],
    "mypy_boto3_lambda": ["dilamme.aws"],
    "mypy_boto3_sqs": ["dilamme.aws"],
    "aws_lambda_powertools": ["dilamme.aws", "functions"],
}
DRIVER_NAMES = {
    "dilamme.handlers.context": {"psycopg.Connection"},
    "dilamme.typed": {"psycopg.Connection", "psycopg.AsyncConnection"},
    "dilamme.library": {"psycopg.Connection", "psycopg.AsyncConnection", "psycopg.pq.TransactionStatus.IDLE"},
    "dilamme.aws.database": {
        *("psycopg.conninfo.conninfo_to_dict", "psycopg.conninfo.make_conninfo", "psycopg.pq.Conninfo"),
    },
}
# The domain gets the time and the chance as arguments, and touches nothing.
IMPURE_MODULES = {
    *("asyncio", "http", "io", "logging", "multiprocessing", "os", "pathlib", "random", "secrets", "select", "shutil"),
    *("signal", "socket", "sqlite3", "ssl", "subprocess", "sys", "tempfile", "threading", "time", "urllib"),
}
IMPURE_CALLS = {
    *("datetime.now", "datetime.utcnow", "datetime.today", "date.today", "open", "print", "input"),
    *("uuid1", "uuid4", "uuid.uuid1", "uuid.uuid4"),
}


def problems(source: Module) -> Iterator[str]:
    """What a module imports or calls that it must not, a sentence each."""
    for name in imports(source.tree):
        if (why := objection(source.name, name)) is not None:
            yield f"{source.name} imports {name}{why}"
    if not lies_in(source.name, ["dilamme.store", "dilamme.testing"]):
        yield from (f"{source.name} uses {name}: only the store talks to the database" for name in foreign_uses(source))
    if lies_in(source.name, ["dilamme.domain"]):
        yield from (
            f"{source.name} {what}: the domain has no clock, no dice and no world" for what in impurities(source)
        )


def objection(importer: str, name: str) -> str | None:
    """Why the module may not import what has this dotted name."""
    top = name.partition(".")[0]
    if name.startswith("."):
        return ": relative imports hide which way an arrow points"
    if top == "dilamme":
        down = lies_in(name, BELOW[part_of(importer)])
        return None if down else ", which is not below it"
    if top in HOMES:
        return None if lies_in(importer, HOMES[top]) else f", which is at home in {HOMES[top]}"
    return None if top in sys.stdlib_module_names else ", which is no library of ours, or a sibling"


def part_of(name: str) -> str:
    """The part of the project that a module belongs to."""
    return max((part for part in BELOW if lies_in(name, [part])), key=len)


def lies_in(name: str, parts: list[str]) -> bool:
    """Is the name one of the parts, or inside of one?"""
    return any(f"{name}.".startswith(f"{part}.") for part in parts)


def foreign_uses(source: Module) -> Iterator[str]:
    """What a module beside the store does with the driver, but for exceptions and the names it is known for."""
    for name in driver_names(source.tree):
        if name not in DRIVER_NAMES.get(source.name, set()) and not is_exception(name):
            yield name


def driver_names(tree: ast.AST) -> Iterator[str]:
    """What is used of psycopg: the longest dotted names, and what is imported from it."""
    yield from (name for name in imports(tree) if name.startswith("psycopg."))
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in inner and ast.unparse(node).startswith("psycopg."):
            yield ast.unparse(node)


def is_exception(name: str) -> bool:
    """Is it one of the driver's exceptions?"""
    found: object = psycopg
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    return isinstance(found, type) and issubclass(found, psycopg.Error)


def impurities(source: Module) -> Iterator[str]:
    """What touches the world."""
    for name in imports(source.tree):
        if name.partition(".")[0] in IMPURE_MODULES:
            yield f"imports {name}"
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in IMPURE_CALLS:
            yield f"calls {ast.unparse(node)}"


def names(source: Module) -> str:
    """How pytest shows a module."""
    return source.name


@pytest.mark.parametrize("source", modules(), ids=names)
def test_a_module_imports_only_what_lies_below_it(source: Module) -> None:
    assert list(problems(source)) == []


def test_the_walk_sees_every_part_of_the_project() -> None:
    assert {part_of(source.name) for source in modules()} == BELOW.keys()


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("dilamme.domain.job", "from dilamme.store import lanes"),
        ("dilamme.domain.job", "from dilamme import settings"),
        ("dilamme.domain.job", "import dilamme.scheduler.tick"),
        ("dilamme.domain.job", "import psycopg"),
        ("dilamme.domain.job", "from pydantic import BaseModel"),
        ("dilamme.domain.dag", "from dilamme.wire.requests import Submission"),
        ("dilamme.wire.requests", "import psycopg"),
        ("dilamme.wire.requests", "from dilamme.store import jobs"),
        ("dilamme.handlers.registry", "from dilamme.wire.requests import Submission"),
        ("dilamme.store.jobs", "from dilamme.wire.requests import Submission"),
        ("dilamme.usecases.wake", "from dilamme.worker.loop import Loop"),
        ("dilamme.worker.loop", "from dilamme.scheduler.lead import lead"),
        ("dilamme.scheduler.lead", "from dilamme.handlers.registry import registry"),
        ("dilamme.domain.job", "import boto3"),
        ("dilamme.domain.job", "def f():\n    from random import random"),
        ("dilamme.domain.job", "import time"),
        ("dilamme.domain.job", "from datetime import datetime, UTC\nnow = datetime.now(UTC)"),
        ("dilamme.domain.job", "from uuid import uuid4\nid = uuid4()"),
        ("dilamme.store.lanes", "from dilamme.usecases import tick"),
        ("dilamme.store.lanes", "from dilamme.aws.invoke import invoke"),
        ("dilamme.store.lanes", "from dilamme.settings import Settings"),
        ("dilamme.store.lanes", "import aws_lambda_powertools"),
        ("dilamme.aws.invoke", "from dilamme.store import lanes"),
        ("dilamme.aws.http", "from dilamme.store.lanes import claim"),
        ("dilamme.aws.invoke", "import psycopg\nconnection = psycopg.connect('')"),
        ("dilamme.scheduler.tick", "from dilamme.library import submit"),
        ("dilamme.scheduler.tick", "import boto3"),
        ("dilamme.scheduler.tick", "if TYPE_CHECKING:\n    from botocore.client import BaseClient"),
        ("dilamme.scheduler.tick", "from aws_lambda_powertools import Logger"),
        ("dilamme.scheduler.tick", "import psycopg\ndef f(): psycopg.connect('')"),
        ("dilamme.scheduler.tick", "from psycopg.rows import dict_row"),
        ("dilamme.scheduler.tick", "from psycopg import sql"),
        ("dilamme.scheduler.tick", "import sqlalchemy"),
        ("dilamme.scheduler.tick", "from . import wake"),
        ("dilamme.library", "import psycopg\npsycopg.connect('')"),
        ("functions.api.handler", "from functions.worker import handler"),
        ("functions.api.handler", "import routes"),
        ("functions.api.handler", "from . import routes"),
        ("functions.api.handler", "import boto3"),
        ("functions.worker.handler", "import jobs.demo"),
        ("functions.worker.jobs.email", "from dilamme.store.lanes import claim"),
        ("functions.worker.jobs.email", "import dilamme.store"),
    ],
)
def test_an_arrow_that_points_elsewhere_is_caught(name: str, source: str) -> None:
    found = list(problems(module(name, source)))
    assert found
    assert all(sentence.startswith(name) for sentence in found)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("dilamme.domain.job", "import math\nfrom datetime import datetime"),
        ("dilamme.store.lanes", "import psycopg\nfrom dilamme.domain.job import Head\npsycopg.connect('')"),
        ("dilamme.scheduler.tick", "import psycopg\ntry: ...\nexcept psycopg.errors.LockNotAvailable: ..."),
        ("dilamme.scheduler.tick", "from dilamme.store import lanes\nfrom dilamme.aws.invoke import invoke"),
        ("functions.api.handler", "from dilamme.usecases import read\nfrom aws_lambda_powertools import Logger"),
        ("functions.worker.jobs.email", "import smtplib\nfrom dilamme import Retry, job"),
    ],
)
def test_an_arrow_that_points_down_is_let_through(name: str, source: str) -> None:
    assert list(problems(module(name, source))) == []


def loaded_by(statement: str) -> set[str]:
    """The libraries that a fresh process has loaded after the statement."""
    program = f"import sys\n{statement}\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT / "shared", capture_output=True, text=True, check=True
    )
    return set(ended.stdout.split())


@pytest.mark.parametrize("statement", ["from dilamme import Context, job, submit", "import dilamme.library"])
def test_an_application_that_enqueues_does_not_pay_for_the_libraries_of_aws(statement: str) -> None:
    loaded = loaded_by(statement)
    assert "psycopg" in loaded
    assert not {"boto3", "botocore", "aws_lambda_powertools"} & loaded


@pytest.mark.parametrize(
    "statement",
    [
        "import dilamme",
        "from dilamme import Context, Retry, job",
        *(f"import {one.name}" for one in modules() if lies_in(one.name, ["dilamme.wire", "dilamme.handlers"])),
    ],
)
def test_a_client_of_the_api_and_a_module_of_handlers_need_no_driver(statement: str) -> None:
    loaded = loaded_by(statement)
    assert "dilamme" in loaded
    assert not {"psycopg", "boto3", "aws_lambda_powertools"} & loaded


def test_a_name_that_dilamme_does_not_have_is_an_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'submitt'"):
        dilamme.submitt  # type: ignore[attr-defined]  # noqa: B018
