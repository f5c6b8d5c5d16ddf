"""The project's own Python, read and not run: modules, the names they import, and the strings they hold."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "shared" / "dilamme"
FUNCTIONS = ROOT / "functions"


@dataclass(frozen=True, slots=True)
class Module:
    """A module by its dotted name, and what it says."""

    name: str
    tree: ast.Module


@cache
def modules() -> tuple[Module, ...]:
    """All modules of the package and of the functions."""
    package = [(file, ROOT / "shared") for file in PACKAGE.rglob("*.py")]
    functions = [(file, ROOT) for file in FUNCTIONS.rglob("*.py")]
    return tuple(
        module(_dotted(file, root), file.read_text(encoding="utf-8")) for file, root in sorted(package + functions)
    )


def deployed() -> tuple[Module, ...]:
    """Those that a function runs: all but what is for tests."""
    return tuple(one for one in modules() if not f"{one.name}.".startswith("dilamme.testing."))


def module(name: str, source: str) -> Module:
    """A module of this source."""
    return Module(name, ast.parse(source))


def _dotted(file: Path, root: Path) -> str:
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(tree: ast.AST) -> Iterator[str]:
    """What is imported, as dotted names: ``from a import b`` is a.b, and a relative import begins with a dot."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names)


def strings(tree: ast.AST) -> Iterator[str]:
    """The strings that are not docstrings; of an f-string, its fixed parts in one."""
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told | parts:
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
