"""Clients of the HTTP API: `Client`, and `AsyncClient` with the same methods to await.

    with Client("http://127.0.0.1:3000") as client:
        job = client.submit("mail.welcome", {"to": "ada@example.com"}, priority=1)
        print(client.wait(job.id).result)

A call that was lost, or met an overload, is repeated: GETs as they are, POSTs under an idempotency key. Addresses of API
Gateway's are called with a signature (SigV4).
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack
from uuid import UUID

import httpx

from dilamme.client import calls
from dilamme.client.calls import PAUSES_SECONDS, POLL_SECONDS, RETRIED, Call, Filters, JobOptions
from dilamme.client.problems import Refused, Unreachable
from dilamme.client.signing import auth_for
from dilamme.domain.errors import ConfigurationError
from dilamme.wire.answers import (
    BatchedJob,
    CancelledSeries,
    Health,
    JobSummary,
    JobView,
    ReplayedDead,
    ReplayedJob,
    Stats,
    TypeView,
)
from dilamme.wire.why import Why

T = TypeVar("T")

__all__ = ["AsyncClient", "Client", "Refused", "Unreachable"]


def _address(url: str) -> httpx.URL:
    try:
        address = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ConfigurationError(f"{url!r} is no address: {error}") from None
    if address.scheme not in {"http", "https"} or not address.host:
        raise ConfigurationError(f"{url!r} is no address of an API: it begins with http:// or https://")
    return address


def _pause(call: Call[Any], tried: int, response: httpx.Response | None) -> float | None:
    """The seconds before another try; None if there is to be none."""
    if tried >= len(PAUSES_SECONDS) or not call.repeatable:
        return None
    if response is None:
        return PAUSES_SECONDS[tried]
    if response.status_code not in RETRIED:
        return None
    after = response.headers.get("retry-after", "")
    return max(PAUSES_SECONDS[tried], min(float(after), 10.0) if after.isdigit() else 0.0)


def _silence(url: httpx.URL, error: httpx.HTTPError) -> Unreachable:
    return Unreachable(f"{url} does not answer: {str(error) or type(error).__name__}")


class Client:
    """Calls the API at ``url``.

    Args:
        url: the stack's address, as `dilamme dev` prints it, or the output ``ApiUrl`` of a deployment.
        region: signs calls for this AWS region; an address of API Gateway's says it itself.
        timeout_seconds: of one try.
        transport: httpx's own, for tests.

    Raises:
        dilamme.ConfigurationError: the address is none, or its calls cannot be signed.
        dilamme.DilammeError: from each method, what the API refuses (`dilamme.InvalidInput`, `dilamme.Conflict`,
            `dilamme.NotFound`, …), or `dilamme.client.Unreachable`.
    """

    def __init__(
        self,
        url: str,
        *,
        region: str | None = None,
        timeout_seconds: float = 30,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.url = _address(url)
        self._http = httpx.Client(
            base_url=self.url, timeout=timeout_seconds, transport=transport, auth=auth_for(self.url, region)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes its connections."""
        self._http.close()

    def submit(
        self,
        type: str,  # noqa: A002  the field's name everywhere else
        payload: Any = None,
        *,
        idempotency_key: str | None = None,
        **options: Unpack[JobOptions],
    ) -> JobView:
        """Stores a job; the arguments are those of `dilamme.submit`."""
        return self._run(calls.submit(type, payload, idempotency_key, options))

    def submit_many(self, jobs: Iterable[Mapping[str, Any]], *, idempotency_key: str | None = None) -> list[BatchedJob]:
        """Stores many jobs, all or none; the arguments are those of `dilamme.submit_many`."""
        return self._run(calls.submit_many(jobs, idempotency_key))

    def get(self, job_id: UUID | str) -> JobView:
        """The job in full."""
        return self._run(calls.find(job_id))

    def why(self, job_id: UUID | str) -> Why:
        """Why the job is not running."""
        return self._run(calls.why(job_id))

    def list(self, *, page_jobs: int = 100, **filters: Unpack[Filters]) -> Iterator[JobSummary]:
        """All jobs that pass the filters, newest first, fetched page by page."""
        cursor = None
        while True:
            page = self._run(calls.page(filters, page_jobs, cursor))
            yield from page.jobs
            if (cursor := page.next_cursor) is None:
                return

    def wait(self, job_id: UUID | str, *, timeout_seconds: float = 60) -> JobView:
        """The job when it is completed, dead or cancelled.

        Raises:
            TimeoutError: it is not yet.
        """
        ends_by, turn = time.monotonic() + timeout_seconds, 0
        while not calls.has_ended(job := self.get(job_id)):
            if (left := ends_by - time.monotonic()) <= 0:
                raise TimeoutError(f"job {job_id} is still {job.status} after {timeout_seconds:g} s")
            time.sleep(min(left, POLL_SECONDS[min(turn, len(POLL_SECONDS) - 1)]))
            turn += 1
        return job

    def cancel(self, job_id: UUID | str) -> JobView:
        """Cancels a job that has not started."""
        return self._run(calls.cancel(job_id))

    def cancel_series(self, series_id: UUID | str) -> CancelledSeries:
        """Ends a series of recurring jobs."""
        return self._run(calls.cancel_series(series_id))

    def replay(self, job_id: UUID | str) -> ReplayedJob:
        """Brings a dead job back."""
        return self._run(calls.replay(job_id))

    def replay_dead(self, *, type: str | None = None, limit: int | None = None) -> ReplayedDead:  # noqa: A002
        """Brings the oldest dead jobs back. It is not repeated by itself: a second call would revive further ones."""
        return self._run(calls.replay_dead({"type": type, "limit": limit}))

    def types(self) -> Iterator[TypeView]:
        """The types that workers have published, by name, fetched page by page."""
        cursor = None
        while True:
            page = self._run(calls.types(cursor))
            yield from page.types
            if (cursor := page.next_cursor) is None:
                return

    def stats(self) -> Stats:
        """The system at a glance."""
        return self._run(calls.stats())

    def health(self) -> Health:
        """Whether the database answers, takes writes and is migrated."""
        return self._run(calls.health())

    def _run(self, call: Call[T]) -> T:
        tried = 0
        while True:
            response = None
            try:
                response = self._http.request(
                    call.method, call.path, content=call.content, params=call.query, headers=call.headers
                )
            except httpx.TransportError as error:
                if (pause := _pause(call, tried, None)) is None:
                    raise _silence(self.url, error) from error
            else:
                if (pause := _pause(call, tried, response)) is None:
                    return call.answer(response.status_code, response.content)
            time.sleep(pause)
            tried += 1


