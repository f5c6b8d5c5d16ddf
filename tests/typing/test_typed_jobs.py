"""Typed declarations and calls, right and wrong: what mypy says of each, beside what happens at run time."""

import re
import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

import dilamme
from dilamme import typed
from dilamme.handlers.registry import Registry
from dilamme.usecases import published
from tests.support.jobs import row

ROOT = Path(__file__).parents[2]
PREAMBLE = """
from __future__ import annotations
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, assert_type
from uuid import UUID
import psycopg
from pydantic import BaseModel
from typing_extensions import TypedDict
from dilamme import Context, job, submit_many

class Welcome(BaseModel):
    to: str
    order: int = 0

@dataclass
class Parcel:
    weight: float

class Letter(TypedDict):
    to: str

class Plain: ...

@job("mail.welcome", max_attempts=5)
def welcome(payload: Welcome, context: Context) -> int: return payload.order

@job("parcel.send")
async def send(payload: Parcel, context: Context) -> Letter: return {"to": "ada"}

@job("letter.write")
def write(payload: Letter, context: Context) -> None: ...

@job("plain")
def plain(payload: dict[str, Any], context: Context) -> None: ...

def calls(connection: psycopg.Connection[Any], context: Context) -> Any:
"""


class Line(NamedTuple):
    """A statement, the codes of mypy's errors in it, and the name of the error at run time."""

    source: str
    mypy: tuple[str, ...] = ()
    raises: str = ""


CALLS = [
    # Right.
    Line('return assert_type(welcome.submit(connection, Welcome(to="ada")), UUID)'),
    Line('return welcome.submit(connection, Welcome(to="ada"), priority=1, max_attempts=3, idempotency_key="k")'),
    Line("return send.submit(connection, Parcel(1.5))"),
    Line('return write.submit(connection, {"to": "ada"})'),
    Line('return plain.submit(connection, {"any": ["thing"]})'),
    Line('return submit_many(connection, [welcome.job(Welcome(to="ada"), ref="a"), {"type": "b", "dependency_refs": ["a"]}])'),
    Line('return assert_type(welcome(Welcome(to="ada", order=7), context), int)'),
    Line("return assert_type(send(Parcel(1.5), context), Coroutine[Any, Any, Letter]).close()"),
    Line("as_it_stands: Callable[[Welcome, Context], int] = welcome"),
    Line("return welcome.__name__"),
    # Wrong for mypy, and at run time.
    Line("return welcome.submit(connection, Parcel(1.5))", ("arg-type",), "InvalidInput"),
    Line("return welcome.submit(connection, None)", ("arg-type",), "InvalidInput"),
    Line('return welcome.submit(connection, {"order": "seven"})', ("arg-type",), "InvalidInput"),
    Line("return welcome.submit(connection)", ("call-arg",), "TypeError"),
    Line('return welcome.submit(Welcome(to="ada"), connection)', ("arg-type", "arg-type"), "InvalidInput"),
    Line('return welcome.submit(connection, Welcome(to="ada"), 1)', ("call-arg",), "TypeError"),
    Line('return welcome.submit(connection, Welcome(to="ada"), priority="high")', ("arg-type",), "InvalidInput"),
    Line('return welcome.submit(connection, Welcome(to="ada"), delay=5)', ("call-arg",), "InvalidInput"),
    Line('return welcome.submit(connection, Welcome(to="ada"), ref="a")', ("call-arg",), "InvalidInput"),
    Line("return send.submit(connection, Parcel('heavy'))", ("arg-type",), "InvalidInput"),
    Line('return write.submit(connection, {"from": "ada"})', ("typeddict-item", "typeddict-unknown-key"), "InvalidInput"),
    Line("return welcome.job(Parcel(1.5))", ("arg-type",), "InvalidInput"),
    Line('return welcome.job(Welcome(to="ada"), idempotency_key="k")', ("call-arg",), ""),
    Line("return welcome(Parcel(1.5), context)", ("arg-type",), "AttributeError"),
    Line('return welcome(Welcome(to="ada"))', ("call-arg",), "TypeError"),
    # Wrong for mypy, and taken at run time: JSON has no class.
    Line('return welcome.submit(connection, {"to": "ada"})', ("arg-type",)),
    Line("wrong: Callable[[Welcome, Context], str] = welcome", ("assignment",)),
]  # fmt: skip
DECLARATIONS = [
    # Right.
    Line('@job("a")\ndef a(payload: Welcome | None, context: Context) -> None: ...'),
    Line('@job("a")\ndef a(payload: list[Parcel], context: Any) -> Letter: return {"to": "a"}'),
    Line('@job("a", version=2)\ndef a(payload: Later, context: Context) -> None: ...\n'
         '@a.upcast(from_version=1)\ndef up(old: dict[str, Any]) -> dict[str, Any]: return old\n'
         'class Later(BaseModel): ...'),
    # Wrong for mypy, and at run time.
    Line('@job("a")\ndef a(payload: Welcome) -> None: ...', ("arg-type",), "ConfigurationError"),
    Line('@job("a")\ndef a(payload: Nowhere, context: Context) -> None: ...', ("name-defined",), "ConfigurationError"),
    Line("@job()\ndef a(payload: Welcome, context: Context) -> None: ...", ("call-arg",), "TypeError"),
    Line('@job("a", version="2")\ndef a(payload: Welcome, context: Context) -> None: ...', ("arg-type",),
         "ConfigurationError"),
    Line('@job("a", version=2)\ndef a(payload: Welcome, context: Context) -> None: ...\n'
         '@a.upcast()\ndef up(old: Any) -> Any: return old', ("call-arg",), "TypeError"),
    Line('@job("a", version=2)\ndef a(payload: Welcome, context: Context) -> None: ...\n'
         '@a.upcast(from_version=1)\ndef up() -> Any: ...', ("type-var",), ""),
    # What no type checker can know.
    Line('@job("a")\ndef a(payload: Plain, context: Context) -> None: ...', (), "ConfigurationError"),
    Line('@job("a", version=2)\ndef a(payload: Welcome, context: Context) -> None: ...', (), "ConfigurationError"),
    Line('@job("a")\ndef a(payload: Welcome, context: Context) -> None: ...\n'
         '@a.upcast(from_version=1)\ndef up(old: Any) -> Any: return old', (), "ConfigurationError"),
]  # fmt: skip


