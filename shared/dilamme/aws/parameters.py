"""Parameters that several of the API's routes have."""

from collections.abc import Iterable
from typing import Annotated
from uuid import UUID

from aws_lambda_powertools.event_handler.openapi.params import Header, Path

from dilamme.domain.errors import Fault, InvalidInput, NotFound
from dilamme.domain.misspelt import HINTS_MAX, nearest
from dilamme.domain.patterns import IDEMPOTENCY_KEY_PATTERN
from dilamme.wire.requests import BATCH_BYTES_MAX, ID_FORM, PAYLOAD_BYTES_MAX

# An escaped payload has up to three times its size; the rest is for a thousand dependencies and white space.
BODY_BYTES_MAX = {
    "/jobs": 4 * PAYLOAD_BYTES_MAX,
    "/jobs/batch": BATCH_BYTES_MAX,
    "/dead-letters/replay": 4096,
}
TYPES_PARAMETERS = {"limit", "cursor"}
LIST_PARAMETERS = {"status", "type", "priority", "seriesId", "limit", "cursor"}

Id = Annotated[str, Path(description="The id, a UUID.")]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=IDEMPOTENCY_KEY_PATTERN,
        description="The same key and body again: 200 and the first ids. Lives as long as its jobs.",
    ),
]


def uuid_of(text: str, kind: str) -> UUID:
    """The id in a path.

    Raises:
        NotFound: it is no UUID, so no job or series, as ``kind`` says, has it.
    """
    if ID_FORM.fullmatch(text):
        return UUID(text)
    raise NotFound(f"no {kind} has the id {text}")


def refuse_unknown(sent: Iterable[str], known: set[str]) -> None:
    """Refuses parameters of the query that have another name: ignored, a misspelt filter would list everything.

    Raises:
        InvalidInput: there is such a one; each fault says which name was probably meant.
    """
    faults: list[Fault] = []
    for name in sorted({*sent} - known):
        near = nearest(name, known) if len(faults) < HINTS_MAX else ""
        faults.append(
            Fault(
                f"/{name}", f"is not a known parameter: did you mean '{near}'?" if near else "is not a known parameter"
            )
        )
    if faults:
        raise InvalidInput(*faults)
