"""The commands that talk to an installation: submit, show, why, list, cancel, replay, stats, types."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.table import Table

from dilamme.client import Client
from dilamme.domain.errors import Fault, InvalidInput
from dilamme.domain.job import Status
from dilamme.wire.answers import JobSummary, JobView
from dilamme_cli.console import COLOURS
from dilamme_cli.target import client_for

Url = Annotated[str, typer.Option("--url", envvar="DILAMME_URL", help="Of the API; the local stack's without.")]
Database = Annotated[
    str, typer.Option("--database", envvar="DILAMME_DATABASE", help="Past the API, by its role or the owner's.")
]
Json = Annotated[bool, typer.Option("--json", help="For programs.")]
JobId = Annotated[UUID, typer.Argument(metavar="ID", help="The job's id.")]
NOT_DONE = 1  # the exit status where a job that was waited for did not complete

console = Console(highlight=False, width=None if sys.stdout.isatty() else 200)


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    for command in (submit, show, why, list_jobs, cancel, replay, stats, types):
        app.command(command.__name__.removesuffix("_jobs"))(command)


@contextmanager
def _client(url: str, database: str) -> Iterator[Client]:
    with client_for(url, database) as client:
        yield client


def submit(
    type_: Annotated[str, typer.Argument(metavar="TYPE", help="Names the handler: mail.welcome.")],
    payload: Annotated[str, typer.Argument(help="JSON; - reads it from standard input.")] = "{}",
    priority: Annotated[int, typer.Option(help="1 is high, 2 medium, 3 low.")] = 2,
    at: Annotated[str, typer.Option(help="Not before this time: 2030-01-31T09:30:00Z.")] = "",
    after: Annotated[list[UUID] | None, typer.Option(help="Runs after this job; may be repeated.")] = None,
    every: Annotated[int, typer.Option(help="Repeats after so many seconds.")] = 0,
    max_attempts: Annotated[int, typer.Option(help="Else the type's, else the setting.")] = 0,
    key: Annotated[str, typer.Option(help="Its idempotency key.")] = "",
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for its end; the exit status is 1 unless it completed.")
    ] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait.")] = 60,
    url: Url = "",
    database: Database = "",
    as_json: Json = False,
) -> None:
    """Stores a job."""
    with _client(url, database) as client:
        job = client.submit(
            type_,
            _payload(payload),
            idempotency_key=key or None,
            priority=priority,
            scheduled_at=_moment(at),
            dependency_ids=after or [],
            interval_seconds=every or None,
            max_attempts=max_attempts or None,
        )
        if wait:
            _end(client.wait(job.id, timeout_seconds=timeout), as_json=as_json)
        elif as_json:
            _print_json(job)
        else:
            print(f"{job.id}  {job.status}")


def show(job_id: JobId, url: Url = "", database: Database = "", as_json: Json = False) -> None:
    """Shows a job in full."""
    with _client(url, database) as client:
        job = client.get(job_id)
    if as_json:
        _print_json(job)
        return
    table = Table(show_header=False, box=None)
    for name, value in job.model_dump(by_alias=True, mode="json", exclude={"errors", "last_error"}).items():
        if value not in (None, []):
            table.add_row(name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    for error in job.errors:
        table.add_row(f"attempt {error.attempt}", f"{error.reason}: {error.message}")
    console.print(table)


def why(job_id: JobId, url: Url = "", database: Database = "", as_json: Json = False) -> None:
    """Says why a job is not running."""
    with _client(url, database) as client:
        reasons = client.why(job_id)
    if as_json:
        _print_json(reasons)
    else:
        print(f"{reasons.status}: {reasons.detail}")


def list_jobs(
    status: Annotated[Status | None, typer.Option(help="Only these.")] = None,
    type_: Annotated[str, typer.Option("--type", help="Only of this type.")] = "",
    limit: Annotated[int, typer.Option(help="At most so many, newest first.", min=1)] = 20,
    url: Url = "",
    database: Database = "",
    as_json: Json = False,
) -> None:
    """Lists jobs, newest first."""
    found: list[JobSummary] = []
    filters: dict[str, Any] = {"status": status, "type": type_ or None}
    with _client(url, database) as client:
        for job in client.list(page_jobs=min(limit, 200), **filters):
            found.append(job)
            if len(found) == limit:
                break
    if as_json:
        print(json.dumps([job.model_dump(by_alias=True, mode="json") for job in found], ensure_ascii=False, indent=2))
        return
    table = Table(box=None)
    for heading, width in (
        ("id", 36),
        ("type", 8),
        ("status", 9),
        ("P", 1),
        ("attempt", 7),
        ("created", 10),
        ("error", None),
    ):
        table.add_column(heading, min_width=width, no_wrap=True)
    for job in found:
        error = f"{job.last_error.reason}: {job.last_error.message}".partition("\n")[0] if job.last_error else ""
        table.add_row(
            str(job.id),
            job.type,
            f"[{COLOURS.get(job.status, 'default')}]{job.status}[/]",
            str(job.priority),
            f"{job.attempt}/{job.max_attempts}",
            _ago(job.created_at),
            error.replace("[", r"\["),
        )
    console.print(table if found else "no jobs")


def cancel(job_id: JobId, url: Url = "", database: Database = "", as_json: Json = False) -> None:
    """Cancels a job that has not started."""
    _change(url, database, lambda client: client.cancel(job_id), as_json=as_json)


def replay(
    job_id: Annotated[
        UUID | None, typer.Argument(metavar="[ID]", help="The dead job's id; or --type, or --all.")
    ] = None,
    type_: Annotated[str, typer.Option("--type", help="The oldest dead jobs of this type.")] = "",
    all_: Annotated[bool, typer.Option("--all", help="The oldest dead jobs of all types.")] = False,
    limit: Annotated[int, typer.Option(help="At most so many.")] = 1000,
    url: Url = "",
    database: Database = "",
    as_json: Json = False,
) -> None:
    """Brings dead jobs back, with fresh attempts."""
    if sum([job_id is not None, bool(type_), all_]) != 1:
        raise typer.BadParameter("give a job's id, or --type, or --all")
    if job_id is not None:
        _change(url, database, lambda client: client.replay(job_id), as_json=as_json)
        return
    with _client(url, database) as client:
        done = client.replay_dead(type=type_ or None, limit=limit)
    if as_json:
        _print_json(done)
    else:
        print(f"{done.replayed} replayed{', and there are more: call again' if done.more else ''}")


def stats(url: Url = "", database: Database = "", as_json: Json = False) -> None:
    """Shows the system at a glance."""
    with _client(url, database) as client:
        now = client.stats()
    if as_json:
        _print_json(now)
        return
    table = Table(box=None)
    for heading in ("jobs", "all", "P1", "P2", "P3"):
        table.add_column(heading, justify="left" if heading == "jobs" else "right")
    for name in type(now.jobs).model_fields:
        tally = getattr(now.jobs, name)
        by = [tally.by_priority.get(str(priority)) for priority in (1, 2, 3)]
        table.add_row(name, *(_count(one) for one in (tally, *by)))
    console.print(table)
    workers = now.workers
    print(f"workers: {workers.active} active, {workers.invited} invited, {workers.free} of {workers.slots} free")
    ticked = f", last tick {_ago(now.scheduler.last_tick_at)}" if now.scheduler.last_tick_at else ""
    print(f"scheduler: {'leads' if now.scheduler.alive else 'rests'}{ticked}")
    if now.oldest_ready_seconds is not None:
        print(f"oldest ready job: waits for {now.oldest_ready_seconds:.0f} s")


def types(url: Url = "", database: Database = "", as_json: Json = False) -> None:
    """Lists the types that workers have published, with their payloads' fields."""
    with _client(url, database) as client:
        found = list(client.types())
    if as_json:
        print(json.dumps([one.model_dump(by_alias=True, mode="json") for one in found], ensure_ascii=False, indent=2))
        return
    table = Table(box=None)
    for heading in ("type", "version", "attempts", "timeout", "published", "payload"):
        table.add_column(heading, no_wrap=heading != "payload")
    for one in found:
        schema = one.payload_schema if isinstance(one.payload_schema, dict) else {}
        required = schema.get("required", [])
        fields = [name if name in required else f"{name}?" for name in schema.get("properties", {})]
        payload = ", ".join(fields) or str(schema.get("type", "any"))
        values = (str(one.version), str(one.max_attempts), f"{one.timeout_seconds:g} s", _ago(one.published_at))
        table.add_row(one.type, *values, payload)
    console.print(table if found else "no worker has published a type yet")


