"""The API's description of itself, imported only when somebody asks for it."""

import json
from pathlib import Path
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, openapi
from aws_lambda_powertools.event_handler.openapi.swagger_ui import generate_swagger_html

from dilamme.aws.http import PROBLEM_JSON

TITLE = "Dilamme"
VERSION = "1"
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
        app.get_openapi_json_schema(title=TITLE, version=VERSION, description=DESCRIPTION)
    )
    for path in found["paths"].values():
        for operation in path.values():
            answers = sorted(operation["responses"].items())
            operation["responses"] = {status: answer for status, answer in answers if not _foreign(answer)} | _MISTAKE
    for name in _FOREIGN:
        found["components"]["schemas"].pop(name, None)
    return found


def _foreign(answer: dict[str, Any]) -> bool:
    return any(f'/{name}"' in json.dumps(answer) for name in _FOREIGN)


def page(app: APIGatewayHttpResolver) -> str:
    """Swagger UI on the document, in one file: it loads nothing from elsewhere."""
    folder = Path(openapi.__file__).parent / "swagger_ui"
    script = (folder / "swagger-ui-bundle.min.js").read_text(encoding="utf-8")
    style = (folder / "swagger-ui.min.css").read_text(encoding="utf-8")
    # A closing tag inside a description would end the script that the document stands in.
    spec = json.dumps(document(app)).replace("</", "<\\/")
    return generate_swagger_html(spec, script, style, "", None)