def program() -> tuple[str, dict[int, Line]]:
    """A module with all of them, each in a function of its own, and which line of the table a line of it belongs to."""
    lines = PREAMBLE.splitlines()[1:-1]
    owners: dict[int, Line] = {}
    for number, line in enumerate([*CALLS, *DECLARATIONS]):
        head = PREAMBLE.splitlines()[-1].replace("calls", f"calls_{number}")
        body = line.source.splitlines() if line in CALLS else []
        added = (
            ["", head, *(f"    {one}" for one in body)] if body else ["", *renamed(line.source, number).splitlines()]
        )
        owners |= {len(lines) + place: line for place in range(1, len(added) + 1)}
        lines += added
    return "\n".join(lines) + "\n", owners


def renamed(source: str, number: int) -> str:
    """A declaration's names, for a module that has many."""
    return re.sub(r"\b(a|up|Later)\b(?=[.(:,])", rf"\1_{number}", source)


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """mypy's error codes, by the table's sources."""
    text, owners = program()
    file = tmp_path_factory.mktemp("typed") / "typed_jobs.py"
    file.write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--no-pretty", str(file)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found: dict[str, list[str]] = {line.source: [] for line in owners.values()}
    for number, code in re.findall(r"typed_jobs\.py:(\d+): error: .*\[([\w-]+)\]", ended.stdout):
        assert int(number) in owners, ended.stdout
        found[owners[int(number)].source].append(code)
    assert re.search(r"^Found \d+ errors? in 1 file", ended.stdout, re.MULTILINE), ended.stdout + ended.stderr
    return found


@pytest.mark.parametrize("line", [*CALLS, *DECLARATIONS], ids=lambda line: line.source)
def test_mypy_sees_what_is_wrong(errors: dict[str, list[str]], line: Line) -> None:
    found = tuple(errors[line.source])
    # Whether mypy tells a mistake's consequences too depends on what its cache holds.
    assert found[: len(line.mypy)] == line.mypy
    assert bool(found) == bool(line.mypy)


def raised(name: str) -> AbstractContextManager[Any]:
    return pytest.raises(Exception, check=lambda error: type(error).__name__ == name) if name else nullcontext()


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The preamble, run with a registry of its own."""
    registry = Registry()
    monkeypatch.setattr(typed.job, "__kwdefaults__", {**(typed.job.__kwdefaults__ or {}), "registry": registry})
    monkeypatch.setattr(published, "_known", {})
    names: dict[str, Any] = {"__name__": "__main__", "registry": registry}
    exec(PREAMBLE.rpartition("def calls")[0], names)
    return names


@pytest.mark.parametrize("line", CALLS, ids=lambda line: line.source)
def test_a_wrong_call_is_refused_at_run_time(
    module: dict[str, Any], connection: psycopg.Connection[Any], line: Line
) -> None:
    exec(f"def call(connection, context):\n    {line.source}", module)
    with raised(line.raises):
        answer = module["call"](connection, None)
        if "submit(" in line.source:
            assert row(connection, answer)["type"] in ("mail.welcome", "parcel.send", "letter.write", "plain")


@pytest.mark.parametrize("line", DECLARATIONS, ids=lambda line: line.source)
def test_a_wrong_declaration_is_refused_at_the_start(module: dict[str, Any], line: Line) -> None:
    with raised(line.raises):
        exec(f"from __future__ import annotations\n{line.source}", module)
        module["registry"].resolve_shapes()


assert dilamme.job is typed.job
