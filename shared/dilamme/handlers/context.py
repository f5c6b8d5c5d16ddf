"""The context that a handler gets beside its payload."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from dilamme.domain.job import Claim

if TYPE_CHECKING:
    import psycopg

logger = logging.getLogger("dilamme.job")


class _JobLogger(logging.LoggerAdapter[logging.Logger]):
    """Adds the job's id, type and attempt to each line, beside the caller's own fields."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs


class _DependencyResults(Mapping[UUID, Any]):
    def __init__(self, here: Mapping[UUID, Any], further: Iterable[UUID], fetch: Callable[[UUID], Any]) -> None:
        self._here = here
        self._further = dict.fromkeys(further)
        self._fetch = fetch

    def __getitem__(self, job_id: UUID) -> Any:
        if job_id in self._further:
            return self._fetch(job_id)
        return self._here[job_id]

    def __iter__(self) -> Iterator[UUID]:
        return chain(self._here, self._further)

    def __len__(self) -> int:
        return len(self._here) + len(self._further)

    def __repr__(self) -> str:
        return f"<the results of {len(self)} dependencies>"


class Context:
    """The job that a handler runs for: its id, its attempt, its time, its logger, the results of its dependencies.

    One is made for every job, so parts that few handlers use are made at their first use.
    """

    opener: ClassVar[Callable[..., Any]]
    """`dilamme.connect`; the worker's doorway sets it, since what users' code meets knows no database."""

    connections: list[Any] | None = None  # those of `connect`; most jobs have none

    def __init__(self, claim: Claim, ends_by: float, ask: Callable[[UUID, UUID | None], Any]) -> None:
        self._claim = claim
        self._ends_by = ends_by  # monotonic seconds
        self._ask = ask

    @property
    def job_id(self) -> UUID:
        """The job's id: the same for each attempt, so a good key to make a handler's work idempotent by."""
        return self._claim.id

    @property
    def type(self) -> str:
        """The job's type."""
        return self._claim.type

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self._claim.attempt

    @property
    def max_attempts(self) -> int:
        """The number of failed attempts after which the job is dead."""
        return self._claim.max_attempts

    @cached_property
    def deadline(self) -> datetime:
        """The time (UTC) at which this attempt has used up its timeout."""
        return datetime.now(UTC) + timedelta(seconds=self.remaining_seconds())

    def remaining_seconds(self) -> float:
        """The seconds that are left to this attempt."""
        return self._ends_by - time.monotonic()

    def connect(self, *, autocommit: bool = False) -> "psycopg.Connection[Any]":
        """As `dilamme.connect`: a connection to the database that holds the jobs. It is closed when the job has ended.

        What was not committed by then is rolled back: ``with context.connect() as connection`` commits.
        """
        opened: psycopg.Connection[Any] = self.opener(autocommit=autocommit)
        self.connections = [*(self.connections or ()), opened]
        return opened

    def close(self) -> None:
        """Closes what `connect` has opened."""
        for opened in self.connections or ():
            with suppress(Exception):  # the job has ended well or badly already
                opened.close()

    @cached_property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose lines carry the job's id."""
        return _JobLogger(logger, {"job_id": str(self.job_id), "job_type": self.type, "attempt": self.attempt})

    @cached_property
    def dependency_results(self) -> Mapping[UUID, Any]:
        """The results of the jobs that this one waited for, by their ids; fetched at the first use.

        The first four million characters of them are fetched together and kept. Of what is more, each is fetched whenever it
        is asked for, and not kept: a thousand of the largest results would not fit into a worker's memory.
        """
        here, further = self._ask(self.job_id, None)
        return _DependencyResults(here, further, partial(self._ask, self.job_id))
