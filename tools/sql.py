"""Prints a statement of ``shared/dilamme/store/sql`` whole: `make sql BLOCK=claim`.

A file there names the fragments of a statement (`-- include: ready`). This prints the statement with each fragment in its
place, comments kept. Without a name it lists the statements of each file.
"""

import re
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from importlib.resources import files

from dilamme.store.sql_blocks import fragments

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_NEXT = re.compile(r"^-- (?:name|fragment): ", re.MULTILINE)
_INCLUDE = re.compile(r"-- include: (\w+)")


def statements() -> dict[str, dict[str, str]]:
    """By file, the text of each statement by its name, as it is written there."""
    folder = files("dilamme.store") / "sql"
    found = {}
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        parts = _NAME.split(file.read_text(encoding="utf-8"))
        found[file.name] = {name: _NEXT.split(text)[0] for name, text in zip(parts[1::2], parts[2::2], strict=True)}
    return found


def whole(name: str) -> str:
    """The statement with its fragments in place; `LookupError`, with a sentence, if there is none of this name."""
    texts = {block: text for blocks in statements().values() for block, text in blocks.items()}
    if name not in texts:
        raise LookupError(_unknown(name, list(texts)))
    return "\n".join(_filled(texts[name], ""))


def catalogue() -> str:
    """The names of all statements, a line a file."""
    listed = [f"{file:<22} {' '.join(blocks)}" for file, blocks in statements().items()]
    return "\n".join(["make sql BLOCK=…  prints one of these:", *listed])


def _filled(text: str, indent: str) -> Iterator[str]:
    """The lines of a text, each fragment as deep as the line before it."""
    before = indent
    for line in text.strip("\n").splitlines():
        if include := _INCLUDE.fullmatch(line):
            yield f"{before}-- fragment: {include[1]}"
            yield from _filled(fragments()[include[1]], before)
        else:
            yield indent + line
            before = indent + line[: len(line) - len(line.lstrip())]


def _unknown(name: str, names: list[str]) -> str:
    if name in fragments():
        users = [block for block in names if f"-- fragment: {name}\n" in whole(block)]
        return f"{name} is a fragment, a part of these statements: {' '.join(users)}"
    near = get_close_matches(name, names, n=3)
    hint = f"Did you mean {' or '.join(near)}?" if near else "`make sql` lists all names."
    return f"No statement is called {name}. {hint}"


def main(arguments: list[str]) -> int:
    """Prints what is asked for; the exit code."""
    try:
        sys.stdout.write((whole(arguments[0]) if arguments else catalogue()) + "\n")
    except LookupError as unknown:
        sys.stderr.write(f"{unknown.args[0]}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
