"""Problem documents (RFC 9457) as the exceptions that `dilamme.submit` raises."""

import json
from typing import Any

from dilamme.domain import errors
from dilamme.domain.errors import PROBLEM_TYPE, DilammeError, Fault, InvalidInput


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
    code = str(told.get("type", "")).removeprefix(PROBLEM_TYPE)
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


_BY_CODE = {
    kind.code: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, DilammeError)
}
