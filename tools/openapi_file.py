"""The committed OpenAPI document: ``python -m tools.openapi_file`` writes it anew."""

import json
from pathlib import Path

from dilamme.aws import openapi
from functions.api import handler as api

FILE = Path(__file__).parents[1] / "docs" / "openapi.json"


def current() -> str:
    """The document as the API serves it."""
    return json.dumps(openapi.document(api.app), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(current(), encoding="utf-8")