def _change(url: str, database: str, call: Callable[[Client], JobView], *, as_json: bool) -> None:
    with _client(url, database) as client:
        job = call(client)
    if as_json:
        _print_json(job)
    else:
        print(f"{job.id}  {job.status}")


def _end(job: JobView, *, as_json: bool) -> None:
    if as_json:
        _print_json(job)
    else:
        took = f"{(job.finished_at - job.created_at).total_seconds() * 1000:.0f} ms" if job.finished_at else ""
        if job.status is Status.COMPLETED:
            print(f"{job.status}  {json.dumps(job.result, ensure_ascii=False)}  {took}")
        else:
            print(f"{job.status}  {job.last_error.message if job.last_error else ''}  {took}")
    if job.status is not Status.COMPLETED:
        sys.exit(NOT_DONE)


def _payload(text: str) -> Any:
    try:
        return json.loads(sys.stdin.read() if text == "-" else text)
    except ValueError as error:
        raise InvalidInput(Fault("/payload", f"is no JSON: {error}")) from None


def _moment(text: str) -> datetime | None:
    if not text:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            Fault("/at", "must be a time in RFC 3339 with a zone, such as 2030-01-31T09:30:00Z")
        ) from None


def _count(tally: Any) -> str:
    if tally is None:
        return "0"
    return f"{tally.count:,}{'+' if tally.capped else ''}"


def _ago(moment: datetime) -> str:
    seconds = (datetime.now(UTC) - moment).total_seconds()
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{max(0, seconds):.0f} s ago"


def _print_json(model: BaseModel) -> None:
    print(model.model_dump_json(by_alias=True, indent=2))
