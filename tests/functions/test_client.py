"""`dilamme.Client` and `dilamme.AsyncClient` against the API's own code, on a real database."""

import asyncio
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import httpx
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

import dilamme
from dilamme.client import AsyncClient, Client, Refused, Unreachable
from dilamme.domain.job import Status
from dilamme.domain.outcome import Complete
from dilamme.handlers.registry import Registry
from dilamme.store.connection import Connection
from dilamme.store.job_types import upsert_types
from dilamme_local import payload
from functions.api import handler as api
from tests.functions.door import CONTEXT
from tests.support.jobs import bury, claim_one, end_all, tally

pytestmark = pytest.mark.usefixtures("door")
FAR = datetime(2999, 1, 1, tzinfo=UTC)


def answer(request: httpx.Request) -> httpx.Response:
    """The API's answer, as API Gateway gives it."""
    target = request.url.raw_path.decode("ascii")
    event = payload.event(request.method, target, request.headers.items(), request.content, "127.0.0.1")
    told = payload.response(json.dumps(api.handler(event, CONTEXT)).encode())
    return httpx.Response(told.status, headers=list(told.headers), content=told.body)


@pytest.fixture
def client() -> Iterator[Client]:
    with Client("http://localhost", transport=httpx.MockTransport(answer)) as made:
        yield made


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dilamme.client.sending.PAUSES_SECONDS", (0.0,) * 4)


def moment(at: datetime) -> datetime:
    """Stands for botocore's clock."""
    return at


