"""`AsyncClient`."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack
from uuid import UUID

import httpx

from dilamme.client import calls
from dilamme.client.calls import Call, Filters, Options, Page
from dilamme.client.sending import Patience, address, pause_before, silence
from dilamme.client.signing import auth_for
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
P = TypeVar("P", bound=Page)


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
        self.url = address(url)
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
        **options: Unpack[Options],
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
        async for page in self._pages(partial(calls.page, filters, page_jobs)):
            for job in page.jobs:
                yield job

    async def wait(self, job_id: UUID | str, *, timeout_seconds: float = 60) -> JobView:
        """As `Client.wait`."""
        patience = Patience(timeout_seconds)
        # ASYNC110: the job ends elsewhere, so there is no event here to wait for.
        while (pause := patience.pause_before_next_look(job := await self.get(job_id))) is not None:  # noqa: ASYNC110
            await asyncio.sleep(pause)
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
        async for page in self._pages(calls.types):
            for one in page.types:
                yield one

    async def stats(self) -> Stats:
        """As `Client.stats`."""
        return await self._run(calls.stats())

    async def health(self) -> Health:
        """As `Client.health`."""
        return await self._run(calls.health())

    async def _pages(self, page_at: Callable[[str | None], Call[P]]) -> AsyncIterator[P]:
        cursor = None
        while True:
            page = await self._run(page_at(cursor))
            yield page
            if (cursor := page.next_cursor) is None:
                return

    async def _run(self, call: Call[T]) -> T:
        tried = 0
        while True:
            response = None
            try:
                response = await self._http.request(**call.sent)
            except httpx.TransportError as error:
                if (pause := pause_before(call, tried, None)) is None:
                    raise silence(self.url, error) from error
            else:
                if (pause := pause_before(call, tried, response)) is None:
                    return call.answer(response.status_code, response.content)
            await asyncio.sleep(pause)
            tried += 1
