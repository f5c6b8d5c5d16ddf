"""docs/api.md has the API's routes, a job's fields and the statuses that it answers with."""

import json

from dilamme.wire.requests import Submission
from tests.support.pages import table, text

DOCUMENT = json.loads(text("docs/openapi.json"))


def test_it_has_every_route() -> None:
    told = {
        route.strip("` ") for row in table("docs/api.md", "| route | what it does |") for route in row[0].split(",")
    }
    there = {
        f"{method.upper()} {path}".replace("{job_id}", "{id}").replace("{series_id}", "{id}")
        for path, operations in DOCUMENT["paths"].items()
        for method in operations
    }
    assert told == there


def test_it_has_every_field_of_a_job() -> None:
    told = [row[0].strip("`") for row in table("docs/api.md", "| field | |")]
    assert set(told) == {field.alias for field in Submission.model_fields.values()}


def test_it_has_every_status_of_an_error() -> None:
    told = {row[0].split()[0] for row in table("docs/api.md", "| status | |")}
    described = {
        status
        for operations in DOCUMENT["paths"].values()
        for operation in operations.values()
        for status in operation["responses"]
    }
    assert told == {status for status in described if status >= "400"} | {"405"}
