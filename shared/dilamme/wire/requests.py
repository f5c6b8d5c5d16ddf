"""Requests: the one description of them that the API, its OpenAPI document and `dilamme.submit` share."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, NoReturn, TypeVar
from uuid import UUID

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from dilamme.domain.errors import Fault, InvalidInput, TooLarge, pointer
from dilamme.domain.job import VERSION_MAX, OnDependencyFailure
from dilamme.domain.misspelt import HINTS_MAX, nearest
from dilamme.domain.patterns import IN_WORDS, REF_PATTERN, TYPE_PATTERN
from dilamme.wire.canonical_json import as_kept, json_text

PAYLOAD_BYTES_MAX = 256 * 1024
BATCH_JOBS_MAX = 1_000
BATCH_BYTES_MAX = 4 * 1024 * 1024
DEPENDENCIES_MAX = 1_000
BATCH_DEPENDENCIES_MAX = 50_000  # stored in half a second to a second; all to all would be ten times as many
INTERVAL_SECONDS_MAX = 10 * 365 * 86_400
FIELDS_MAX = 50
REPLAY_JOBS_MAX = 1_000

# datetime.fromisoformat alone accepts far more than RFC 3339 (weeks, no zone, no seconds).
_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:[0-5]\d)", re.ASCII)
# UUID alone accepts braces, urn:uuid:, hyphens anywhere or nowhere, even underscores.
ID_FORM = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_SHOULD = re.compile(r"^\w+ should")  # pydantic's "Input should", "List should", …
_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(3000, 1, 1, tzinfo=UTC)
_TOO_LARGE = "too_large"
S = TypeVar("S", bound="Submission")


def _payload(value: Any) -> str:
    try:
        text = json_text(value)
    except ValueError as error:
        raise PydanticCustomError("json", "{why}", {"why": str(error)}) from None
    # In UTF-8 a character has four bytes at most, so a short text needs no counting.
    if len(text) > PAYLOAD_BYTES_MAX // 4 and (size := len(text.encode())) > PAYLOAD_BYTES_MAX:
        raise PydanticCustomError(
            _TOO_LARGE,
            "is {size} bytes of JSON; at most {limit} are stored: keep large data elsewhere and send a reference",
            {"size": size, "limit": PAYLOAD_BYTES_MAX},
        )
    return text


def _moment(value: Any) -> datetime:
    if isinstance(value, datetime):
        moment = value
    elif isinstance(value, str) and _RFC_3339.fullmatch(value):
        try:
            moment = datetime.fromisoformat(value.upper())
        except ValueError as error:
            _refuse_moment(f"is no valid time: {error}")
    else:
        _refuse_moment("must be a string in RFC 3339 with a zone, such as 2030-01-31T09:30:00Z")
    if moment.utcoffset() is None:
        _refuse_moment("has no time zone: give one, or Z for UTC")
    if not _EARLIEST <= moment < _LATEST:
        _refuse_moment("must lie between the years 1970 and 2999")
    return moment.astimezone(UTC)


def _refuse_moment(why: str) -> NoReturn:
    raise PydanticCustomError("rfc_3339", "{why}", {"why": why})


def _uuid(value: Any) -> UUID:
    if isinstance(value, UUID):
        return value
    if isinstance(value, str) and ID_FORM.fullmatch(value):
        return UUID(value)
    raise PydanticCustomError("uuid", "must be the id of a job, such as 01890a5d-ac96-774b-bcce-b302099a8057")


Moment = Annotated[datetime, PlainValidator(_moment), WithJsonSchema({"type": "string", "format": "date-time"})]
JobId = Annotated[UUID, PlainValidator(_uuid), WithJsonSchema({"type": "string", "format": "uuid"})]
Payload = Annotated[str, PlainValidator(_payload), WithJsonSchema({"description": "Any JSON, up to 256 KiB."})]
Ref = Annotated[str, Field(pattern=REF_PATTERN)]


class Request(BaseModel):
    """The base of all requests: camelCase, strict types, no unknown fields."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, alias_generator=to_camel, hide_input_in_errors=True
    )

    def __repr__(self) -> str:
        # Powertools makes the text of each request for its debug log, even if that is off. Payloads may hold secrets.
        return f"<{type(self).__name__}>"

    __str__ = __repr__

    @model_validator(mode="before")
    @classmethod
    def _has_few_fields(cls, value: Any) -> Any:
        # Each unknown field makes a fault, and a batch has room for half a million unknown fields.
        if isinstance(value, dict) and len(value) > FIELDS_MAX:
            raise PydanticCustomError("too_many_fields", "has more than {limit} fields", {"limit": FIELDS_MAX})
        return value


def _policy(value: Any) -> Any:
    try:
        return OnDependencyFailure(value)
    except ValueError:
        raise PydanticCustomError("policy", "must be 'wait' or 'cancel'") from None


