"""The tree of errors that a caller may meet; each carries the HTTP status it means, and a code for programs.

A code stays what it is: callers compare it. docs/problems.md lists them all.

A lost race is not among them: it is an empty result (CONTRIBUTING says why).
"""

from collections.abc import Iterable
from dataclasses import dataclass

# With a code, the type of a problem document. A URN, since a program compares the type: a path would be another URI at each
# deployment (RFC 9457, 3.1.1), and an https or a tag URI would need a domain of the project's own. In `type`, not in a member
# beside it: `about:blank` would say that nothing but the status is known, while one status has several problems.
PROBLEM_TYPE = "urn:dilamme:problem:"


class DilammeError(Exception):
    """The root of what this project raises on purpose."""

    status = 500
    title = "Internal error"
    code = "internal-error"


class ConfigurationError(DilammeError):
    """A setting or a job type cannot work as it stands; raised when a process starts."""

    title = "Wrong configuration"
    code = "wrong-configuration"


class SchemaError(DilammeError):
    """The database is not migrated, or has a version that this code does not know."""

    status = 503
    title = "Database not ready"
    code = "database-not-ready"


class DatabaseUnavailable(DilammeError):
    """PostgreSQL did not answer."""

    status = 503
    title = "Database unavailable"
    code = "database-unavailable"


class DatabaseReadOnly(DatabaseUnavailable):
    """PostgreSQL answers, but takes no writes: a standby, during a failover, or a setting of its owner's."""

    title = "Database takes no writes"
    code = "database-read-only"


class OutcomeUnknown(DatabaseUnavailable):
    """The connection was lost during a request: its changes may have been committed."""

    title = "Outcome unknown"
    code = "outcome-unknown"


@dataclass(frozen=True)
class Fault:
    """One fault in a caller's input: its place (a JSON pointer), and what is wrong or to be done."""

    pointer: str
    detail: str


def pointer(location: Iterable[str | int]) -> str:
    """A JSON pointer (RFC 6901) for a path of keys and indices."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in location)


class InvalidInput(DilammeError):
    """The input was understood and refused; nothing was stored."""

    status = 422
    title = "Invalid input"
    code = "invalid-input"

    def __init__(self, *faults: Fault) -> None:
        super().__init__("; ".join(f"{fault.pointer or '/'}: {fault.detail}" for fault in faults))
        self.faults = faults


class TooLarge(InvalidInput):
    """A field or a body exceeds its stated size; nothing was stored."""

    status = 413
    title = "Too large"
    code = "too-large"


class NotFound(DilammeError):
    """No job or series has that id."""

    status = 404
    title = "Not found"
    code = "not-found"


class Conflict(DilammeError):
    """The job's present state forbids it."""

    status = 409
    title = "Conflict"
    code = "state-conflict"


class IdempotencyConflict(Conflict):
    """The idempotency key stands for another request."""

    code = "idempotency-conflict"
