"""`Client`."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
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
        self.url = address(url)
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
        **options: Unpack[Options],
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
        for page in self._pages(partial(calls.page, filters, page_jobs)):
            yield from page.jobs

    def wait(self, job_id: UUID | str, *, timeout_seconds: float = 60) -> JobView:
        """The job when it is completed, dead or cancelled.

        Raises:
            TimeoutError: it is not yet.
        """
        patience = Patience(timeout_seconds)
        while (pause := patience.pause_before_next_look(job := self.get(job_id))) is not None:
            time.sleep(pause)
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
        for page in self._pages(calls.types):
            yield from page.types

    def stats(self) -> Stats:
        """The system at a glance."""
        return self._run(calls.stats())

    def health(self) -> Health:
        """Whether the database answers, takes writes and is migrated."""
        return self._run(calls.health())

    def _pages(self, page_at: Callable[[str | None], Call[P]]) -> Iterator[P]:
        cursor = None
        while True:
            page = self._run(page_at(cursor))
            yield page
            if (cursor := page.next_cursor) is None:
                return

    def _run(self, call: Call[T]) -> T:
        tried = 0
        while True:
            response = None
            try:
                response = self._http.request(**call.sent)
            except httpx.TransportError as error:
                if (pause := pause_before(call, tried, None)) is None:
                    raise silence(self.url, error) from error
            else:
                if (pause := pause_before(call, tried, response)) is None:
                    return call.answer(response.status_code, response.content)
            time.sleep(pause)
            tried += 1
