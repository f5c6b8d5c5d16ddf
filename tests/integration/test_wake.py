"""No lost wake-up (invariant 11): a job posted at any moment of a worker's leaving is run, or a worker is called for it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from dilamme import library
from dilamme import settings as settings_module
from dilamme.aws import invoke as invoke_module
from dilamme.domain.errors import ConfigurationError
from dilamme.settings import Settings
from dilamme.store import lanes, lease, slots
from dilamme.store.connection import Connection
from dilamme.usecases import wake
from tests.integration.entrance import Enter
from tests.integration.invocations import Invocations
from tests.integration.jobs import ECHO, put, tally
from tests.integration.rivals import cut_connections
from tests.integration.workshop import Workshop


def _before(step: Callable[..., Any], first: Callable[[], None]) -> Callable[..., Any]:
    def both(*arguments: Any, **named: Any) -> Any:
        first()
        return step(*arguments, **named)

    return both


def _after(step: Callable[..., Any], then: Callable[[], None]) -> Callable[..., Any]:
    def both(*arguments: Any, **named: Any) -> Any:
        result = step(*arguments, **named)
        then()
        return result

    return both


MOMENTS = {
    "before the claim that finds nothing": (lanes, "start_and_claim", _before),
    "after the claim that found nothing": (lanes, "start_and_claim", _after),
    "before the slot is let go of": (slots, "free", _before),
    "after the slot was let go of": (slots, "free", _after),
    "before the last look": (lanes, "work_left", _before),
    "after the last look": (lanes, "work_left", _after),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_job_posted_while_a_worker_leaves_does_not_wait_for_a_tick(
    enter: Enter,
    connection: Connection,
    settings: Settings,
    workshop: Workshop,
    invocations: Invocations,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
) -> None:
    """C15, with one slot: at each moment the leaving worker sees the job, or whoever posts it finds the slot free.

    Never both lose sight of it: then it is completed here without a tick.
    """
    one_slot = settings.model_copy(update={"worker_slots": 1})
    workshop.settings = one_slot
    slots.provide_slots(connection, 1)
    poster = enter("api")
    posted: list[bool] = []

    def post() -> None:
        if not posted:
            posted.append(True)
            put(poster)
            wake.wake(poster, one_slot, due=True, later=False)

    event = workshop.reserve()
    module, name, placed = MOMENTS[moment]
    monkeypatch.setattr(module, name, placed(getattr(module, name), post))
    workshop.work(event)
    for called in invocations.take_workers():
        workshop.work(called)
    assert tally(connection) == {"completed": 1}


def test_a_worker_that_takes_its_slot_again_keeps_its_token(
    enter: Enter, connection: Connection, settings: Settings, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The platform names it by that token, should it be lost now."""
    held: list[Any] = []
    workshop.registry.job("test.look")(
        lambda payload, context: held.extend(
            connection.execute("SELECT token FROM dilamme.worker_slots WHERE state = 'started'").fetchall()
        )
    )
    event = workshop.reserve()
    poster = enter("api")

    def post_once() -> None:
        if not held:
            put(poster, type="test.look")

    monkeypatch.setattr(slots, "free", _before(slots.free, post_once))
    workshop.work(event)
    assert held[0] == (event.token,)


def test_a_job_that_is_due_calls_one_worker_if_a_slot_is_free(
    enter: Enter, connection: Connection, settings: Settings, invocations: Invocations
) -> None:
    one_slot = settings.model_copy(update={"worker_slots": 1})
    poster = enter("api")
    put(poster)
    for _ in range(3):
        wake.wake(poster, one_slot, due=True, later=False)
    assert [function for function, _ in invocations if function == "worker"] == ["worker"]


def test_a_worker_that_cannot_be_called_leaves_its_slot_free_and_calls_a_scheduler(
    enter: Enter, connection: Connection, settings: Settings, invocations: Invocations
) -> None:
    poster = enter("api")
    put(poster)
    invocations.failing = 1
    wake.wake(poster, settings, due=True, later=False)
    assert [function for function, _ in invocations] == ["scheduler"]
    assert slots.count_slots(connection, settings.worker_slots).free == settings.worker_slots


def test_many_who_see_that_nobody_leads_call_one_scheduler(
    enter: Enter, connection: Connection, settings: Settings, invocations: Invocations
) -> None:
    """Once for a job in the near future; a job in the far future is the next trigger's."""
    posters = [enter("api") for _ in range(5)]
    put(connection, scheduled_at="2100-01-01T00:00:00Z")
    wake.wake(posters[0], settings, due=False, later=True)
    assert list(invocations) == []
    put(connection)
    for poster in posters:
        wake.wake_scheduler(poster, settings)
    assert [function for function, _ in invocations] == ["scheduler"]


