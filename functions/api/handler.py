"""The HTTP API: parse a request, call one use case, shape its answer. `dilamme.wire.requests` describes the requests."""

from typing import Annotated, Any
from uuid import UUID

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError
from aws_lambda_powertools.event_handler.openapi.params import Query

from dilamme import session, settings
from dilamme.aws.http import JSON, Door, MethodNotAllowed, admit, answers, as_answer, problem
from dilamme.aws.invoke import prepare
from dilamme.aws.parameters import (
    BODY_BYTES_MAX,
    LIST_PARAMETERS,
    TYPES_PARAMETERS,
    Id,
    Key,
    refuse_unknown,
    uuid_of,
)
from dilamme.aws.telemetry import set_up
from dilamme.domain.errors import DatabaseReadOnly, NotFound
from dilamme.domain.job import Status
from dilamme.domain.patterns import TYPE_PATTERN
from dilamme.store.connection import Connection
from dilamme.store.faults import meaning
from dilamme.store.reads import Filter
from dilamme.usecases import cancel, migrate, read, replay, wake
from dilamme.usecases.submit import Receipt, submit
from dilamme.wire.answers import (
    BatchView,
    CancelledSeries,
    Health,
    JobPage,
    JobView,
    ReplayedDead,
    ReplayedJob,
    Stats,
    TypePage,
)
from dilamme.wire.requests import (
    Batch,
    DeadLetters,
    Submission,
)
from dilamme.wire.why import Why

logger, _ = set_up("api")
configuration = settings.load()
if configuration.worker_function:
    prepare()
app = Door()


@app.post(
    "/jobs",
    summary="Store a job",
    operation_id="submitJob",
    tags=["jobs"],
    responses=answers({201: "Stored.", 200: "Stored before, under the same key."}, 400, 409, 413, 415, 422),
)
def submit_job(job: Submission, idempotency_key: Key = None) -> Response[JobView]:
    connection = session.connection()
    receipt = submit(connection, [job], idempotency_key, single=True, is_checked=_checks_payloads)
    status = _stored(connection, receipt)
    view = read.describe_one(connection, configuration, receipt, idempotency_key)
    location = {"Location": f"{app.current_event.raw_path}/{view.id}"} if receipt.created else {}
    return Response(status, JSON, view, headers=location)


@app.post(
    "/jobs/batch",
    summary="Store many jobs, all or none",
    operation_id="submitBatch",
    tags=["jobs"],
    responses=answers({201: "All stored.", 200: "Stored before, under the same key."}, 400, 409, 413, 415, 422),
)
def submit_batch(batch: Batch, idempotency_key: Key = None) -> Response[BatchView]:
    connection = session.connection()
    receipt = submit(connection, batch.jobs, idempotency_key, is_checked=_checks_payloads)
    return Response(_stored(connection, receipt), JSON, read.describe_batch(connection, receipt))


def _checks_payloads() -> bool:
    return configuration.check_payloads


def _stored(connection: Connection, receipt: Receipt) -> int:
    """Wakes a worker or a scheduler for the jobs, before the answer is put together; the answer's status."""
    _wake(connection, due=receipt.due, later=receipt.later)
    return 201 if receipt.created else 200


@app.get(
    "/jobs",
    summary="List jobs, newest first",
    operation_id="listJobs",
    tags=["jobs"],
    description=(
        "A call looks at a bounded number of jobs: with a filter that only few of very many jobs pass, a page "
        "may be short or empty and still have a nextCursor. The list ends where nextCursor is null."
    ),
    responses=answers({200: "A page."}, 422),
)
def list_jobs(
    status: Annotated[Status | None, Query()] = None,
    job_type: Annotated[str | None, Query(alias="type", pattern=TYPE_PATTERN)] = None,
    priority: Annotated[int | None, Query(ge=1, le=3)] = None,
    series_id: Annotated[UUID | None, Query(alias="seriesId")] = None,
    limit: Annotated[int, Query(ge=1, le=read.PAGE_JOBS_MAX)] = 50,
    cursor: Annotated[str | None, Query(description="The nextCursor of the page before.")] = None,
) -> JobPage:
    refuse_unknown(app.current_event.query_string_parameters, LIST_PARAMETERS)
    wanted = Filter(status, job_type, priority, series_id)
    return read.list_jobs(session.connection(), configuration, wanted, limit, cursor)


@app.get(
    "/jobs/<job_id>",
    summary="Show a job",
    operation_id="getJob",
    tags=["jobs"],
    responses=answers({200: "The job."}, 404),
)
def find_job(job_id: Id) -> JobView:
    return read.find_job(session.connection(), configuration, uuid_of(job_id, "job"))


@app.get(
    "/jobs/<job_id>/why",
    summary="Say why a job is not running",
    operation_id="explainJob",
    tags=["jobs"],
    responses=answers({200: "The reasons."}, 404),
)
def explain_job(job_id: Id) -> Why:
    return read.explain_job(session.connection(), configuration, uuid_of(job_id, "job"))


