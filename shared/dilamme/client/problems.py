"""Problem documents (RFC 9457) as the exceptions that `dilamme.submit` raises."""

import json
from collections.abc import Iterator
from typing import Any

from dilamme.domain import errors
from dilamme.domain.errors import DilammeError, Fault, InvalidInput

PREFIX = "urn:dilamme:problem:"


class Unreachable(DilammeError):
    """The API did not answer, or somebody else answered in its place."""

    status = 503
    title = "API unreachable"
    code = "api-unreachable"


class Refused(DilammeError):
    """The API, or what stands before it, refused the call; ``status`` says how."""

    title = "Refused"
    code = "refused"


def problem_in(status: int, content: bytes) -> DilammeError:
    """The error that an answer tells."""
    try:
        told: Any = json.loads(content)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        told = {}
    code = str(told.get("type", "")).removeprefix(PREFIX)
    detail = str(
        told.get("detail") or told.get("message") or f"the answer was {status}, without a word that can be read"
    )
    kind = _BY_CODE.get(code, Refused)
    if issubclass(kind, InvalidInput):
        faults = [Fault(str(one.get("pointer", "")), str(one.get("detail", ""))) for one in told.get("errors") or []]
        return kind(*(faults or [Fault("", detail)]))
    error = kind(detail)
    error.status = status
    return error


def _kinds(root: type[DilammeError]) -> Iterator[type[DilammeError]]:
    yield root
    for kind in root.__subclasses__():
        yield from _kinds(kind)


_BY_CODE = {kind.code: kind for kind in _kinds(DilammeError) if kind.__module__ == errors.__name__}