class AsyncClient:
    """`Client`, with methods to await."""

    def __init__(
        self,
        url: str,
        *,
        region: str | None = None,
        timeout_seconds: float = 30,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.url = _address(url)
        self._http = httpx.AsyncClient(
            base_url=self.url, timeout=timeout_seconds, transport=transport, auth=auth_for(self.url, region)
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes its connections."""
        await self._http.aclose()

    async def submit(
        self,
        type: str,  # noqa: A002  the field's name everywhere else
        payload: Any = None,
        *,
        idempotency_key: str | None = None,
        **options: Unpack[JobOptions],
    ) -> JobView:
        """As `Client.submit`."""
        return await self._run(calls.submit(type, payload, idempotency_key, options))

    async def submit_many(
        self, jobs: Iterable[Mapping[str, Any]], *, idempotency_key: str | None = None
    ) -> list[BatchedJob]:
        """As `Client.submit_many`."""
        return await self._run(calls.submit_many(jobs, idempotency_key))

    async def get(self, job_id: UUID | str) -> JobView:
        """As `Client.get`."""
        return await self._run(calls.find(job_id))

    async def why(self, job_id: UUID | str) -> Why:
        """As `Client.why`."""
        return await self._run(calls.why(job_id))

    async def list(self, *, page_jobs: int = 100, **filters: Unpack[Filters]) -> AsyncIterator[JobSummary]:
        """As `Client.list`."""
        cursor = None
        while True:
            page = await self._run(calls.page(filters, page_jobs, cursor))
            for job in page.jobs:
                yield job
            if (cursor := page.next_cursor) is None:
                return

    async def wait(self, job_id: UUID | str, *, timeout_seconds: float = 60) -> JobView:
        """As `Client.wait`."""
        ends_by, turn = time.monotonic() + timeout_seconds, 0
        while not calls.has_ended(job := await self.get(job_id)):
            if (left := ends_by - time.monotonic()) <= 0:
                raise TimeoutError(f"job {job_id} is still {job.status} after {timeout_seconds:g} s")
            await asyncio.sleep(min(left, POLL_SECONDS[min(turn, len(POLL_SECONDS) - 1)]))
            turn += 1
        return job

    async def cancel(self, job_id: UUID | str) -> JobView:
        """As `Client.cancel`."""
        return await self._run(calls.cancel(job_id))

    async def cancel_series(self, series_id: UUID | str) -> CancelledSeries:
        """As `Client.cancel_series`."""
        return await self._run(calls.cancel_series(series_id))

    async def replay(self, job_id: UUID | str) -> ReplayedJob:
        """As `Client.replay`."""
        return await self._run(calls.replay(job_id))

    async def replay_dead(self, *, type: str | None = None, limit: int | None = None) -> ReplayedDead:  # noqa: A002
        """As `Client.replay_dead`."""
        return await self._run(calls.replay_dead({"type": type, "limit": limit}))

    async def types(self) -> AsyncIterator[TypeView]:
        """As `Client.types`."""
        cursor = None
        while True:
            page = await self._run(calls.types(cursor))
            for one in page.types:
                yield one
            if (cursor := page.next_cursor) is None:
                return

    async def stats(self) -> Stats:
        """As `Client.stats`."""
        return await self._run(calls.stats())

    async def health(self) -> Health:
        """As `Client.health`."""
        return await self._run(calls.health())

    async def _run(self, call: Call[T]) -> T:
        tried = 0
        while True:
            response = None
            try:
                response = await self._http.request(
                    call.method, call.path, content=call.content, params=call.query, headers=call.headers
                )
            except httpx.TransportError as error:
                if (pause := _pause(call, tried, None)) is None:
                    raise _silence(self.url, error) from error
            else:
                if (pause := _pause(call, tried, response)) is None:
                    return call.answer(response.status_code, response.content)
            await asyncio.sleep(pause)
            tried += 1
