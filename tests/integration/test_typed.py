"""Typed jobs from their submission to their end (CASES.md, *Typed jobs*): what fits runs, what does not is dead at once."""

import asyncio
import inspect
import logging
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import UUID

import psycopg
import pytest
from pydantic import BaseModel

import dilamme
from dilamme import Context
from dilamme import settings as settings_module
from dilamme.domain.errors import ConfigurationError, Fault, InvalidInput
from dilamme.domain.job import UnreadPayload
from dilamme.handlers.registry import Registry
from dilamme.store import job_types
from dilamme.store.connection import Connection, connect
from dilamme.store.job_types import upsert_types
from dilamme.testing.clock import Clock
from dilamme.typed import job
from dilamme.usecases import published, read
from dilamme.usecases.replay import replay_job
from tests.integration.scheduler import Scheduler
from tests.integration.workshop import Workshop
from tests.support.entrance import Entrance
from tests.support.invocations import Letters
from tests.support.jobs import ECHO, claim, put, put_many, row, rows, series_of, tally

SECRET = "hunter2"
WELCOME = "mail.welcome"


class Welcome(BaseModel):
    """What the handler of these tests takes."""

    to: str
    order: int
    day: date = date(2030, 1, 31)


@dataclass
class Receipt:
    """What it returns."""

    id: UUID
    price: Decimal


@pytest.fixture
def ran() -> list[Any]:
    """The payloads that handlers got."""
    return []


@pytest.fixture
def welcome(workshop: Workshop, ran: list[Any]) -> Any:
    """A typed handler in the workshop."""

    @job(WELCOME, max_attempts=5, registry=workshop.registry)
    def welcome(payload: Welcome, context: Context) -> None:
        ran.append(payload)

    return welcome


@pytest.fixture(autouse=True)
def _known_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "_known", {})


# ===== what is decorated =====


@job("mail.of_this_module", registry=Registry())
async def of_this_module(payload: Welcome, context: Context) -> int:
    """Says how many."""
    return payload.order


def test_a_decorated_function_is_still_the_function() -> None:
    assert asyncio.run(of_this_module(Welcome(to="ada", order=7), None)) == 7  # type: ignore[arg-type]
    assert asyncio.iscoroutinefunction(of_this_module)
    assert list(inspect.signature(of_this_module).parameters) == ["payload", "context"]
    assert pickle.loads(pickle.dumps(of_this_module)) is of_this_module
    assert (of_this_module.__name__, of_this_module.__doc__) == ("of_this_module", "Says how many.")


def test_a_function_of_two_types_does_not_guess_which_is_meant(connection: Connection) -> None:
    registry = Registry()

    def welcome(payload: Welcome, context: Context) -> None:
        """Does nothing."""

    job("mail.old_name", registry=registry)(welcome)
    decorated = job(WELCOME, registry=registry)(welcome)
    with pytest.raises(
        ConfigurationError, match=r"runs jobs of the types 'mail\.old_name' and 'mail\.welcome': say which"
    ):
        decorated.submit(connection, Welcome(to="ada", order=7))


# ===== from the submission to the handler =====


@pytest.mark.case("Y3")
def test_what_is_submitted_is_what_the_handler_gets(
    connection: Connection, workshop: Workshop, welcome: Any, ran: list[Any]
) -> None:
    with connection.transaction():
        job_id = welcome.submit(connection, Welcome(to="ada", order=7), priority=1, max_attempts=2)
    stored = row(connection, job_id)
    assert (stored["type"], stored["priority"], stored["max_attempts"]) == (WELCOME, 1, 2)
    assert stored["payload"] == {"to": "ada", "order": 7, "day": "2030-01-31"}
    workshop.work()
    assert ran == [Welcome(to="ada", order=7)]
    assert row(connection, job_id)["status"] == "completed"


