"""Reads the JSON that callers send, strictly, and the JSON that PostgreSQL keeps, without letting it grow."""

import json
from decimal import Decimal
from typing import Any, NoReturn

from dilamme.domain.errors import DilammeError, Fault, InvalidInput


class Malformed(DilammeError):
    """The body is not JSON at all, or not the same JSON to every reader; nothing was stored."""

    status = 400
    title = "Malformed request"
    code = "malformed-request"


def loads(text: str) -> Any:
    """The value of ``text``.

    A name that occurs twice in one object is refused; `json` would take the last one. Parsers differ in which of the two
    counts (RFC 8259, section 4), and a job that runs with the wrong one is worse than a 400.

    Raises:
        Malformed: it is not JSON; the message says where. NaN and Infinity are not JSON either.
        InvalidInput: it is JSON, but too deep or with a number too long to be read.
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise Malformed(f"the body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise InvalidInput(Fault("", "is nested too deeply: flatten it")) from None
    except ValueError:  # int() reads no more than 4,300 digits
        raise InvalidInput(Fault("", "holds a number of thousands of digits: send it as a string")) from None


def _refuse_constant(name: str) -> NoReturn:
    raise Malformed(f"the body is not JSON: {name} is no JSON value")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        doubled = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise Malformed(f"the body is ambiguous: the name {doubled[:100]!a} occurs twice in one object")
    return found


def loads_kept(text: str) -> Any:
    """The value of a ``jsonb`` column's text.

    ``jsonb`` writes 1e300 out as 301 digits: 256 KiB of such numbers would outgrow the answer that Lambda allows. Only
    numbers longer than any id are shortened again, since a reader may take 1e20 for less exact than its 21 digits.
    """
    return json.loads(text, parse_int=_shortest)


def _shortest(digits: str) -> int | float:
    number, short = int(digits), float(digits)
    return short if len(digits) > 40 and Decimal(repr(short)) == number else number