class Submission(Request):
    """One job to be stored. Field names are camelCase in JSON; in Python, `parse` takes snake_case too."""

    type: str = Field(pattern=TYPE_PATTERN, description="Names the handler that runs it.", examples=["email.send"])
    payload: Payload = Field(
        default_factory=lambda: "{}", description="What the handler gets: any JSON, up to 256 KiB; {} when left out."
    )
    priority: int = Field(2, ge=1, le=3, description="1 is high, 2 medium, 3 low.")
    scheduled_at: Moment | None = Field(None, description="Not before this time (RFC 3339); now when left out.")
    interval_seconds: int | None = Field(
        None, ge=1, le=INTERVAL_SECONDS_MAX, description="Repeats on the grid scheduledAt + n × intervalSeconds."
    )
    dependency_ids: list[JobId] = Field(
        default_factory=list, max_length=DEPENDENCIES_MAX, description="Runs after all of these have completed."
    )
    max_attempts: int | None = Field(None, ge=1, le=25, description="Else the type's, else the setting.")
    payload_version: int | None = Field(
        None,
        ge=1,
        le=VERSION_MAX,
        description="Which version of its type's payload this is; when left out, the one that workers have published.",
    )
    on_dependency_failure: Annotated[OnDependencyFailure, BeforeValidator(_policy)] = Field(
        OnDependencyFailure.WAIT, description="When a dependency is dead or cancelled: wait, or be cancelled too."
    )


class BatchSubmission(Submission):
    """A job of a batch: it may carry a name, and depend on others of the batch by theirs."""

    ref: Ref | None = Field(None, description="A name for this job, unique in the batch.")
    dependency_refs: list[Ref] = Field(
        default_factory=list, max_length=DEPENDENCIES_MAX, description="Runs after these jobs of the same batch."
    )


class Batch(Request):
    """Jobs to be stored together: all of them or none."""

    jobs: list[BatchSubmission] = Field(
        min_length=1,
        max_length=BATCH_JOBS_MAX,
        description=f"All of them together may have up to {BATCH_DEPENDENCIES_MAX:,} dependencies.",
    )


class DeadLetters(Request):
    """Which dead jobs to replay: the oldest ones, of a type or of all."""

    type: str | None = Field(None, pattern=TYPE_PATTERN)
    limit: int = Field(REPLAY_JOBS_MAX, ge=1, le=REPLAY_JOBS_MAX)


def parse(model: type[S], fields: Mapping[str, Any], index: int | None = None) -> S:
    """``fields`` as a submission; ``index`` is its own in a batch, for the faults' pointers.

    Raises:
        InvalidInput: a field is wrong; each fault names one. It is `TooLarge` if only sizes are wrong.
    """
    try:
        return model.model_validate(dict(fields), by_alias=True, by_name=True)
    except ValidationError as error:
        prefix = () if index is None else ("jobs", index)
        errors = [{**e, "loc": (*prefix, *e["loc"])} for e in error.errors()]
        raise invalid_input(errors) from None


def invalid_input(errors: Sequence[Mapping[str, Any]], skip: int = 0) -> InvalidInput:
    """Pydantic's errors as one of ours, without the first ``skip`` parts of each location."""
    faults = [
        Fault(pointer(error["loc"][skip:]), (place < HINTS_MAX and _meant(error)) or detail(error))
        for place, error in enumerate(errors)
    ]
    too_large = all(error["type"] == _TOO_LARGE for error in errors)
    return (TooLarge if too_large else InvalidInput)(*faults)


def _meant(error: Mapping[str, Any]) -> str:
    if error["type"] != "extra_forbidden":
        return ""
    names = list(BatchSubmission.model_fields)
    known = [*Batch.model_fields, *DeadLetters.model_fields, *names, *map(to_camel, names)]
    near = nearest(str(error["loc"][-1]), known)
    return near and f"is not a known field: did you mean '{near}'?"


def detail(error: Mapping[str, Any]) -> str:
    """The fault and its remedy, without the caller's value, which may be a secret."""
    match error["type"]:
        case "extra_forbidden":
            return "is not a known field: remove it or correct its name"
        case "missing":
            return "is required"
        case "string_pattern_mismatch":
            return f"must be {IN_WORDS[error['ctx']['pattern']]}"
        case "model_type" | "model_attributes_type":
            return "must be a JSON object"
        case _:
            message: str = error["msg"]
            return _SHOULD.sub("must", message, count=1)


def request_hash(submissions: Sequence[Submission], *, of_kept: bool = False) -> bytes:
    """SHA-256 of the parsed request: its spelling, its order of keys and written-out defaults make no difference.

    Defaults are left out, so that a field that a later version adds leaves the hash of an older request as it was: the
    request may come again after the upgrade, under its key. So may a typed one, from code that has come to name its version.

    ``of_kept`` gives the hash that the SQL function has stored for the same request: it sees the payload as ``jsonb``.
    """
    # Without warnings: pydantic serializes a PlainValidator's value twice, and warns that the second value is text.
    dumped = [
        s.model_dump(mode="json", exclude={"payload_version"}, exclude_defaults=True, warnings=False)
        for s in submissions
    ]
    for fields in dumped:
        if of_kept and "payload" in fields:
            fields["payload"] = as_kept(fields["payload"])
    canonical = json.dumps(dumped, sort_keys=True)
    return hashlib.sha256(canonical.encode()).digest()
