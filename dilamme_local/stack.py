"""The whole of Dilamme on one machine, in one process beside those of PostgreSQL and of the functions.

with Stack(Options(port=0, data_dir=folder)) as stack:
    requests.post(f"{stack.url}/jobs", …)
    stack.faults.arm(Fault("worker", Kind.LOSE))
"""

import contextlib
import dataclasses
import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg

from dilamme.domain.worker_event import NO_SLOT, WorkerEvent
from dilamme_local.aws import CREDENTIALS, Aws
from dilamme_local.clock import Clock
from dilamme_local.dispatcher import Dispatcher
from dilamme_local.errors import StackError
from dilamme_local.events import Events
from dilamme_local.faults import Faults
from dilamme_local.functions import ROLES, Function, deployed
from dilamme_local.gateway import Gateway
from dilamme_local.inherited import for_functions
from dilamme_local.invocation import Invocation, Outcome, on_failure_record
from dilamme_local.lambda_service import LambdaService
from dilamme_local.options import Options, as_role, check_database
from dilamme_local.placing import place
from dilamme_local.ports import Ports
from dilamme_local.postgres import Postgres
from dilamme_local.private import close_file, make_folder

DATABASE = "dilamme"
LOG_BYTES_MAX = 10 * 1024 * 1024


class Stack:
    """Starts everything in order, and stops what it started, in the reverse order, however far it came.

    Attributes, from `start` on: ``url`` of the gateway, ``lambda_url``, ``queue_url``, ``database_url`` (of the superuser,
    or the user's own); ``faults``, ``dispatcher`` and ``clock`` for tests; ``postgres``, None with the user's database.

    Raises:
        StackError: from `start`; one line that says what to change. Nothing is left running then.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.faults = Faults()
        self.postgres: Postgres | None = None
        placed = options.application is not None
        self.functions_folder = options.data_dir.absolute() / "functions" if placed else options.functions_folder
        self.url = self.lambda_url = self.queue_url = self.database_url = ""
        self._stopping = contextlib.ExitStack()

    def start(self) -> Self:
        try:
            self._start()
        except BaseException as error:
            self.stop()
            if isinstance(error, OSError):
                raise StackError(f"cannot start: {error}") from error
            raise
        return self

    def stop(self) -> None:
        self._stopping.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self) -> None:
        settings = self.options.settings()
        gateway = Gateway(self.options.port)
        self._stopping.callback(gateway.stop)
        logs = self._logs_folder()
        if (application := self.options.application) is not None:
            self.functions_folder = place(application, self.functions_folder)
        ports = Ports(self.options.data_dir / "ports.json")
        service = LambdaService(self.faults, ports.free("lambda"))
        aws = Aws(os.environ, logs / "moto.log")
        self._stopping.callback(aws.stop)
        self._start_database(ports.free("postgres"))
        aws.wait_until_ready()
        self.aws_url, self.queue_url = aws.url, aws.queue_url
        self.url, self.lambda_url = gateway.url, service.url
        functions = [self._place(function) for function in deployed(self.functions_folder, settings)]
        self.dispatcher = Dispatcher(functions, logs)
        events = Events(self.dispatcher, self.faults)
        gateway.dispatcher = service.dispatcher = self.dispatcher
        service.events = events
        self._stopping.callback(service.stop)
        service.start()
        self._stopping.callback(events.stop)
        self.dispatcher.warm_up()
        self._migrate()
        self._try_worker()
        if self.postgres is not None:
            self._rescue_the_forgotten()
        self._stopping.callback(gateway.stop)  # once more: it must go before the functions do
        gateway.start()
        self._start_clock(events)
        self._leave_a_note()
        ports.keep(**{"lambda": service.server_address[1]}, postgres=self.postgres.port if self.postgres else None)

    def reload(self) -> Outcome | None:
        """Gives the next jobs to workers that import the handlers anew; what runs is let end.

        Returns the error if the handlers cannot be imported: then the jobs wait for the next call.
        """
        error = self.dispatcher.renew("worker")
        if error is None:
            self._try_again_what_was_unknown()
        return error

    def _try_again_what_was_unknown(self) -> None:
        """Whoever saves a handler and submits its first job at once would else wait until that job is looked at again."""
        with psycopg.connect(self.database_url) as connection:
            known = connection.execute(
                "UPDATE dilamme.jobs SET ready_at = dilamme.clock() WHERE status = 'pending' AND unknown_since IS NOT NULL"
                " AND ready_at > dilamme.clock()"
            ).rowcount
        if known:
            self.clock.trigger()

    def _start_database(self, port: int) -> None:
        if self.options.database_url is not None:
            check_database(self.options.database_url)
            self.database_url = self.options.database_url
            return
        self.postgres = Postgres(self.options.data_dir / "postgres", settings=self.options.postgres_settings, port=port)
        self._stopping.callback(self.postgres.stop)
        self.postgres.start()
        self.postgres.create_database(DATABASE)
        self.database_url = self.postgres.url(DATABASE)

    def _start_clock(self, events: Events) -> None:
        self.clock = Clock(events, self.faults, interval_seconds=self.options.clock_seconds or 60)
        if self.options.clock_seconds is not None:
            self._stopping.callback(self.clock.stop)
            self.clock.start()

    def _migrate(self) -> None:
        outcome = self.dispatcher.run(Invocation("migrate", b"{}"))
        if not outcome.succeeded:
            raise StackError(f"the database cannot be migrated: {outcome.error}")
        self.dispatcher.trim("migrate")
        if self.postgres is not None:
            self.postgres.admit(ROLES.values())

    def _try_worker(self) -> None:
        """Calls a worker for a slot that nobody gave it: it leaves at once, unless a module of handlers is wrong."""
        event = WorkerEvent(NO_SLOT, uuid.uuid4()).to_json()
        outcome = self.dispatcher.run(Invocation("worker", json.dumps(event).encode()))
        if not outcome.succeeded:
            raise StackError(f"no worker can start: {outcome.error}")

    def _rescue_the_forgotten(self) -> None:
        """Reports as lost what a run before this one left in the slots; the data folder is ours alone, so nobody works there."""
        with psycopg.connect(self.database_url) as connection:
            if connection.execute("SELECT to_regclass('dilamme.worker_slots')").fetchone() == (None,):
                return  # other functions than Dilamme's were put in the place of its own
            held = connection.execute("SELECT token FROM dilamme.worker_slots WHERE token IS NOT NULL").fetchall()
        for (token,) in held:
            lost = Invocation("worker", json.dumps({"token": str(token)}).encode())
            record = on_failure_record(lost, None, invoke_count=1, condition="RetriesExhausted")
            self.dispatcher.run(Invocation("rescue", record))

    # ----- the functions' surroundings

    def _place(self, function: Function) -> Function:
        timeout = self.options.timeouts_seconds.get(function.name, function.timeout_seconds)
        return dataclasses.replace(function, timeout_seconds=timeout, environment=self._variables(function.name))

    def _variables(self, name: str) -> Mapping[str, str]:
        return {
            **for_functions(self.options.function_variables(), own_database=self.postgres is not None),
            **CREDENTIALS,
            "AWS_ENDPOINT_URL": self.aws_url,
            "AWS_ENDPOINT_URL_SQS": self.aws_url,
            "AWS_ENDPOINT_URL_LAMBDA": self.lambda_url,
            "DATABASE_URL": self._database_url_of(name),
            "DILAMME_WORKER_FUNCTION": "worker",
            "DILAMME_SCHEDULER_FUNCTION": "scheduler",
            "DILAMME_DEAD_LETTER_QUEUE_URL": self.queue_url,
        }

    def _database_url_of(self, name: str) -> str:
        if self.postgres is not None and name in ROLES:
            return self.postgres.url(DATABASE, ROLES[name])
        roles = self.options.database_roles and name in ROLES
        return as_role(self.database_url, ROLES[name]) if roles else self.database_url

    def _logs_folder(self) -> Path:
        folder = self.options.data_dir / "logs"
        make_folder(self.options.data_dir, ours=False)
        make_folder(folder)
        for log in folder.glob("*.log"):
            close_file(log)
            if log.stat().st_size > LOG_BYTES_MAX:
                log.replace(log.with_suffix(".log.old"))
        return folder

    def _leave_a_note(self) -> None:
        """Tells other programs on this machine (a psql, a notebook) where everything is; the superuser's password too."""
        note = self.options.data_dir / "stack.json"
        note.unlink(missing_ok=True)
        note.touch(mode=0o600)
        urls = {
            "url": self.url,
            "lambdaUrl": self.lambda_url,
            "queueUrl": self.queue_url,
            "databaseUrl": self.database_url,
        }
        note.write_text(json.dumps({"pid": os.getpid(), **urls}, indent=2) + "\n")
        self._stopping.callback(note.unlink, missing_ok=True)
