"""`dilamme.submit` in SQL and in Python are two doors to one rule: they store the same rows, refuse the same, share keys."""

import json
import math
import random
import struct
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from psycopg.rows import dict_row

import dilamme
from dilamme.domain.errors import Conflict, InvalidInput
from dilamme.store.connection import Connection, connect
from dilamme.testing.clock import START, Clock
from dilamme.wire.canonical_json import as_kept, json_text
from dilamme.wire.requests import Submission, parse, request_hash
from dilamme.wire.strict_json import loads
from tests.support.jobs import ECHO, bury, claim_one, complete, put
from tests.support.sql_submit import sql_submit

UNKNOWN = [UUID(int=42), UUID(int=2**128 - 1)]
EPOCH, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
EACH = hypothesis_settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def doors(database_of_module: str) -> Iterator[Connection]:
    """The superuser's connection to a database whose clock stands still; what a test stores there it rolls back."""
    with closing(connect(database_of_module)) as connection:
        Clock(connection, stopped_at=START)
        yield connection


@pytest.fixture(scope="module")
def parents(doors: Connection) -> list[UUID]:
    """A job of each status."""
    ids = [put(doors) for _ in range(4)]
    for end in (complete, bury, lambda connection, claim: None):
        end(doors, claim_one(doors))
    ids.append(put(doors))
    doors.execute(
        "UPDATE dilamme.jobs SET status = 'cancelled', finished_at = dilamme.clock() WHERE id = %s", (ids[3],)
    )
    found = doors.execute("SELECT status FROM dilamme.jobs ORDER BY id").fetchall()
    assert [status for (status,) in found] == ["completed", "dead", "running", "cancelled", "pending"]
    return ids


numbers = (
    st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda value: math.copysign(1, value) > 0 or value != 0)
    | st.sampled_from([1e16, 1e23, 9.5e-5, 1e-4, 9999999999999998.0, 5e-324, 1.7976931348623157e308, 10**300, 0.1])
)
# Not the halves of a pair, nor NUL: these `jsonb` refuses by itself, and the test below has them.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8) | st.sampled_from(
    ["\x7f", "é", "\U0001f600", '"\\/\b\f\n\r\t\x01', "\u2028", "{[", "a.1"]
)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


def right(parents: list[UUID]) -> st.SearchStrategy[dict[str, Any]]:
    return optional(
        payload=values.filter(lambda value: value is not None),
        priority=st.integers(1, 3),
        scheduled_at=st.datetimes(EPOCH.replace(tzinfo=None), LATEST.replace(tzinfo=None), timezones=st.just(UTC)),
        interval_seconds=st.integers(1, 315_360_000) | st.none(),
        dependency_ids=st.lists(st.sampled_from(parents), max_size=7),
        max_attempts=st.integers(1, 25) | st.none(),
        on_dependency_failure=st.sampled_from(["wait", "cancel"]),
        idempotency_key=st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=255),
    )


def wrong(parents: list[UUID]) -> st.SearchStrategy[dict[str, Any]]:
    """Of each argument what is right, and what is not, close to the bounds and far away."""
    far = st.integers(-(2**63), 2**63 - 1)
    return optional(
        type=st.sampled_from(["a", "a" * 100, "a" * 101, "", "A", "1a", "a\n", "a b", "é", "a.b-c_9"]) | texts,
        payload=st.sampled_from([1, "x" * 262_142, "x" * 262_143, "é" * 131_072, ["x" * 90] * 2_900]),
        priority=st.integers(-1, 5) | far | st.none(),
        scheduled_at=st.sampled_from([EPOCH, LATEST, EPOCH - timedelta(microseconds=1), LATEST + timedelta(seconds=1)]),
        interval_seconds=st.sampled_from([0, 1, 315_360_000, 315_360_001, -1]) | far,
        dependency_ids=st.lists(st.sampled_from([*parents, *UNKNOWN]), max_size=5)
        | st.sampled_from([[parents[0]] * 1_000, [parents[0]] * 1_001, None, [None], [[parents[0]]]]),
        max_attempts=st.sampled_from([0, 1, 25, 26, -1]) | far,
        on_dependency_failure=st.sampled_from(["wait", "cancel", "WAIT", "", None]),
        idempotency_key=st.sampled_from(["k", "", " ", "k" * 255, "k" * 256, "é", "a\n", "a b", "~!", "\x7f"]),
    )


