"""Reads the named blocks of ``sql/*.sql``.

``-- name: claim`` opens a statement. ``-- fragment: lane_heads`` opens a part of statements, and ``-- include: lane_heads``
inserts it, so that each condition is written once. ``make sql BLOCK=claim`` prints a whole statement. The rival is aiosql:
it makes its functions at run time, where mypy cannot see them, and it has no fragments.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from dilamme.store import job_columns

_OPENING = re.compile(r"^-- (name|fragment): (\w+)$", re.MULTILINE)
_INCLUDE = re.compile(r"^-- include: (\w+)$", re.MULTILINE)


@cache
def fragments() -> Mapping[str, str]:
    """Every fragment by name, from all files and from the table of columns."""
    written = {name: body for kind, name, body in _all_blocks() if kind == "fragment"}
    return MappingProxyType({**written, **job_columns.fragments()})


@cache
def blocks() -> Mapping[str, str]:
    """Every statement of all files by name, with its fragments inserted and its comments removed."""
    return MappingProxyType({name: expand(body) for kind, name, body in _all_blocks() if kind == "name"})


def sql(name: str) -> str:
    """The statement called ``name``; `KeyError` if there is none."""
    return blocks()[name]


def expand(body: str) -> str:
    """``body`` with its fragments inserted and its comments removed."""
    while _INCLUDE.search(body):
        body = _INCLUDE.sub(lambda match: fragments()[match[1]], body)
    return re.sub(r"(?m)^\s*--.*\n?|\s*--\s.*$", "", body).strip()


def _all_blocks() -> list[tuple[str, str, str]]:
    found = []
    folder = files("dilamme.store") / "sql"
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        parts = _OPENING.split(file.read_text(encoding="utf-8"))
        found += list(zip(parts[1::3], parts[2::3], parts[3::3], strict=True))
    names = [(kind, name) for kind, name, _ in found]
    if len(set(names)) != len(names):
        raise ValueError(f"a block of SQL is named twice: {sorted({n for n in names if names.count(n) > 1})}")
    return found