def test_a_wrong_payload_is_refused_where_it_is_submitted_and_nothing_is_stored(
    connection: Connection, welcome: Any
) -> None:
    wrong = Welcome.model_construct(to=SECRET, order=SECRET)  # type: ignore[arg-type]
    for submits in (partial(welcome.submit, connection), welcome.job):
        with pytest.raises(InvalidInput) as refused:
            submits(wrong)
        (fault,) = refused.value.faults
        assert fault.pointer == "/payload/order"
        assert SECRET not in str(refused.value)
    assert tally(connection) == {}


async def _submit_async(url: str, handler: Any, payload: Any, **options: Any) -> UUID:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as caller:
        job_id: UUID = await handler.submit_async(caller, payload, **options)
        return job_id


def test_a_wrong_payload_is_refused_on_an_async_connection_too(workshop: Workshop, welcome: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^/payload/order: is required$"):
        asyncio.run(_submit_async(workshop.url, welcome, {"to": "ada"}))


@pytest.mark.parametrize("version", [1, 2])
def test_what_is_submitted_on_an_async_connection_is_what_the_handler_gets(
    connection: Connection, workshop: Workshop, entrance: Entrance, ran: list[Any], version: int
) -> None:
    handler = at_version(workshop, version, ran)
    job_id = asyncio.run(_submit_async(entrance.superuser_url, handler, {"to": "ada"}, priority=1))
    stored = row(connection, job_id)
    assert (stored["payload"], stored["priority"]) == ({"to": "ada"}, 1)
    assert stored["payload_version"] == (None if version == 1 else version)
    workshop.work()
    assert ran == [{"to": "ada"}]


def test_a_batch_mixes_typed_jobs_with_others(
    connection: Connection, workshop: Workshop, welcome: Any, ran: list[Any]
) -> None:
    first = welcome.job(Welcome(to="ada", order=1), ref="first", priority=1)
    assert first == {
        "type": WELCOME,
        "payload": {"to": "ada", "order": 1, "day": "2030-01-31"},
        "payload_version": 1,
        "ref": "first",
        "priority": 1,
    }
    then = {"type": ECHO, "payload": {"plain": True}, "dependency_refs": ["first"]}
    ids = dilamme.submit_many(connection, [first, then])
    workshop.work()
    assert [stored["status"] for stored in rows(connection, ids)] == ["completed"] * 2
    assert (ran, workshop.ran) == ([Welcome(to="ada", order=1)], [({"plain": True}, 1)])


def test_a_payload_may_be_null_if_its_type_says_so(connection: Connection, workshop: Workshop, ran: list[Any]) -> None:
    @job("mail.maybe", registry=workshop.registry)
    def maybe(payload: Welcome | None, context: Context) -> None:
        ran.append(payload)

    maybe.submit(connection, None)
    dilamme.submit_many(connection, [maybe.job(None)])
    workshop.work()
    assert ran == [None, None]


def test_an_async_handler_is_typed_as_well(connection: Connection, workshop: Workshop) -> None:
    @job("mail.later", registry=workshop.registry)
    async def later(payload: Welcome, context: Context) -> Receipt:
        await asyncio.sleep(0)
        return Receipt(UUID(int=payload.order), Decimal("1.10"))

    job_id = later.submit(connection, Welcome(to="ada", order=7))
    workshop.work()
    assert row(connection, job_id)["result"] == {"id": str(UUID(int=7)), "price": "1.10"}


def test_a_result_that_does_not_fit_its_annotation_fails_the_attempt(
    connection: Connection, workshop: Workshop
) -> None:
    @workshop.registry.job("mail.wrong")
    def wrong(payload: Any, context: Context) -> Receipt:
        return {"id": SECRET}  # type: ignore[return-value]

    job_id = put(connection, type="mail.wrong")
    workshop.work()
    stored = row(connection, job_id)
    assert stored["status"] == "pending"
    (error,) = stored["errors"]
    assert error["reason"] == "result"
    assert error["message"] == (
        "the handler's result does not fit its annotation: /id: must be a valid UUID; /price: is required"
    )


def test_a_typed_payload_stays_text_until_its_handler_reads_it(connection: Connection) -> None:
    put_many(connection, [{"payload": 1}, {"type": WELCOME, "payload": {"a": 1.10}}, {"payload": [2]}])
    payloads = [one.payload for one in claim(connection, unread=frozenset([WELCOME]))]
    assert payloads == [1, UnreadPayload('{"a": 1.1}'), [2]]


# ===== Y1: what does not fit =====


@pytest.mark.case("Y1")
def test_a_stored_payload_that_does_not_fit_is_dead_at_once_with_pointers_and_no_value(
    connection: Connection,
    workshop: Workshop,
    scheduler: Scheduler,
    letters: Letters,
    welcome: Any,
    ran: list[Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Y1: its neighbours run, and a replay after the mending finds it."""
    caplog.set_level(logging.DEBUG)
    wrong = put(connection, type=WELCOME, payload={"to": SECRET, "order": [SECRET]})
    not_even = put(connection, type=WELCOME, payload=SECRET)
    right = put_many(connection, [{"type": WELCOME, "payload": {"to": "ada", "order": n}} for n in range(20)])
    workshop.work()
    assert len(ran) == 20
    assert {stored["status"] for stored in rows(connection, right)} == {"completed"}
    for job_id, where in ((wrong, "/order: must be a valid integer"), (not_even, "as a whole: must be an object")):
        stored = row(connection, job_id)
        assert (stored["status"], stored["attempt"]) == ("dead", 1)
        (error,) = stored["errors"]
        assert error["reason"] == "invalid_payload"
        assert error["message"] == f"the payload does not fit the type 'mail.welcome': {where}"
    scheduler.tick()
    assert len(letters) == 2
    assert SECRET not in caplog.text + str(letters)
    replay_job(connection, wrong)
    workshop.work()
    assert row(connection, wrong)["status"] == "dead"
    assert not workshop.exit_codes


@pytest.mark.case("Y1")
def test_a_worker_goes_on_whatever_a_validator_raises(connection: Connection, workshop: Workshop) -> None:
    class Hostile(BaseModel):
        """Its validator does what none should."""

        exits: bool

        def model_post_init(self, _: Any) -> None:
            raise SystemExit if self.exits else RuntimeError("boom")

    @workshop.registry.job("mail.hostile")
    def hostile(payload: Hostile, context: Context) -> None:
        """Never runs."""

    ids = [put(connection, type="mail.hostile", payload={"exits": exits}) for exits in (False, True)]
    last = put(connection)
    workshop.work()
    assert [stored["errors"][0]["reason"] for stored in rows(connection, ids)] == ["error", "error"]
    assert row(connection, last)["status"] == "completed"


# ===== Y2: versions =====


def at_version(workshop: Workshop, version: int, ran: list[Any]) -> Any:
    """The worker's code at a version: {to} → {to: {name}} → {to: {name}, order}."""
    workshop.registry = Registry()
    workshop.registry.job(ECHO)(workshop._echo)

    @job(WELCOME, version=version, registry=workshop.registry)
    def welcome(payload: dict[str, Any], context: Context) -> None:
        ran.append(payload)

    if version > 1:
        welcome.upcast(from_version=1)(lambda old: {"to": {"name": old["to"]}})
    if version > 2:
        welcome.upcast(from_version=2)(lambda old: {**old, "order": 0})
    workshop.registry.resolve_shapes()
    return welcome


@pytest.mark.case("Y2")
def test_an_upgrade_of_a_payloads_shape_with_old_jobs_in_the_queue(
    connection: Connection, clock: Clock, workshop: Workshop, ran: list[Any]
) -> None:
    """Y2: jobs of three versions, one of them recurring, one dead, and all run by the newest code."""
    first = at_version(workshop, 1, ran)
    recurring = first.submit(connection, {"to": "every minute"}, interval_seconds=60)
    by_hand = put(connection, type=WELCOME, payload={"to": "by hand"})
    dead = first.submit(connection, {"to": "dead"}, priority=1)
    (claimed,) = claim(connection, limit=1)
    assert claimed.id == dead
    connection.execute(
        "UPDATE dilamme.jobs SET status = 'dead', finished_at = dilamme.clock(), worker = NULL, token = NULL,"
        " lease_expires_at = NULL WHERE id = %s",
        (dead,),
    )
    second = at_version(workshop, 2, ran).submit(connection, {"to": {"name": "second"}})
    newest = at_version(workshop, 3, ran)
    third = newest.submit(connection, {"to": {"name": "third"}, "order": 3})
    assert [one["payload_version"] for one in rows(connection, [recurring, by_hand, second, third])] == [
        None,
        None,
        2,
        3,
    ]
    replay_job(connection, dead)
    workshop.work()
    assert sorted(ran, key=str) == [
        {"to": {"name": "by hand"}, "order": 0},
        {"to": {"name": "dead"}, "order": 0},
        {"to": {"name": "every minute"}, "order": 0},
        {"to": {"name": "second"}, "order": 0},
        {"to": {"name": "third"}, "order": 3},
    ]
    assert tally(connection) == {"completed": 5, "pending": 1}
    clock.advance(60)
    workshop.work()
    assert ran[-1] == {"to": {"name": "every minute"}, "order": 0}


@pytest.mark.case("Y2")
def test_the_next_occurrence_has_the_version_of_the_one_before(
    connection: Connection, clock: Clock, workshop: Workshop, ran: list[Any]
) -> None:
    newest = at_version(workshop, 3, ran)
    job_id = newest.submit(connection, {"to": {"name": "a"}, "order": 1}, interval_seconds=60)
    workshop.work()
    assert [one["payload_version"] for one in series_of(connection, job_id)] == [3, 3]


@pytest.mark.case("Y2")
def test_a_newer_version_than_the_code_waits_like_an_unknown_type_until_newer_code_comes(
    connection: Connection, clock: Clock, workshop: Workshop, ran: list[Any]
) -> None:
    """Y2: it costs no attempt, `why` says so, and after the grace it is dead."""
    workshop.adjust(unknown_type_grace_seconds=300)
    newest = at_version(workshop, 3, ran)
    waits, dies = (newest.submit(connection, {"to": {"name": "a"}, "order": n}) for n in (1, 2))
    at_version(workshop, 2, ran)
    workshop.work()
    stored = row(connection, waits)
    assert (stored["status"], stored["attempt"], stored["errors"]) == ("pending", 0, [])
    assert stored["ready_at"] == clock.now + timedelta(seconds=30)
    told = read.explain_job(connection, workshop.settings, waits)
    assert "the worker that met it does not know version 3 of the type mail.welcome" in told.detail
    clock.advance(30)
    told = read.explain_job(connection, workshop.settings, waits)
    assert [reason.cause for reason in told.reasons][:2] == ["in_line", "unknown_type"]
    assert "No worker that has started so far knows version 3 of the type mail.welcome" in told.detail
    connection.execute("UPDATE dilamme.jobs SET ready_at = ready_at + interval '1 hour' WHERE id = %s", (dies,))
    at_version(workshop, 3, ran)
    workshop.work()
    assert row(connection, waits)["status"] == "completed"
    at_version(workshop, 2, ran)
    clock.advance(3600)
    workshop.work()
    (error,) = row(connection, dies)["errors"]
    assert error["reason"] == "unknown_type"
    assert error["message"].startswith("no worker has known version 3 of the type 'mail.welcome' since ")


@pytest.mark.case("Y1", "Y2")
def test_an_old_payload_that_cannot_be_brought_up_is_dead_at_once(
    connection: Connection, workshop: Workshop, ran: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    at_version(workshop, 3, ran)
    job_id = put(connection, type=WELCOME, payload={"by": "nobody"})
    workshop.work()
    (error,) = row(connection, job_id)["errors"]
    assert (error["reason"], error["message"]) == (
        "invalid_payload",
        "the payload does not fit the type 'mail.welcome': as a whole: the upcast from version 1 raised KeyError",
    )
    assert "Traceback" in caplog.text or any(record.exc_info for record in caplog.records)


# ===== what is published =====


def publish(workshop: Workshop) -> None:
    """As a worker that starts does."""
    workshop.registry.resolve_shapes()
    with psycopg.connect(workshop.url, autocommit=True) as worker:
        upsert_types(worker, list(workshop.registry.values()))


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets the time go by after which a process looks again at what is published."""

    def forget() -> None:
        monkeypatch.setattr(published, "_known", {})

    return forget


def test_the_library_refuses_what_does_not_fit_what_is_published(
    connection: Connection, workshop: Workshop, welcome: Any
) -> None:
    publish(workshop)
    wrong = {"to": "ada", "order": SECRET}
    with pytest.raises(InvalidInput) as refused:
        dilamme.submit(connection, WELCOME, wrong)
    assert refused.value.faults == (Fault("/payload/order", "must be a whole number"),)
    with pytest.raises(InvalidInput) as refused:
        dilamme.submit_many(connection, [{"type": ECHO}, {"type": WELCOME, "payload": {"orderId": 1}}])
    assert [fault.pointer for fault in refused.value.faults] == ["/jobs/1/payload/to", "/jobs/1/payload/order"]
    assert tally(connection) == {}
    stored = dilamme.submit(connection, WELCOME, {"to": "ada", "order": 7})
    assert row(connection, stored)["payload_version"] is None


def test_the_names_in_a_payload_are_its_own(connection: Connection, workshop: Workshop) -> None:
    @workshop.registry.job("mail.camel")
    def camel(payload: dict[str, int], context: Context) -> None:
        """Does nothing."""

    publish(workshop)
    with pytest.raises(InvalidInput, match=r"^/payload/orderId: must be a whole number$"):
        dilamme.submit(connection, "mail.camel", {"orderId": "a"})


def test_a_setting_turns_that_off(
    connection: Connection, workshop: Workshop, welcome: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(workshop)
    workshop.adjust(check_payloads=False)
    monkeypatch.setattr(settings_module, "load", lambda: workshop.settings)
    assert dilamme.submit(connection, WELCOME, {"wrong": True})


def test_what_a_type_checks_itself_is_not_checked_by_its_schema_too(connection: Connection, workshop: Workshop) -> None:
    """A number for a text: the model takes it, the schema does not."""
    publish(workshop)

    @job(WELCOME, registry=workshop.registry)
    def welcome(payload: dict[str, int], context: Context) -> None:
        """Does nothing."""

    publish(workshop)
    assert welcome.submit(connection, {"order": "7"})  # type: ignore[dict-item]
    with pytest.raises(InvalidInput):
        dilamme.submit(connection, WELCOME, {"order": "7"})


def test_a_payload_has_the_published_version_unless_it_names_its_own(
    connection: Connection, workshop: Workshop, ran: list[Any]
) -> None:
    at_version(workshop, 2, ran)
    publish(workshop)
    unnamed, named, newer = (
        dilamme.submit(connection, WELCOME, {"to": "a"}, payload_version=version) for version in (None, 1, 3)
    )
    assert [one["payload_version"] for one in rows(connection, [unnamed, named, newer])] == [2, None, 3]


def test_a_payload_is_refused_by_what_is_published_now_and_not_by_what_was(
    connection: Connection, workshop: Workshop, welcome: Any
) -> None:
    publish(workshop)
    with pytest.raises(InvalidInput):
        dilamme.submit(connection, WELCOME, {"subject": "new"})
    workshop.registry = Registry()

    @job(WELCOME, registry=workshop.registry)
    def newer(payload: dict[str, str], context: Context) -> None:
        """Takes another shape."""

    publish(workshop)
    assert dilamme.submit(connection, WELCOME, {"subject": "new"})


@pytest.mark.parametrize("same_key_first", [True, False])
def test_what_was_stored_under_a_key_is_not_judged_by_what_is_published_later(
    connection: Connection, workshop: Workshop, welcome: Any, fresh: Callable[[], None], same_key_first: bool
) -> None:
    if same_key_first:
        stored = dilamme.submit(connection, WELCOME, {"wrong": True}, idempotency_key="k")
    publish(workshop)
    fresh()
    if same_key_first:
        assert dilamme.submit(connection, WELCOME, {"wrong": True}, idempotency_key="k") == stored
    else:
        with pytest.raises(InvalidInput):
            dilamme.submit(connection, WELCOME, {"wrong": True}, idempotency_key="k")
        assert dilamme.submit(connection, WELCOME, {"to": "ada", "order": 7}, idempotency_key="k")


def test_the_same_request_has_the_same_key_whether_it_names_its_version(connection: Connection, welcome: Any) -> None:
    plain = {"to": "ada", "order": 7, "day": "2030-01-31"}
    stored = dilamme.submit(connection, WELCOME, plain, idempotency_key="k")
    assert welcome.submit(connection, Welcome(to="ada", order=7), idempotency_key="k") == stored


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Those that are sent by our cursors."""
    sent: list[str] = []
    execute = psycopg.Cursor.execute

    def noting(self: Any, query: Any, *args: Any, **named: Any) -> Any:
        sent.append(query if isinstance(query, str) else str(query))
        return execute(self, query, *args, **named)

    monkeypatch.setattr(psycopg.Cursor, "execute", noting)
    return sent


def test_a_job_whose_type_publishes_nothing_costs_no_statement_more(
    connection: Connection, statements: list[str]
) -> None:
    """One look a process every half minute, however many jobs it stores."""
    for _ in range(3):
        dilamme.submit(connection, ECHO)
    looks = [one for one in statements if "job_types" in one]
    assert (len(looks), len(statements)) == (1, 4)


def test_a_look_that_failed_is_made_again(
    connection: Connection, workshop: Workshop, welcome: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(workshop)
    with monkeypatch.context() as patched:
        patched.setattr(job_types, "published_types", _lost)
        with pytest.raises(psycopg.OperationalError):
            dilamme.submit(connection, WELCOME, {"wrong": True})
    with pytest.raises(InvalidInput):
        dilamme.submit(connection, WELCOME, {"wrong": True})


def _lost(connection: Connection) -> Any:
    raise psycopg.OperationalError("as asked for")


def test_a_role_that_may_not_look_stores_all_the_same(
    connection: Connection, workshop: Workshop, welcome: Any, caplog: pytest.LogCaptureFixture
) -> None:
    publish(workshop)
    connection.execute("REVOKE SELECT ON dilamme.job_types FROM dilamme_worker")
    with connect(workshop.url) as caller:
        caller.autocommit = False
        caller.execute("SELECT 1")
        job_id = dilamme.submit(caller, WELCOME, {"wrong": True})
        caller.commit()
    assert row(connection, job_id)["status"] == "pending"
    assert "payloads are stored unchecked: this role may not read dilamme.job_types" in caplog.text


def test_the_last_worker_that_started_decides_what_is_published(
    connection: Connection, clock: Clock, workshop: Workshop, ran: list[Any]
) -> None:
    """So a roll-back is one. Old code that knows no versions leaves them alone."""

    def found() -> tuple[Any, ...]:
        return connection.execute(
            "SELECT version, schema IS NOT NULL, updated_at FROM dilamme.job_types WHERE type = %s", (WELCOME,)
        ).fetchone()  # type: ignore[return-value]

    at_version(workshop, 3, ran)
    publish(workshop)
    assert found() == (3, False, clock.now)
    clock.advance(60)
    publish(workshop)
    assert found() == (3, False, clock.now - timedelta(seconds=60))
    at_version(workshop, 2, ran)
    publish(workshop)
    assert found() == (2, False, clock.now)


def test_times_are_what_they_were(connection: Connection, workshop: Workshop, ran: list[Any]) -> None:
    """A time with a zone, among the options and in the payload."""

    @job("mail.timed", registry=workshop.registry)
    def timed(payload: datetime, context: Context) -> None:
        ran.append(payload)

    moment = datetime(2020, 1, 31, 9, 30, tzinfo=UTC)
    timed.submit(connection, moment, scheduled_at=moment)
    workshop.work()
    assert ran == [moment]