def stored(connection: Connection) -> dict[str, Any]:
    """All that the last submission left, without the ids that it made."""
    with connection.cursor(row_factory=dict_row) as cursor:
        job = cursor.execute("SELECT *, payload::text AS written FROM dilamme.jobs ORDER BY id DESC LIMIT 1").fetchone()
        assert job is not None
        found: dict[str, Any] = {"job": {**job, "id": None, "series_id": job["series_id"] is not None}}
        for name, statement in {
            "edges": "SELECT parent_id FROM dilamme.job_dependencies WHERE child_id = %(id)s ORDER BY 1",
            "series": "SELECT interval_seconds, created_at, ended_at, idempotency_key FROM dilamme.series",
            "keys": "SELECT key, job_ids = ARRAY[%(id)s] AS is_its, refs FROM dilamme.idempotency_keys",
        }.items():
            found[name] = cursor.execute(statement, {"id": job["id"]}).fetchall()
    return found


def by_python(connection: Connection, arguments: Mapping[str, Any]) -> Any:
    """What the library stores, or the arguments that it refuses."""
    with connection.transaction(force_rollback=True):
        try:
            dilamme.submit(connection, **{"type": ECHO, **arguments})
        except InvalidInput as error:
            return {fault.pointer.split("/")[1] for fault in error.faults}
        return stored(connection)


def by_sql(connection: Connection, arguments: Mapping[str, Any]) -> Any:
    """The same of the SQL function, which names one argument."""
    with connection.transaction(force_rollback=True):
        try:
            with connection.transaction():
                sql_submit(connection, **{"type": ECHO, **arguments})
        except psycopg.Error as error:
            told = error.diag
        else:
            return stored(connection)
    assert (told.schema_name, told.table_name) == ("dilamme", None), told.message_primary
    assert str(told.message_primary).startswith(f"{told.column_name}")
    return {told.column_name}


@EACH
@given(data=st.data())
def test_both_store_the_same_rows(doors: Connection, parents: list[UUID], data: st.DataObject) -> None:
    arguments = data.draw(right(parents))
    expected = by_python(doors, arguments)
    assert by_sql(doors, arguments) == expected
    assert expected["job"]["type"] == ECHO


@EACH
@given(data=st.data())
def test_both_refuse_the_same(doors: Connection, parents: list[UUID], data: st.DataObject) -> None:
    arguments = data.draw(wrong(parents))
    expected, found = by_python(doors, arguments), by_sql(doors, arguments)
    if isinstance(expected, set):
        assert isinstance(found, set)
        # The library goes by what is wrong in itself, then by the key, then by the database; SQL stops at the first.
        assert found <= expected or found == {"idempotency_key"}
    else:
        assert found == expected


@EACH
@given(data=st.data())
def test_a_key_is_the_same_key_to_both(doors: Connection, parents: list[UUID], data: st.DataObject) -> None:
    arguments = {"type": ECHO, **data.draw(right(parents)), "idempotency_key": "key"}
    wrote = {"python": lambda: dilamme.submit(doors, **arguments), "sql": lambda: sql_submit(doors, **arguments)}
    changed = {**arguments, "max_attempts": (arguments.get("max_attempts") or 0) % 25 + 1}
    for first, second in (("python", "sql"), ("sql", "python")):
        if first == "python" and is_mixed(arguments.get("payload", {})):
            continue
        with doors.transaction(force_rollback=True):
            assert wrote[first]() == wrote[second]()
            with pytest.raises(psycopg.errors.UniqueViolation, match="stands for another request"), doors.transaction():
                sql_submit(doors, **changed)
            with pytest.raises(Conflict):
                dilamme.submit(doors, **changed)


def is_mixed(payload: Any) -> bool:
    """Has it whole numbers from 1e16 on both as floats and in digits? `jsonb` has forgotten which was which."""
    text = json_text(payload)
    return text not in (as_kept(text), json_text(json.loads(as_kept(text), parse_int=floated)))


