"""HTTP on API Gateway: checks and decodes requests, and makes every error a problem (RFC 9457)."""

import base64
import json
import traceback
from collections.abc import Mapping
from functools import partial
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError
from aws_lambda_powertools.event_handler.openapi.exceptions import RequestValidationError
from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEventV2

from dilamme.domain.errors import (
    PROBLEM_TYPE,
    DatabaseReadOnly,
    DatabaseUnavailable,
    DilammeError,
    Fault,
    InvalidInput,
    NotFound,
    OutcomeUnknown,
    TooLarge,
)
from dilamme.wire import strict_json
from dilamme.wire.answers import FaultView, Problem
from dilamme.wire.requests import invalid_input
from dilamme.wire.strict_json import Malformed

JSON = "application/json"
PROBLEM_JSON = "application/problem+json"
FAULTS_MAX = 100
POINTER_CHARACTERS_MAX = 300  # an unknown field's name may be as long as the body
_RETRY_AFTER_SECONDS = "2"
_OUTCOME_UNKNOWN = (
    "the database's answer was lost: what you asked for may have been done, or not. "
    "With an Idempotency-Key send the same request again; without one look before you repeat it"
)
_PROBLEMS = {
    400: "The body is not JSON.",
    404: "No such job or series.",
    409: "The present state forbids it, or the idempotency key stands for another request.",
    413: "The body or a payload is too large.",
    415: "A body that is not declared to be JSON.",
    422: "A value is wrong; `errors` has a pointer to each.",
    503: "The database does not answer, takes no writes, or is not migrated.",
}


class UnsupportedMediaType(DilammeError):
    """The body says that it is something other than JSON."""

    status = 415
    title = "Unsupported media type"
    code = "unsupported-media-type"


class UnknownPath(NotFound):
    """The API has nothing at this path."""

    code = "unknown-path"


class MethodNotAllowed(DilammeError):
    """The path is known, but the method is not one of ``allowed``."""

    status = 405
    title = "Method not allowed"
    code = "method-not-allowed"

    def __init__(self, method: str, allowed: list[str]) -> None:
        self.allowed = ", ".join(allowed)
        super().__init__(f"{method} is not possible here: use {self.allowed}")


class Door(APIGatewayHttpResolver):
    """A resolver that checks requests and answers by their models, describes itself, and knows each path's methods."""

    def __init__(self) -> None:
        super().__init__(
            enable_validation=True,
            # An answer that does not fit its model is our mistake, not the caller's.
            response_validation_error_http_code=500,
            json_body_deserializer=read_object,
            # As UTF-8: escaped, a page of long error messages could outgrow the answer that Lambda allows.
            serializer=partial(json.dumps, ensure_ascii=False, separators=(",", ":")),
        )

        # `dilamme.aws.openapi` is imported at its first use: its tenth of a second would prolong every cold start.
        @self.get("/openapi.json", include_in_schema=False)
        def describe() -> dict[str, Any]:
            from dilamme.aws import openapi  # noqa: PLC0415

            return openapi.document(self)

        @self.get("/docs", include_in_schema=False)
        def show_docs() -> Response[Any]:
            from dilamme.aws import openapi  # noqa: PLC0415

            return Response(200, "text/html; charset=utf-8", openapi.page(self))

    def methods_of(self, path: str) -> list[str]:
        """The methods of a path, none if it is unknown; as in Powertools, a fixed path goes before a pattern."""
        for routes in (self._static_routes, self._dynamic_routes):
            if methods := {route.method for route in routes if route.rule.match(path)}:
                return sorted(methods)
        return []


def admit(event: dict[str, Any], body_bytes_max: Mapping[str, int]) -> dict[str, Any]:
    """The event, with its body decoded if its path is one of ``body_bytes_max``; what is in other bodies is ignored.

    Every body must be declared to be JSON: a page of another origin can send a form, or no type, and no browser asks first.
    It runs before Powertools, which would validate a body of any size, accept a form in place of JSON, and show the errors of
    base64 and UTF-8 as errors of ours.

    Raises:
        UnsupportedMediaType: the body is not declared to be JSON.
        TooLarge: it has more bytes than its path accepts.
        Malformed: it is not UTF-8.
    """
    request = APIGatewayProxyEventV2(event)
    if request.http_method != "POST":
        return event
    limit = body_bytes_max.get(request.path)
    declared = request.headers.get("content-type") or ""
    media_type = declared.partition(";")[0].strip().lower()
    if media_type != JSON and (limit is not None or declared or event.get("body")):
        instead = f"not {media_type[:100]!a}" if declared else "which is missing"
        raise UnsupportedMediaType(
            f"the body must be JSON, sent with the header 'Content-Type: {JSON}', {instead} "
            f"(curl -d sends a form unless -H 'content-type: {JSON}' is given)"
        )
    if limit is None:
        return event
    sent = event.get("body") or ""
    too_large = TooLarge(Fault("", f"may have {limit:,} bytes at most"))
    if len(sent) > limit * 2:  # too large in either encoding, so decoding it would be wasted
        raise too_large
    try:
        raw = base64.b64decode(sent, validate=True) if event.get("isBase64Encoded") else sent.encode()
        body = raw.decode()
    except ValueError:
        raise Malformed("the body is not UTF-8 text") from None
    if len(raw) > limit:
        raise too_large
    # In lower case, since Powertools compares it so.
    return {**event, "body": body, "isBase64Encoded": False, "headers": {**request.headers, "content-type": JSON}}


