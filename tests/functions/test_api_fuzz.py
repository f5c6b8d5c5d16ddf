"""The API against its own description: what schemathesis makes of that, right and wrong, on a real database.

The examples are the same at every run (derandomized, and no example database), so that a red test stays red.
"""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.config import GenerationConfig, ProjectConfig, ProjectsConfig, SchemathesisConfig
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from dilamme.store.connection import Connection
from tests.functions.wsgi import application
from tests.support.answers import PROBLEM
from tests.support.jobs import bury, claim, complete, put, put_many, row

pytestmark = pytest.mark.usefixtures("door")

EXAMPLES = 120
STORED = [f"stored-{number}" for number in range(7)]
TABLES = ["jobs", "series", "idempotency_keys", "job_dependencies", "outbox", "worker_slots", "scheduler_lease"]

GENERATION = GenerationConfig(deterministic=True, database="none", max_examples=EXAMPLES)
CONFIG = SchemathesisConfig(projects=ProjectsConfig(default=ProjectConfig(generation=GENERATION)))
api = schemathesis.openapi.from_wsgi("/openapi.json", application, config=CONFIG)


@api.hook
def flatmap_path_parameters(context: Any, path_parameters: dict[str, Any] | None) -> st.SearchStrategy[Any]:
    """Every other id is one that is stored, since made-up ids lead nowhere; the test fills the places in."""
    if not path_parameters:
        return st.just(path_parameters)
    return st.just(path_parameters) | st.sampled_from([dict.fromkeys(path_parameters, place) for place in STORED])


@pytest.fixture
def stored(connection: Connection) -> dict[str, str]:
    """A job in every state, and a series."""
    (dead, done), running = put_many(connection, [{}, {}]), put(connection)
    mine = {claimed.id: claimed for claimed in claim(connection)}
    bury(connection, mine[dead])
    complete(connection, mine[done])
    occurrence = put(connection, intervalSeconds=60, scheduledAt="2999-01-01T00:00:00Z")
    waiting = put(connection, dependencyIds=[str(dead)])
    series = row(connection, occurrence)["series_id"]
    ids = [dead, done, running, occurrence, waiting, series, put(connection, key=str(running))]
    return dict(zip(STORED, map(str, ids), strict=True))


def contents(connection: Connection) -> list[Any]:
    """All rows of all tables, by number and by the newest transaction that wrote one."""
    return [
        connection.execute(f"SELECT count(*), max(xmin::text::bigint) FROM dilamme.{table}").fetchone()
        for table in TABLES
    ]


@pytest.mark.case("B3")
@api.parametrize()
@settings(suppress_health_check=list(HealthCheck), deadline=None)
def test_every_call_gets_an_answer_that_the_description_promises(
    case: Case[Any], stored: dict[str, str], connection: Connection
) -> None:
    case.path_parameters = {name: stored.get(value, value) for name, value in case.path_parameters.items()}
    before = contents(connection)
    response = case.call()
    case.validate_response(
        response,
        checks=[
            not_a_server_error,
            status_code_conformance,
            content_type_conformance,
            response_headers_conformance,
            response_schema_conformance,
            negative_data_rejection,
        ],
    )
    if response.status_code >= 400:
        assert response.headers["content-type"] == [PROBLEM]
        assert contents(connection) == before, "a refused call has written"
    if response.status_code == 422:
        assert all(fault["detail"] for fault in response.json()["errors"])