def floated(digits: str) -> int | float:
    number = int(digits)
    is_float = 10**16 <= abs(number) < 10**308 and Decimal(repr(float(digits))) == number
    return float(digits) if is_float else number


@pytest.mark.parametrize("as_floats", [True, False])
def test_numbers_are_written_as_python_writes_them(doors: Connection, as_floats: bool) -> None:
    """Among them those on which PostgreSQL's shortest digits differ from Python's."""
    chance = random.Random(7)
    some = [struct.unpack("<d", struct.pack("<Q", chance.getrandbits(64)))[0] for _ in range(3_000)]
    some += [digits * 10.0**power for power in range(-320, 300) for digits in (1, 2, 9.5, -1)]
    some = [value for value in some if math.isfinite(value) and value != 0]
    text = json_text(some)
    expected = text if as_floats else as_kept(text)
    found = doors.execute("SELECT dilamme.canonical_json(%s::jsonb, %s)", (text, as_floats)).fetchone()
    assert found is not None
    assert found[0].split(",") == expected.split(",")


@EACH
@given(payload=values, priority=st.integers(1, 3))
def test_the_hash_is_the_same(doors: Connection, payload: Any, priority: int) -> None:
    job = parse(Submission, {"type": ECHO, "payload": payload, "priority": priority, "max_attempts": 3})
    found = doors.execute(
        "SELECT dilamme.request_hash(%s, %s::jsonb, %s, NULL, NULL, '{}', 3, 'wait', false)",
        (ECHO, job.payload, priority),
    ).fetchone()
    assert found == (request_hash([job], of_kept=True),)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200 + "]" * 200, "[" * 201 + "]" * 201, '{"a":' * 201 + "1" + "}" * 201, '["[[[' + "[{" * 300 + '"]',
        "1e400", "[-1e400]", '{"a": [1e309]}', "1e308", "-1.7976931348623157e308", "1e-400", "1.5e-5000",
        '"' + "9" * 400 + '"', '"\\u0000"', '"\\ud800"', '{"\\u0000": 1}', "[1e300" + ",1e300" * 30_000 + "]",
        "[1e300" + ",1e300" * 40_000 + "]", "[1" + ",1" * 131_070 + "]", "[1" + ",1" * 131_071 + "]", "null", "NaN",
        "[" * 3_000 + '"' + "x" * 300_000 + '"' + "]" * 3_000, '{"a":' * 199 + "[1.5]" + "}" * 199,
    ],
    ids=lambda text: f"{text[:10]}…{len(text)}",
)  # fmt: skip
def test_json_text_is_taken_or_refused_by_both(doors: Connection, text: str) -> None:
    with doors.transaction(force_rollback=True):
        try:
            parse(Submission, {"type": ECHO, "payload": loads(text)})
        except dilamme.DilammeError:
            with pytest.raises((psycopg.DataError, psycopg.OperationalError)) as refused, doors.transaction():
                sql_submit(doors, type=ECHO, payload=text, is_text=True)
            if refused.value.diag.column_name != "payload":  # then it is no text for `jsonb`
                with pytest.raises(psycopg.DataError):
                    doors.execute("SELECT %s::jsonb", (text,))
        else:
            sql_submit(doors, type=ECHO, payload=text, is_text=True)


def test_what_both_are_documented_to_see_otherwise(doors: Connection) -> None:
    """An integer of more than 308 digits is taken by the API alone; 1e2 is a float to it, and an integer to `jsonb`."""
    parse(Submission, {"type": ECHO, "payload": 10**309})
    with doors.transaction(force_rollback=True):
        with pytest.raises(psycopg.errors.NumericValueOutOfRange), doors.transaction():
            sql_submit(doors, type=ECHO, payload=10**309)
        job_id = sql_submit(doors, type=ECHO, payload="1e2", is_text=True)
        found = doors.execute("SELECT payload::text FROM dilamme.jobs WHERE id = %s", (job_id,)).fetchone()
    assert found == ("100",)
    assert json_text(loads("1e2")) == "100.0"
