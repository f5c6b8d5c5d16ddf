"""The API's description of itself, imported only when somebody asks for it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, openapi
from aws_lambda_powertools.event_handler.openapi.models import Tag
from aws_lambda_powertools.event_handler.openapi.swagger_ui import generate_swagger_html

from dilamme.aws.http import PROBLEM_JSON
from dilamme.domain.errors import PROBLEM_TYPE, DilammeError

TITLE = "Dilamme"
VERSION = "1"
TAGS = {
    "jobs": "Store jobs, list and show them, ask why one is not running, cancel it.",
    "series": "A recurring job with all its occurrences.",
    "dead letters": "Jobs whose attempts are used up, and how to bring them back.",
    "system": "How the scheduler fares.",
}
# A generated client has these names for its classes: the API's nouns, while ours tell what is sent from what is stored.
NAMES = {
    "BatchSubmission": "NewBatchJob",
    "BatchView": "Batch",
    "Batch": "NewBatch",
    "BatchedJob": "BatchJob",
    "Because": "Reason",
    "DeadLetters": "DeadLetterSelection",
    "ErrorView": "JobError",
    "FaultView": "Fault",
    "JobView": "Job",
    "ReplayedDead": "ReplayedDeadLetters",
    "SchedulerView": "Scheduler",
    "Status": "JobStatus",
    "Submission": "NewJob",
    "Tally": "CountByPriority",
    "TypePage": "JobTypePage",
    "TypeView": "JobType",
    "Why": "Explanation",
}
_SCHEMAS = "#/components/schemas/"
# Powertools overwrites what a route says of 500.
_MISTAKE = {
    "500": {
        "description": "A mistake of ours, logged.",
        "content": {PROBLEM_JSON: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
}
_FOREIGN = ("HTTPValidationError", "ResponseValidationError", "ValidationError")
DESCRIPTION = (
    "Jobs are stored in PostgreSQL and run by priority, with ageing, when their time has come and their dependencies "
    "have completed. Names are camelCase, times RFC 3339 in UTC. Errors are `application/problem+json` (RFC 9457)."
)


def document(app: APIGatewayHttpResolver) -> dict[str, Any]:
    """The OpenAPI 3.1 document, without Powertools' own errors, which never leave this API."""
    found: dict[str, Any] = json.loads(
        app.get_openapi_json_schema(
            title=TITLE,
            version=VERSION,
            description=DESCRIPTION,
            tags=[Tag(name=name, description=text) for name, text in TAGS.items()],
        ),
        object_hook=_with_public_reference,
    )
    for path in found["paths"].values():
        for operation in path.values():
            answers = sorted(operation["responses"].items())
            operation["responses"] = {
                status: answer
                for status, answer in answers
                if not any(f'/{name}"' in json.dumps(answer) for name in _FOREIGN)
            } | _MISTAKE
    for name in _FOREIGN:
        found["components"]["schemas"].pop(name, None)
    schemas = found["components"]["schemas"] = {
        NAMES.get(name, name): {**schema, "title": NAMES.get(name, name)}
        for name, schema in found["components"]["schemas"].items()
    }
    # Examples, not an enum: a client that is older than the API must take a type that it does not know.
    schemas["Problem"]["properties"]["type"]["examples"] = sorted(PROBLEM_TYPE + code for code in set(_codes()))
    return found


def _with_public_reference(part: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in part:
        name = part["$ref"].removeprefix(_SCHEMAS)
        part["$ref"] = _SCHEMAS + NAMES.get(name, name)
    return part


def _codes(error: type[DilammeError] = DilammeError) -> Iterator[str]:
    yield error.code
    for kind in error.__subclasses__():
        if not kind.__module__.startswith("dilamme.client."):  # which no answer of the API's means
            yield from _codes(kind)


def page(app: APIGatewayHttpResolver) -> str:
    """Swagger UI on the document, in one file: it loads nothing from elsewhere."""
    folder = Path(openapi.__file__).parent / "swagger_ui"
    script = (folder / "swagger-ui-bundle.min.js").read_text(encoding="utf-8")
    style = (folder / "swagger-ui.min.css").read_text(encoding="utf-8")
    # A closing tag inside a description would end the script that the document stands in.
    spec = json.dumps(document(app)).replace("</", "<\\/")
    return generate_swagger_html(spec, script, style, "", None)