@app.post(
    "/jobs/<job_id>/cancel",
    summary="Cancel a job that has not started",
    operation_id="cancelJob",
    tags=["jobs"],
    responses=answers({200: "Cancelled, now or before."}, 404, 409, 415),
)
def cancel_job(job_id: Id) -> JobView:
    connection, known = session.connection(), uuid_of(job_id, "job")
    cancel.cancel_job(connection, known)
    _wake(connection, due=False, later=True)  # for the next occurrence, and for dependents that are left to cancel
    return read.find_job(connection, configuration, known)


@app.post(
    "/series/<series_id>/cancel",
    summary="End a series of recurring jobs",
    operation_id="cancelSeries",
    tags=["series"],
    responses=answers({200: "Ended, now or before."}, 404, 415),
)
def cancel_series(series_id: Id) -> CancelledSeries:
    known = uuid_of(series_id, "series")
    connection = session.connection()
    ended = cancel.cancel_series(connection, known)
    _wake(connection, due=False, later=True)
    detail = "ended: an occurrence that runs finishes and has no successor" if ended else "had ended before"
    return CancelledSeries(id=known, cancelled=ended, detail=detail)


@app.post(
    "/jobs/<job_id>/replay",
    summary="Bring a dead job back",
    operation_id="replayJob",
    tags=["dead letters"],
    responses=answers({200: "Pending again, now or before."}, 404, 409, 415),
)
def replay_job(job_id: Id) -> ReplayedJob:
    connection, known = session.connection(), uuid_of(job_id, "job")
    replayed = replay.replay_job(connection, known)
    view = read.find_job(connection, configuration, known)
    if replayed:
        _wake(connection, due=True)
    detail = (
        "replayed: pending again, with fresh attempts" if replayed else "had been replayed before: nothing was changed"
    )
    return ReplayedJob(**dict(view), replayed=replayed, detail=detail)


@app.post(
    "/dead-letters/replay",
    summary="Bring the oldest dead jobs back",
    operation_id="replayDeadLetters",
    tags=["dead letters"],
    responses=answers({200: "Pending again."}, 400, 413, 415, 422),
)
def replay_dead_letters(wanted: DeadLetters) -> ReplayedDead:
    connection = session.connection()
    ids = replay.replay_dead(connection, wanted.type, wanted.limit)
    if ids:
        _wake(connection, due=True)
    return ReplayedDead(replayed=len(ids), ids=ids, more=read.any_dead(connection, wanted.type))


@app.get(
    "/types",
    summary="List the types that workers have published",
    operation_id="listTypes",
    tags=["system"],
    responses=answers({200: "A page."}, 422),
)
def list_types(
    limit: Annotated[int, Query(ge=1, le=read.PAGE_TYPES_MAX)] = read.PAGE_TYPES_MAX,
    cursor: Annotated[str | None, Query(pattern=TYPE_PATTERN, description="The nextCursor of the page before.")] = None,
) -> TypePage:
    refuse_unknown(app.current_event.query_string_parameters, TYPES_PARAMETERS)
    return read.list_types(session.connection(), configuration, limit, cursor)


@app.get(
    "/stats",
    summary="Show the system at a glance",
    operation_id="getStats",
    tags=["system"],
    responses=answers({200: "Counts, ages, workers, the scheduler's pulse."}),
)
def read_stats() -> Stats:
    return read.read_stats(session.connection(), configuration)


@app.get(
    "/health",
    summary="Say whether the database answers, takes writes and is migrated",
    operation_id="getHealth",
    tags=["system"],
    responses=answers({200: "Well."}),
)
def check_health() -> Health:
    migrate.check_health(session.connection())
    return Health()


def refuse(error: Exception) -> Response[str]:
    """Answers every error: ours, Powertools' and PostgreSQL's. Powertools finds it by class, so Exception's is enough."""
    known = meaning(error)
    if isinstance(known, DatabaseReadOnly):
        session.disconnect()
    if isinstance(error, NotFound | NotFoundError):
        method, allowed = app.current_event.http_method, app.methods_of(app.current_event.path)
        if allowed and method not in allowed:
            error = known = MethodNotAllowed(method, allowed)
    return problem(error, known, logger)


app.exception_handler(Exception)(refuse)


def _wake(connection: Connection, *, due: bool, later: bool = False) -> None:
    """Wakes a worker or a scheduler. The jobs are stored: if that fails, the next tick finds them."""
    try:
        wake.wake(connection, configuration, due=due, later=later)
    except Exception:
        logger.warning("not woken", exc_info=True)


@logger.inject_lambda_context(clear_state=True, correlation_id_path="requestContext.requestId")
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answers an event of API Gateway's HTTP API, payload 2.0."""
    try:
        return app.resolve(admit(event, BODY_BYTES_MAX), context)
    except Exception as error:
        return as_answer(problem(error, meaning(error), logger))
