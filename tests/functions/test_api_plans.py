"""Reads stay bounded however much there is: how many rows PostgreSQL looks at, on a table that holds many more."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any
from uuid import UUID

import pytest

from dilamme.domain.job import Head
from dilamme.domain.queue_position import bounds
from dilamme.store.connection import Connection, connect
from dilamme.store.sql_blocks import sql
from dilamme.store.stats import KINDS
from dilamme.testing.databases import Databases

JOBS = 30_000
NEWEST = UUID(int=2**128 - 1)
FILL = """
INSERT INTO dilamme.jobs (id, type, status, priority, attempt, unmet_dependencies, created_at, scheduled_at, ready_at,
                          started_at, finished_at, worker, token, lease_expires_at, payload)
SELECT uuidv7(number * interval '1 ms'), 'demo.echo', status, 1 + mod(number, 3), (status <> 'pending')::integer,
       (kind = 'blocked')::integer, now(), now(), CASE kind WHEN 'future' THEN now() + interval '1 day' ELSE now() END,
       CASE WHEN status <> 'pending' THEN now() END, CASE WHEN kind = 'ended' THEN now() END,
       CASE status WHEN 'running' THEN id END, CASE status WHEN 'running' THEN id END, CASE status WHEN 'running' THEN now() END, '{}'
FROM (
    SELECT number, uuidv7() AS id, CASE WHEN mod(number, 10) < 5 THEN 'ended' WHEN mod(number, 10) < 7 THEN 'future'
        WHEN mod(number, 10) = 7 THEN 'blocked' WHEN mod(number, 10) = 8 THEN 'ready' ELSE 'running' END AS kind
    FROM generate_series(1, %(jobs)s) AS number
) AS made CROSS JOIN LATERAL (
    SELECT CASE WHEN kind = 'running' THEN 'running' WHEN kind <> 'ended' THEN 'pending'
        WHEN mod(number, 10) = 0 THEN 'dead' WHEN mod(number, 10) = 1 THEN 'cancelled' ELSE 'completed' END AS status) AS chosen
"""


@pytest.fixture(scope="module")
def crowd(databases: Databases) -> Iterator[Connection]:
    """A database with many jobs in every state."""
    name = databases.create()
    with closing(connect(databases.server.url(name))) as connection:
        connection.execute(FILL, {"jobs": JOBS})
        connection.execute("VACUUM ANALYZE dilamme.jobs")
        yield connection
    databases.drop(name)


def rows_read(connection: Connection, name: str, **parameters: Any) -> int:
    """How many of the jobs' rows or index entries the block looks at."""
    (plans,) = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql(name)}", parameters).fetchone()  # type: ignore[misc]
    return sum(_looked_at(node) for node in _nodes(plans[0]["Plan"]) if node.get("Relation Name") == "jobs")


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", []):
        yield from _nodes(child)


def _looked_at(node: dict[str, Any]) -> int:
    removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return int((node["Actual Rows"] + removed) * node["Actual Loops"] + 0.5)


FILTER = {"status": None, "type": None, "priority": None, "series_id": None, "before": NEWEST, "max_attempts": 3}


@pytest.mark.parametrize(
    "wanted", [{}, {"type": "none"}, {"priority": 1}, {"status": "dead"}, {"series_id": UUID(int=1)}]
)
def test_a_page_looks_at_one_window(wanted: dict[str, Any], crowd: Connection) -> None:
    parameters = {**FILTER, **wanted, "reach": 500, "limit": 50}
    assert rows_read(crowd, "page_of_window", **parameters) <= 2 * 500 + 50


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("few_finished", {"status": "completed"}),
        ("few_finished", {"status": "dead"}),
        ("few_finished", {"status": "cancelled"}),
        ("few_running", {}),
        ("few_pending", {}),
        ("few_in_series", {"series_id": UUID(int=1)}),
    ],
)
def test_a_look_for_few_jobs_stops_when_they_are_not(name: str, parameters: dict[str, Any], crowd: Connection) -> None:
    assert rows_read(crowd, name, **parameters, limit=100) <= 100


def test_a_place_in_line_is_counted_in_the_lanes_and_no_further_than_asked(crowd: Connection) -> None:
    last = crowd.execute(
        "SELECT id, priority, ready_at, created_at FROM dilamme.jobs WHERE status = 'pending' AND unmet_dependencies = 0"
        " AND ready_at <= now() ORDER BY priority DESC, ready_at DESC, id DESC LIMIT 1"
    ).fetchall()[0]
    ends = bounds(Head(*last), last[2], 30)
    parameters = {
        "priorities": list(ends),
        "ready_at": [end.ready_at for end in ends.values()],
        "created_at": [end.created_at for end in ends.values()],
        "ids": [end.id for end in ends.values()],
    }
    assert rows_read(crowd, "count_ahead", **parameters, limit=100) <= 3 * 100
    assert rows_read(crowd, "count_ahead", **parameters, limit=10_000) == JOBS // 10 - 1


def test_counting_stops_where_it_is_told_to(crowd: Connection) -> None:
    ready, scheduled, blocked, running, completed, dead, cancelled = 3 * 100, 3 * 50, 50, 50, 3 * 50, 3 * 100, 3 * 50
    whole = ready + scheduled + blocked + running + completed + dead + cancelled
    assert rows_read(crowd, "count_jobs", **{**dict.fromkeys(KINDS, 50), "ready": 100, "dead": 100}) <= whole
    assert rows_read(crowd, "count_jobs", **dict.fromkeys(KINDS, 0)) == 0
    assert rows_read(crowd, "pulse", reach=1) <= 3


def test_a_job_is_found_by_its_id(crowd: Connection) -> None:
    ((job_id,),) = crowd.execute("SELECT id FROM dilamme.jobs LIMIT 1").fetchall()
    assert rows_read(crowd, "find_job", id=job_id, max_attempts=3) == 1
    assert rows_read(crowd, "explain_job", id=job_id, max_attempts=3) == 1
    assert rows_read(crowd, "statuses_of", ids=[job_id]) == 1


def test_whether_there_is_a_dead_job_is_seen_at_the_first(crowd: Connection) -> None:
    assert rows_read(crowd, "any_dead", type=None) == 1