def flaky(*first: httpx.Response | Exception) -> tuple[Client, list[httpx.Request]]:
    """A client whose first calls end so, and the requests that it sent."""
    ends, sent = list(first), []

    def serve(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        if not ends:
            return answer(request)
        if isinstance(end := ends.pop(0), Exception):
            raise end
        return end

    return Client("http://localhost", transport=httpx.MockTransport(serve)), sent


def test_what_submit_stores_get_shows(client: Client) -> None:
    parent = client.submit("a.b", {"n": 1})
    job = client.submit(
        "mail.welcome", {"to": "ada"}, priority=1, scheduled_at=FAR, dependency_ids=[parent.id], max_attempts=5
    )
    found = client.get(job.id)
    assert (found.type, found.payload, found.priority, found.max_attempts) == ("mail.welcome", {"to": "ada"}, 1, 5)
    assert (found.scheduled_at, found.dependency_ids, found.status) == (FAR, [parent.id], Status.PENDING)
    assert client.why(job.id).waits_on_count == 1


def test_a_batch_is_stored_whole(client: Client, connection: Connection) -> None:
    jobs: list[dict[str, Any]] = [
        {"type": "a", "ref": "one"},
        {"type": "b", "payload": [1], "dependency_refs": ["one"]},
    ]
    stored = client.submit_many(jobs)
    assert [job.ref for job in stored] == ["one", None]
    assert client.get(stored[1].id).dependency_ids == [stored[0].id]
    with pytest.raises(dilamme.InvalidInput) as raised:
        client.submit_many([{"type": "a"}, {"type": "B!"}])
    assert raised.value.faults[0].pointer == "/jobs/1/type"
    assert tally(connection) == {"pending": 2}


def test_a_list_goes_on_over_its_pages(client: Client) -> None:
    stored = [client.submit("a").id for _ in range(5)]
    client.submit("b")
    assert [job.id for job in client.list(page_jobs=2, type="a")] == stored[::-1]


def test_wait_returns_a_job_that_has_ended_and_says_of_another_that_it_has_not(
    client: Client, connection: Connection
) -> None:
    job = client.submit("a")
    with pytest.raises(TimeoutError, match=f"job {job.id} is still pending after 0.05 s"):
        client.wait(job.id, timeout_seconds=0.05)
    end_all(connection, [(claim_one(connection), Complete('{"n": 1}'))])
    assert client.wait(job.id).result == {"n": 1}


def test_cancel_and_replay(client: Client, connection: Connection) -> None:
    assert client.cancel(client.submit("a").id).status is Status.CANCELLED
    job = client.submit("b")
    with pytest.raises(dilamme.Conflict):
        client.replay(job.id)
    bury(connection, claim_one(connection))
    assert client.replay(job.id).replayed
    bury(connection, claim_one(connection))
    assert client.replay_dead(type="b").ids == [job.id]
    series = client.submit("c", interval_seconds=60)
    assert series.series_id is not None
    assert client.cancel_series(series.series_id).cancelled


def test_the_types_are_listed_over_their_pages(client: Client, connection: Connection) -> None:
    registry = Registry()
    for number in range(201):
        registry.job(f"type.{number:03}", max_attempts=7)(lambda payload, context: None)
    upsert_types(connection, list(registry.values()))
    found = list(client.types())
    assert [one.type for one in found] == sorted(registry)
    assert found[0].max_attempts == 7


def test_the_system_at_a_glance(client: Client) -> None:
    client.submit("a")
    assert client.stats().jobs.pending.count == 1
    assert client.health().status == "ok"


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda c: c.submit("NO"), dilamme.InvalidInput, "/type: must be"),
        (lambda c: c.submit("a", {"n": float("nan")}), dilamme.InvalidInput, "/payload: "),
        (lambda c: c.submit("a", object()), dilamme.InvalidInput, "/payload: "),
        (lambda c: c.submit("a", "x" * 300_000), dilamme.TooLarge, "at most 262144"),
        (lambda c: c.submit("a", scheduled_at=datetime(2030, 1, 1)), dilamme.InvalidInput, "no time zone"),  # noqa: DTZ001
        (lambda c: c.get(UUID(int=1)), dilamme.NotFound, "00000000-0000-0000-0000-000000000001"),
        (lambda c: c.get("../stats"), Refused, "nothing is at this path"),
        (lambda c: c.submit_many(["a"]), dilamme.InvalidInput, "/jobs/0: must be a mapping"),
        (lambda c: list(c.list(colour="red")), dilamme.InvalidInput, "/colour: is not a known parameter"),
    ],
)
def test_a_problem_is_the_exception_that_it_means(
    client: Client, call: Callable[[Client], Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        call(client)


@pytest.mark.usefixtures("no_pauses")
@pytest.mark.parametrize(
    "end", [httpx.ConnectError("refused"), httpx.ReadTimeout("late"), httpx.Response(503), httpx.Response(429)]
)
def test_a_call_that_was_lost_is_repeated_under_its_key_and_stores_one_job(
    connection: Connection, end: httpx.Response | Exception
) -> None:
    client, sent = flaky(end, end)
    client.submit("a")
    assert len(sent) == 3
    assert len({request.headers["idempotency-key"] for request in sent}) == 1
    assert tally(connection) == {"pending": 1}


@pytest.mark.usefixtures("no_pauses")
def test_an_answer_that_was_lost_after_the_commit_stores_nothing_twice(connection: Connection) -> None:
    lost: list[httpx.Response] = []

    def serve(request: httpx.Request) -> httpx.Response:
        told = answer(request)
        if not lost:
            lost.append(told)
            raise httpx.ReadError("reset")
        return told

    with Client("http://localhost", transport=httpx.MockTransport(serve)) as client:
        job = client.submit("a")
    assert str(job.id) == lost[0].json()["id"]
    assert tally(connection) == {"pending": 1}


@pytest.mark.usefixtures("no_pauses")
def test_a_replay_of_many_is_not_repeated() -> None:
    client, sent = flaky(httpx.ReadTimeout("late"))
    with pytest.raises(Unreachable, match="http://localhost does not answer: late"):
        client.replay_dead()
    assert len(sent) == 1


@pytest.mark.usefixtures("no_pauses")
def test_who_does_not_answer_is_named_in_the_end() -> None:
    client, sent = flaky(*[httpx.ConnectError("refused")] * 9)
    with pytest.raises(Unreachable):
        client.stats()
    assert len(sent) == 5


def test_an_answer_of_somebody_else_is_told() -> None:
    client, _ = flaky(httpx.Response(403, json={"message": "Forbidden"}), httpx.Response(404, text="<html>"))
    with pytest.raises(Refused, match="Forbidden") as raised:
        client.stats()
    assert raised.value.status == 403
    with pytest.raises(Refused, match="the answer was 404"):
        client.stats()


@pytest.mark.parametrize("url", ["", "localhost:3000", "ftp://a", "http://", "jobs"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(dilamme.ConfigurationError, match="address"):
        Client(url)


def test_calls_to_api_gateway_are_signed_so_that_iam_takes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    sent: list[httpx.Request] = []

    def serve(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return answer(request)

    url = "https://abc.execute-api.eu-central-1.amazonaws.com"
    with Client(url, transport=httpx.MockTransport(serve)) as client:
        client.submit("a", {"ä": 1})
        assert list(client.list(type="a"))
    for request in sent:
        again = AWSRequest(request.method, str(request.url), data=request.content)
        again.headers["host"] = "abc.execute-api.eu-central-1.amazonaws.com"
        if "content-type" in request.headers:
            again.headers["content-type"] = request.headers["content-type"]
        again.context["timestamp"] = request.headers["x-amz-date"]
        signed_at = datetime.strptime(request.headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        signer = SigV4Auth(Credentials("AKIDEXAMPLE", "secret", "token"), "execute-api", "eu-central-1")
        monkeypatch.setattr("botocore.auth.get_current_datetime", partial(moment, signed_at))
        signer.add_auth(again)
        assert again.headers["Authorization"] == request.headers["authorization"]
        assert request.headers["x-amz-security-token"] == "token"


def test_without_credentials_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    with pytest.raises(dilamme.ConfigurationError, match="aws sso login"):
        Client("https://abc.execute-api.eu-central-1.amazonaws.com")


def test_the_async_client_does_the_same(connection: Connection) -> None:
    async def use() -> None:
        async with AsyncClient("http://localhost", transport=httpx.MockTransport(answer)) as client:
            job = await client.submit("a", {"n": 1})
            assert (await client.get(job.id)).payload == {"n": 1}
            stored = await client.submit_many([{"type": "b"}] * 3)
            assert [found.type async for found in client.list(page_jobs=2)] == ["b", "b", "b", "a"]
            assert (await client.why(job.id)).status is Status.PENDING
            assert (await client.cancel(stored[0].id)).status is Status.CANCELLED
            assert (await client.wait(stored[0].id)).status is Status.CANCELLED
            with pytest.raises(TimeoutError):
                await client.wait(job.id, timeout_seconds=0.02)
            bury(connection, claim_one(connection))
            assert (await client.replay_dead()).replayed == 1
            assert not (await client.replay(job.id)).replayed
            series = await client.submit("c", interval_seconds=60, scheduled_at=datetime.now(UTC) + timedelta(days=1))
            assert series.series_id is not None
            assert (await client.cancel_series(series.series_id)).cancelled
            assert (await client.stats()).jobs.pending.count >= 1
            assert (await client.health()).status == "ok"
            assert [one async for one in client.types()] == []
            with pytest.raises(dilamme.InvalidInput):
                await client.submit("NO")

    asyncio.run(use())


def test_both_clients_have_the_same_methods() -> None:
    def public(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert public(Client) == public(AsyncClient)