def answers(success: dict[int, str], *problems: int) -> dict[int, Any]:
    """For the OpenAPI document: a route's answers on success, and the problems that it may answer with."""
    return {status: {"description": text} for status, text in success.items()} | {
        status: {"description": _PROBLEMS[status], "content": {PROBLEM_JSON: {"model": Problem}}}
        for status in (*problems, 503)
    }


def read_object(body: str) -> dict[str, Any]:
    """The JSON object in a body.

    The models cannot check this: Powertools gives them the first element of an array as if it were the object.

    Raises:
        Malformed: it is not JSON.
        InvalidInput: it is JSON but no object, or it is empty.
    """
    value = strict_json.loads(body) if body.strip() else None
    if not isinstance(value, dict):
        raise InvalidInput(Fault("", "must be a JSON object"))
    return value


def problem(raised: Exception, meaning: Exception, logger: Logger) -> Response[str]:
    """The answer to a raised error, by its meaning. An unexpected error is logged; the answer shows nothing of it."""
    known = _known(meaning)
    if known.status >= 500:
        _log(raised, meaning, known, logger)
    described = Problem(
        type=PROBLEM_TYPE + known.code,
        title=known.title,
        status=known.status,
        detail=_detail(known),
        errors=_faults(known),
    )
    body = described.model_dump(by_alias=True, exclude=None if described.errors else {"errors"})
    headers: dict[str, str | list[str]] = {}
    if isinstance(known, MethodNotAllowed):
        headers = {"Allow": known.allowed}
    elif known.status == 503 and not isinstance(known, OutcomeUnknown):  # a blind retry could store that job twice
        headers = {"Retry-After": _RETRY_AFTER_SECONDS}
    # ASCII: a field's name, and so the pointer to it, may hold half a surrogate pair.
    return Response(known.status, PROBLEM_JSON, json.dumps(body), headers=headers)


def as_answer(response: Response[str]) -> dict[str, Any]:
    """The response in API Gateway's form, for errors that are raised outside the resolver."""
    return {
        "statusCode": response.status_code,
        "headers": response.headers,
        "body": response.body,
        "isBase64Encoded": False,
    }


def _known(error: Exception) -> DilammeError:
    if isinstance(error, DilammeError):
        return error
    if isinstance(error, RequestValidationError):
        return invalid_input(error.errors(), skip=1)  # the first part says body, query or header
    if isinstance(error, NotFoundError):
        return UnknownPath("nothing is at this path: GET /openapi.json lists what is")
    return DilammeError()


def _detail(error: DilammeError) -> str:
    if isinstance(error, OutcomeUnknown):
        return _OUTCOME_UNKNOWN
    if isinstance(error, DatabaseReadOnly):
        return "the database takes no writes at present: try again"
    if isinstance(error, DatabaseUnavailable):
        return "the database does not answer: try again"  # its own words name hosts and users
    if error.status == 500:
        return "an unexpected error; it has been logged"
    if not isinstance(error, InvalidInput):
        return str(error)
    if len(error.faults) > 1:
        return f"{len(error.faults):,} faults: see errors"
    return "; ".join(f"{fault.pointer or 'the body'}: {fault.detail}" for fault in _faults(error))


def _faults(error: DilammeError) -> list[FaultView]:
    faults = error.faults[:FAULTS_MAX] if isinstance(error, InvalidInput) else ()
    return [FaultView(pointer=fault.pointer[:POINTER_CHARACTERS_MAX], detail=fault.detail) for fault in faults]


def _log(raised: Exception, meaning: Exception, known: DilammeError, logger: Logger) -> None:
    """Logs the frames without their source, and the message without PostgreSQL's details: these may hold a payload."""
    frames = traceback.extract_tb(raised.__traceback__)
    extra = {
        "error": type(raised).__name__,
        "error_message": (str(meaning).strip() or type(raised).__name__).splitlines()[0],
        "frames": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
    }
    logger.error(known.title, extra=extra)
