"""The API's description of itself: valid, complete, committed, and true to what the API answers."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator, validate

from dilamme.aws import openapi
from dilamme.aws.parameters import LIST_PARAMETERS
from dilamme.domain.patterns import IDEMPOTENCY_KEY_PATTERN, IN_WORDS, TYPE_PATTERN
from tests.functions.door import get, post, submit
from tools import openapi_file

# The names that a generated client gives its methods: whoever changes one breaks its callers.
OPERATIONS = {
    ("post", "/jobs"): ("submitJob", "jobs"),
    ("post", "/jobs/batch"): ("submitBatch", "jobs"),
    ("get", "/jobs"): ("listJobs", "jobs"),
    ("get", "/jobs/{job_id}"): ("getJob", "jobs"),
    ("get", "/jobs/{job_id}/why"): ("explainJob", "jobs"),
    ("post", "/jobs/{job_id}/cancel"): ("cancelJob", "jobs"),
    ("post", "/jobs/{job_id}/replay"): ("replayJob", "dead letters"),
    ("post", "/series/{series_id}/cancel"): ("cancelSeries", "series"),
    ("post", "/dead-letters/replay"): ("replayDeadLetters", "dead letters"),
    ("get", "/types"): ("listTypes", "system"),
    ("get", "/stats"): ("getStats", "system"),
    ("get", "/health"): ("getHealth", "system"),
}
SCHEMAS = {
    *("NewJob", "NewBatch", "NewBatchJob", "DeadLetterSelection", "OnDependencyFailure"),
    *("Job", "JobSummary", "JobPage", "JobStatus", "JobError", "Batch", "BatchJob", "CancelledSeries"),
    *("JobType", "JobTypePage"),
    *("ReplayedJob", "ReplayedDeadLetters", "Explanation", "Reason", "Cause", "Dependency"),
    *("Stats", "JobCounts", "CountByPriority", "Count", "Workers", "Scheduler", "Health", "Problem", "Fault"),
}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    answer = get("/openapi.json")
    assert answer.status == 200
    described: dict[str, Any] = answer.json
    return described


def test_the_document_is_valid(document: dict[str, Any]) -> None:
    validate(document, cls=OpenAPIV31SpecValidator)


def test_every_route_is_described_with_its_answers_and_problems(document: dict[str, Any]) -> None:
    described = {
        (method, path): operation for path, item in document["paths"].items() for method, operation in item.items()
    }
    assert {route: (one["operationId"], *one["tags"]) for route, one in described.items()} == OPERATIONS
    assert {tag["name"] for tag in document["tags"]} == {tag for _, tag in OPERATIONS.values()}
    for (method, _), operation in described.items():
        for status, answer in operation["responses"].items():
            ((media_type, content),) = answer["content"].items()
            problem = int(status) >= 400
            assert media_type == ("application/problem+json" if problem else "application/json")
            assert (content["schema"]["$ref"] == "#/components/schemas/Problem") is problem
        assert {"500", "503"} < operation["responses"].keys()
        assert (method == "post") is ("415" in operation["responses"])


def test_schemas_have_the_names_that_a_generated_client_gives_its_classes(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    assert schemas.keys() == SCHEMAS
    assert [name for name, schema in schemas.items() if schema["title"] != name] == []
    referred = re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document))
    assert set(referred) == SCHEMAS
    assert set(openapi.NAMES.values()) <= SCHEMAS  # no name for a model that is gone


def test_the_document_has_the_types_of_all_problems(document: dict[str, Any]) -> None:
    named = document["components"]["schemas"]["Problem"]["properties"]["type"]["examples"]
    assert len(named) > 10
    assert get("/nothing").json["type"] in named


def test_what_must_match_a_pattern_is_refused_in_words(document: dict[str, Any]) -> None:
    patterns = set(re.findall(r'"pattern": ("(?:[^"\\]|\\.)*")', json.dumps(document)))
    assert {json.loads(pattern) for pattern in patterns} == set(IN_WORDS)
    answer = post("/jobs", {"type": "Send mail"}, "a b")
    assert {error["pointer"]: error["detail"] for error in answer.json["errors"]} == {
        "/type": f"must be {IN_WORDS[TYPE_PATTERN]}",
        "/idempotency-key": f"must be {IN_WORDS[IDEMPOTENCY_KEY_PATTERN]}",
    }


def test_the_document_describes_what_may_be_asked(document: dict[str, Any]) -> None:
    job = document["components"]["schemas"]["NewJob"]
    assert job["required"] == ["type"]
    assert job["additionalProperties"] is False
    assert (job["properties"]["priority"]["minimum"], job["properties"]["priority"]["maximum"]) == (1, 3)
    assert "default" not in job["properties"]["payload"]
    parameters = {parameter["name"] for parameter in document["paths"]["/jobs"]["get"]["parameters"]}
    assert parameters == LIST_PARAMETERS
    (key,) = document["paths"]["/jobs"]["post"]["parameters"]
    assert (key["name"].lower(), key["in"], key["required"]) == ("idempotency-key", "header", False)


def test_the_committed_document_is_the_present_one() -> None:
    assert openapi_file.FILE.read_text(encoding="utf-8") == openapi_file.current(), (
        "the API has changed: run: make docs"
    )


@pytest.mark.usefixtures("door")
def test_answers_have_the_fields_that_the_document_promises(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    job = submit()
    assert job.keys() == schemas["Job"]["properties"].keys()
    assert get("/jobs").json["jobs"][0].keys() == schemas["JobSummary"]["properties"].keys()
    assert get(f"/jobs/{job['id']}/why").json.keys() == schemas["Explanation"]["properties"].keys()
    assert get("/stats").json.keys() == schemas["Stats"]["properties"].keys()
    assert post("/jobs", {}).json.keys() == schemas["Problem"]["properties"].keys()


def test_the_docs_are_one_page_that_loads_nothing(document: dict[str, Any]) -> None:
    answer = get("/docs")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert "swagger-ui" in answer.text
    assert json.dumps(document["info"]["title"]) in answer.text
    for elsewhere in ('src="http', "src='http", 'href="http'):
        assert elsewhere not in answer.text
    assert len(answer.text.encode()) < 6 * 1024 * 1024 / 2


def test_a_cold_start_pays_for_no_documentation() -> None:
    code = "import sys, functions.api.handler; print([m for m in sys.modules if 'swagger' in m or m == 'dilamme.aws.openapi'])"
    root = Path(__file__).parents[2]
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True, env={"PYTHONPATH": "shared"}
    )
    assert ran.stdout.strip() == "[]"