def test_of_those_who_all_saw_that_nobody_leads_before_one_of_them_called_one_calls(
    enter: Enter, settings: Settings
) -> None:
    """Each had looked; the compare-and-set decides, not the look."""
    callers = [enter("api") for _ in range(5)]
    assert all(lease.nobody_leads(caller) for caller in callers)
    with ThreadPoolExecutor(max_workers=5) as executor:
        told = executor.map(lambda caller: lease.reserve_lead(caller, settings.invitation_seconds), callers)
        assert sorted(told) == [False] * 4 + [True]


def test_a_callers_wake_starts_what_was_committed(
    enter: Enter,
    connection: Connection,
    invocations: Invocations,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settings_module, "load", lambda: settings)
    caller = enter("api")
    with caller.transaction():
        library.submit(caller, ECHO)
        with pytest.raises(ConfigurationError, match="commit first"):
            library.wake(caller)
    assert list(invocations) == []
    library.wake(caller)
    assert [function for function, _ in invocations if function == "worker"] == ["worker"]


def test_a_wake_over_a_connection_that_cannot_be_used_says_why(
    enter: Enter, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings_module, "load", lambda: settings)
    failed, closed = enter("api"), enter("api")
    failed.autocommit = False
    with pytest.raises(psycopg.errors.UndefinedTable):
        failed.execute("SELECT FROM nowhere")
    with pytest.raises(ConfigurationError, match="roll back one that has failed"):
        library.wake(failed)
    closed.close()
    with pytest.raises(psycopg.OperationalError, match="closed"):
        library.wake(closed)


def test_an_endpoint_that_is_no_url_costs_no_slot(
    enter: Enter, connection: Connection, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings_module, "load", lambda: settings)
    monkeypatch.setenv("AWS_ENDPOINT_URL_LAMBDA", "not a url")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setattr(invoke_module, "_client", invoke_module._client.__wrapped__)
    monkeypatch.setattr(wake, "invoke", invoke_module.invoke)
    slots.provide_slots(connection, settings.worker_slots)
    caller = enter("api")
    library.submit(caller, ECHO)
    library.wake(caller)
    assert slots.count_slots(connection, settings.worker_slots).invited == 0


def test_a_callers_worker_is_called_when_its_invitation_can_be_seen(
    enter: Enter, connection: Connection, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also over a connection as applications have it, not in autocommit mode; and it stays so."""
    monkeypatch.setattr(settings_module, "load", lambda: settings)
    seen: list[int] = []
    monkeypatch.setattr(
        wake, "invoke", lambda *_: seen.append(slots.count_slots(connection, settings.worker_slots).invited)
    )
    slots.provide_slots(connection, settings.worker_slots)
    caller = enter("api")
    caller.autocommit = False
    library.submit(caller, ECHO)
    caller.commit()
    library.wake(caller)
    assert seen[0] == 1
    assert not caller.autocommit
    assert caller.info.transaction_status == TransactionStatus.IDLE


def test_a_worker_whose_connection_is_cut_between_two_steps_loses_nothing(
    connection: Connection, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C10, inside an invocation: after a claim and after a settle."""
    cuts: list[int] = []

    def cut() -> None:
        if len(cuts) < 2:
            cuts.append(cut_connections(connection))

    monkeypatch.setattr(lanes, "start_and_claim", _after(lanes.start_and_claim, cut))
    monkeypatch.setattr(lanes, "claim", _after(lanes.claim, cut))
    for number in range(8):
        put(connection, payload=number)
    workshop.work()
    assert cuts == [1, 1]
    assert sorted(payload for payload, _ in workshop.ran) == list(range(8))
    assert tally(connection) == {"completed": 8}


def test_an_invitation_does_not_wait_for_the_disk_and_what_comes_after_it_does(connection: Connection) -> None:
    """Nothing of it stays in the session (invariant 12)."""
    with connection.transaction():
        slots.reserve_or_look(connection, uuid4(), slots=1, hold_seconds=60)
        assert connection.execute("SHOW synchronous_commit").fetchone() == ("off",)
    assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)


def test_a_worker_whose_invitation_was_forgotten_sees_that_somebody_leads(
    connection: Connection, settings: Settings, workshop: Workshop, invocations: Invocations
) -> None:
    """As after a crash of the server: the slot is free again, and nobody else knows of the job."""
    slots.provide_slots(connection, settings.worker_slots)
    put(connection)
    wake.wake(connection, settings, due=True, later=False)
    (event,) = invocations.take_workers()
    slots.free(connection, [event.token])
    assert not workshop.work(event).admitted
    assert [function for function, _ in invocations] == ["scheduler"]
    assert tally(connection) == {"pending": 1}
