"""What workers have published of their types, as whoever stores a job needs it: the versions and schemas of payloads.

A process looks once in `FRESH_SECONDS`, however many jobs it stores, and fetches a schema when it meets the type: a job whose
type publishes none costs nothing. So what has just been published is known after that time at the latest; but a payload is
refused by what is published now. The rival, a join in each INSERT, would be planned for every job.
"""

import json
import logging
import time
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

from dilamme.domain.errors import Fault
from dilamme.store import job_types
from dilamme.store.connection import Connection, apart
from dilamme.store.job_types import Published
from dilamme.wire.requests import Submission

FRESH_SECONDS = 30
DATABASES_MAX = 100  # that a process stores jobs in

logger = logging.getLogger("dilamme.submit")


@dataclass(slots=True)
class _Known:
    at: float  # by the wall clock: a monotonic one may stand still while the process is frozen
    types: dict[str, Published] = field(default_factory=dict)
    schemas: dict[str, tuple[Published, Any]] = field(default_factory=dict)


_known: dict[tuple[bytes, ...], _Known] = {}


@dataclass(frozen=True, slots=True)
class Findings:
    """The payloads' versions, and what does not fit."""

    versions: list[int | None]
    faults: list[Fault]


def look_at_payloads(
    connection: Connection,
    batch: Sequence[Submission],
    where: str,
    vouched: Container[int],
    is_checked: Callable[[], bool],
) -> Findings:
    """The version of each payload of a batch, and the faults of those that do not fit what is published.

    A payload that names no version has the published one. One of another version is for the worker to judge, and so is one
    that is ``vouched`` for: its handler's own annotation has checked it. ``where`` is a job's place in the faults' pointers.
    ``is_checked`` is asked only if a schema was published: is any payload to be checked?
    """
    now = time.time()
    known = _fresh(connection, now)
    if not known.types:
        return Findings([job.payload_version for job in batch], [])
    findings = _look(connection, known, batch, where, vouched, is_checked)
    if findings.faults and known.at != now:
        _refresh(connection, known, now)
        findings = _look(connection, known, batch, where, vouched, is_checked)
    return findings


def _look(
    connection: Connection,
    known: _Known,
    batch: Sequence[Submission],
    where: str,
    vouched: Container[int],
    is_checked: Callable[[], bool],
) -> Findings:
    versions: list[int | None] = []
    faults: list[Fault] = []
    for place, job in enumerate(batch):
        published = known.types.get(job.type)
        version = published.version if published and job.payload_version is None else job.payload_version
        versions.append(version)
        if published is None or not published.has_schema or version != published.version or place in vouched:
            continue
        if is_checked():
            from dilamme.wire.json_schema import faults_of  # noqa: PLC0415  a cold start of those who never need it

            found = faults_of(_schema_of(connection, known, published), json.loads(job.payload))
            faults += [Fault(f"{where.format(place)}/payload{fault.pointer}", fault.detail) for fault in found]
    return Findings(versions, faults)


def _fresh(connection: Connection, now: float) -> _Known:
    place = connection.pgconn
    key = (place.host, place.port, place.db)
    known = _known.get(key)
    if known is None or not 0 <= now - known.at < FRESH_SECONDS:
        if known is None:
            if len(_known) >= DATABASES_MAX:
                _known.clear()
            known = _known[key] = _Known(0.0)
        _refresh(connection, known, now)
    return known


def _refresh(connection: Connection, known: _Known, now: float) -> None:
    try:
        with apart(connection):
            known.types = {one.type: one for one in job_types.published_types(connection)}
    except psycopg.errors.InsufficientPrivilege:
        known.types = {}
        logger.warning(
            "payloads are stored unchecked: this role may not read dilamme.job_types; docs/aws.md has its rights"
        )
    known.at = now  # only now: a look that failed is no look


def _schema_of(connection: Connection, known: _Known, published: Published) -> Any:
    kept = known.schemas.get(published.type)
    if kept is None or kept[0] != published:
        with apart(connection):
            text = job_types.published_schema(connection, published.type)
        kept = known.schemas[published.type] = (published, True if text is None else json.loads(text))
    return kept[1]
