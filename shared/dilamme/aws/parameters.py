"""Parameters that several of the API's routes have."""

from typing import Annotated
from uuid import UUID

from aws_lambda_powertools.event_handler.openapi.params import Header, Path

from dilamme.domain.errors import NotFound
from dilamme.domain.patterns import IDEMPOTENCY_KEY_PATTERN
from dilamme.wire.requests import ID_FORM

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
