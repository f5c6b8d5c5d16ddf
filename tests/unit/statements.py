"""Reads SQL as far as the structure tests need: which statements a block has, and what their clauses say.

Not a parser. It knows brackets, strings and parameters, and that our SQL writes keywords in capitals and names in small letters.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKENS = re.compile(r"'(?:[^']|'')*'|%\(\w+\)s|[()]|[^'()%]+|%")
_VERB = re.compile(r"\b(?:SELECT|INSERT INTO|DELETE FROM|UPDATE(?= dilamme\.))")
# FROM also stands in IS DISTINCT FROM, UPDATE also in FOR UPDATE and in ON CONFLICT … DO UPDATE.
_CLAUSE = re.compile(
    r"\b(SELECT|INSERT INTO|DELETE FROM|FOR (?:NO KEY )?UPDATE|FOR (?:KEY )?SHARE|DO UPDATE|UPDATE|SET|(?<!DISTINCT )FROM"
    r"|WHERE|GROUP BY|WINDOW|ORDER BY|LIMIT|OFFSET|ON CONFLICT|RETURNING)\b"
)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement, or sub-select: its clauses by their keywords, with what stands in brackets left out."""

    block: str
    verb: str  # SELECT, UPDATE, INSERT INTO, DELETE FROM
    clauses: dict[str, str]

    @property
    def lock(self) -> str | None:
        """The row lock that it takes by itself, such as FOR SHARE."""
        return next((keyword for keyword in self.clauses if keyword.startswith("FOR ")), None)

    @property
    def writes_to(self) -> str | None:
        """The table that it changes."""
        return None if self.verb == "SELECT" else self.clauses[self.verb].split()[0]

    @property
    def conditions(self) -> list[str]:
        """What must all be true of a row, without the alias; nothing, where an OR makes each of them optional."""
        where = self.clauses.get("WHERE", "")
        if re.search(r"\bOR\b", where):
            return []
        return [re.sub(r"^\w+\.", "", condition.strip()) for condition in re.split(r"\bAND\b", where)]

    def locks(self, table: str) -> bool:
        """Does it take a row lock on the table, by FOR …?"""
        return self.lock is not None and re.search(rf"\b{re.escape(table)}\b", self.clauses.get("FROM", "")) is not None


def statements(block: str, text: str) -> Iterator[Statement]:
    """The statements of a block, inner ones first."""
    for level in _levels(text):
        for part in re.split(r"\bUNION(?: ALL)?\b|;", level):
            if verb := _VERB.search(part):
                yield Statement(block, verb[0], _clauses(part[verb.start() :]))


def _levels(text: str) -> list[str]:
    """The text of each pair of brackets, and of what is outside of all, with () for each pair within."""
    found: list[str] = []
    stack: list[list[str]] = [[]]
    for token in _TOKENS.findall(text):
        if token == "(":
            stack.append([])
        elif token == ")":
            found.append("".join(stack.pop()))
            stack[-1].append("()")
        else:
            stack[-1].append(token)
    (outside,) = stack
    return [*found, "".join(outside)]


def _clauses(text: str) -> dict[str, str]:
    parts = _CLAUSE.split(" ".join(text.split()))
    return {keyword: body.strip() for keyword, body in reversed(list(zip(parts[1::2], parts[2::2], strict=True)))}
