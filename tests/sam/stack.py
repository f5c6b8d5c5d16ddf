"""The deployed template on one machine: `sam local` runs its functions in containers, on a PostgreSQL outside of them.

`python -m tests.sam.stack` is `make sam-local`. Nothing here is a copy of the template: what differs from AWS is in the
file of `--env-vars`, as in events/env.json.
"""

import contextlib
import json
import logging
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from ipaddress import ip_network
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import boto3
import psycopg
import requests
from moto.server import ThreadedMotoServer

from dilamme_local.aws import CREDENTIALS
from dilamme_local.options import as_role
from dilamme_local.ports import free_port
from dilamme_local.postgres import NOT_DURABLE, Postgres
from tests.support.checkout import CHECKOUT

SAM = CHECKOUT / ".venv-sam" / "bin" / "sam"
REGION = "us-east-1"
ARCHITECTURE = "arm64" if platform.machine() in ("arm64", "aarch64") else "x86_64"
FUNCTIONS = {
    "api": "ApiFunction",
    "scheduler": "SchedulerFunction",
    "worker": "WorkerFunction",
    "rescue": "RescueFunction",
}
MIGRATE = "MigrateFunction"
READY_SECONDS_MAX = 180


class NotPossible(Exception):
    """This machine cannot run containers; the message says why."""


def ask(script: str, *arguments: str) -> str:
    """The last line that a script of this folder prints.

    Raises:
        NotPossible: it gave up with its reason, status 3.
    """
    done = subprocess.run(
        [Path(__file__).with_name(script), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHON": sys.executable},
    )
    if done.returncode == 3:
        raise NotPossible(done.stderr.strip())
    done.check_returncode()
    return done.stdout.strip().splitlines()[-1]


def bridge() -> str:
    """The address of this machine that containers see."""
    inspect = ["docker", "network", "inspect", "bridge", "-f", "{{range .IPAM.Config}}{{.Gateway}}|{{.Subnet}}{{end}}"]
    said = subprocess.run(inspect, capture_output=True, text=True, check=True).stdout.strip()
    gateway, _, subnet = said.partition("|")
    return gateway or str(next(ip_network(subnet).hosts()))  # its first address, if Docker does not say


class SamStack:
    """``folder`` takes the build, the database and the logs. `start` begins with the database; the rest is asked for.

    Raises:
        NotPossible: from `start`; there is no container engine, or no Python 3.13 to build with.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.migrated: tuple[Any, str] = (None, "")
        self.build_folder = folder / "build"
        self._stopping = contextlib.ExitStack()

    def start(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def _start(self) -> None:
        if not SAM.exists():
            raise NotPossible(".venv-sam is missing: run `make .venv-sam`")
        _say(ask("base-image"))
        self.python_folder = ask("python-3.13", str(self.folder / "python"))
        self.host = bridge()
        self._stopping.callback(self._remove_containers)
        self._start_database()
        self._start_queue()
        self.lambda_port, self.api_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.api_port}"
        self.env_file = self.folder / "env.json"
        self.env_file.write_text(json.dumps(self._env(), indent=2))

    def stop(self) -> None:
        self._stopping.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # ----- what the functions need

    def _start_database(self) -> None:
        settings = {**NOT_DURABLE, "listen_addresses": f"127.0.0.1,{self.host}"}
        self.postgres = Postgres(self.folder / "postgres", settings=settings)
        self._stopping.callback(self.postgres.stop)
        self.postgres.start()
        network = self.host.rpartition(".")[0].rpartition(".")[0] + ".0.0/16"
        with (self.postgres.cluster / "pg_hba.conf").open("a") as rules:
            rules.write(f"host all /^dilamme_ {network} trust\nhost all all {network} scram-sha-256\n")
        self.postgres.create_database("dilamme")
        with psycopg.connect(self.postgres.url(), autocommit=True) as connection:
            connection.execute("SELECT pg_reload_conf()")

    def _start_queue(self) -> None:
        logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line per request otherwise
        server = ThreadedMotoServer(ip_address=self.host, port=0, verbose=False)
        server.start()
        self._stopping.callback(server.stop)
        host, port = server.get_host_and_port()
        self.sqs = _session().client("sqs", endpoint_url=f"http://{host}:{port}")
        self.queue_url = self.sqs.create_queue(QueueName="dead-letters")["QueueUrl"]
        self.aws_url = f"http://{host}:{port}"

    def _env(self) -> Mapping[str, Any]:
        url = self.postgres.url("dilamme").replace("127.0.0.1", self.host)
        ours = {
            "AWS_ENDPOINT_URL_LAMBDA": f"http://{self.host}:{self.lambda_port}",
            "AWS_ENDPOINT_URL_SQS": self.aws_url,
            "DILAMME_DEAD_LETTER_QUEUE_URL": self.queue_url,
            "DILAMME_DEMO_JOBS": "true",
            "DILAMME_WORKER_SLOTS": "2",
        }
        roles = {
            logical: {**ours, "DATABASE_URL": as_role(url, f"dilamme_{name}")} for name, logical in FUNCTIONS.items()
        }
        return {**roles, MIGRATE: {**ours, "DATABASE_URL": url}}

    def connect(self) -> "psycopg.Connection[Any]":
        """The database, as the superuser."""
        return psycopg.connect(self.postgres.url("dilamme"), autocommit=True)

    # ----- SAM

    def build(self, architecture: str = ARCHITECTURE, folder: Path | None = None, checkout: Path = CHECKOUT) -> Path:
        """`sam build`, in another checkout if one is given; the folder with the built template."""
        folder = folder or self.build_folder
        overrides = ("--parameter-overrides", f"Architecture={architecture}")
        self._sam("build", "--build-dir", str(folder), *overrides, "--no-cached", checkout=checkout)
        return folder

    def invoke(self, function: str, event: Path | Mapping[str, Any]) -> tuple[Any, str]:
        """`sam local invoke` of a logical id with an event; what it returned, and its log."""
        path = event if isinstance(event, Path) else self.folder / "event.json"
        if not isinstance(event, Path):
            path.write_text(json.dumps(event))
        done = self._sam("local", "invoke", function, "--event", str(path), *self._local())
        return json.loads(done.stdout.strip().splitlines()[-1]), done.stderr

    def run_in_container(self, code: str) -> str:
        """Runs Python on the image of the last `invoke`, layers and all; what it prints."""
        listing = [
            "docker",
            "images",
            "--format",
            "{{.Repository}}:{{.Tag}}",
            "--filter",
            "reference=samcli/lambda-python",
        ]
        image = subprocess.run(listing, capture_output=True, text=True, check=True).stdout.splitlines()[0]
        run = [
            "docker",
            "run",
            "--rm",
            "--entrypoint",
            "python3.13",
            "-e",
            "PYTHONPATH=/opt/python:/var/runtime",
            image,
            "-c",
            code,
        ]
        return subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip()

    def serve_lambda(self) -> None:
        """`sam local start-lambda`: the functions invoke each other here."""
        self._serve("start-lambda", self.host, self.lambda_port)

    def serve_api(self) -> None:
        """`sam local start-api` at ``url``."""
        self._serve("start-api", "127.0.0.1", self.api_port, "--warm-containers", "EAGER")

    def client(self) -> Any:
        """boto3's client of `serve_lambda`."""
        address = f"http://{self.host}:{self.lambda_port}"
        return _session().client("lambda", endpoint_url=address)

    def _local(self) -> list[str]:
        return [
            *("--template", str(self.build_folder / "template.yaml"), "--env-vars", str(self.env_file)),
            *("--parameter-overrides", f"Architecture={ARCHITECTURE}", "--skip-pull-image", "--region", REGION),
        ]

    def _environment(self) -> dict[str, str]:
        path = f"{self.python_folder}{os.pathsep}{os.environ['PATH']}"
        return {**os.environ, **CREDENTIALS, "PATH": path, "AWS_DEFAULT_REGION": REGION, "SAM_CLI_TELEMETRY": "0"}

    def _sam(self, *arguments: str, checkout: Path = CHECKOUT) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            [SAM, *arguments], cwd=checkout, env=self._environment(), capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"sam {' '.join(arguments[:3])} failed:\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}")
        return done

    def _remove_containers(self) -> None:
        """Those of our build that SAM left running, such as one that was starting when it was told to end."""
        folders = [f"--filter=volume={self.build_folder / logical}" for logical in (*FUNCTIONS.values(), MIGRATE)]
        left = subprocess.run(
            ["docker", "ps", "-aq", *folders], capture_output=True, text=True, check=True
        ).stdout.split()
        if left:
            subprocess.run(["docker", "rm", "-f", *left], capture_output=True, check=False)

    def _serve(self, command: str, host: str, port: int, *options: str) -> None:
        log = (self.folder / f"{command}.log").open("wb")
        arguments = [str(SAM), "local", command, *self._local(), "--host", host, "--port", str(port), *options]
        process = subprocess.Popen(arguments, cwd=CHECKOUT, env=self._environment(), stdout=log, stderr=log)
        self._stopping.callback(log.close)
        self._stopping.callback(_end, process)
        self._await(host, port, process, self.folder / f"{command}.log")

    def _await(self, host: str, port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
        deadline = time.monotonic() + READY_SECONDS_MAX
        while time.monotonic() < deadline and process.poll() is None:
            with contextlib.suppress(requests.ConnectionError):
                requests.get(f"http://{host}:{port}/health", timeout=READY_SECONDS_MAX)
                return
            time.sleep(0.3)
        raise RuntimeError(f"sam local does not start:\n{log.read_text(errors='replace')[-4000:]}")


def _session() -> boto3.Session:
    return boto3.Session(CREDENTIALS["AWS_ACCESS_KEY_ID"], CREDENTIALS["AWS_SECRET_ACCESS_KEY"], None, REGION)


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201  for a terminal, or pytest's -s


def _end(process: "subprocess.Popen[bytes]") -> None:
    """As Ctrl-C does, so that SAM removes its containers."""
    process.terminate()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _work_folder() -> Iterator[Path]:
    # PostgreSQL as root runs as another user, who has to get in here.
    with tempfile.TemporaryDirectory(prefix="dilamme-sam-") as name:
        yield Path(name)


def main() -> int:
    """`make sam-local`."""
    with _work_folder() as folder, contextlib.suppress(KeyboardInterrupt):
        try:
            with SamStack(folder) as stack:
                _show(stack)
        except NotPossible as reason:
            _say(f"dilamme: {reason}")
            return 1
    return 0


def _show(stack: SamStack) -> None:
    _say("building …")
    stack.build()
    _say(f"migrated: {stack.invoke(MIGRATE, {})[0]}")
    stack.serve_lambda()
    stack.serve_api()
    _say(f"Dilamme is ready at {stack.url}, in containers. A job:")
    job = requests.post(
        f"{stack.url}/jobs", json={"type": "demo.echo", "payload": {"hello": "containers"}}, timeout=60
    ).json()
    while job["status"] not in ("completed", "dead"):
        _say(f"  {job['id']} {job['status']}")
        time.sleep(2)
        job = requests.get(f"{stack.url}/jobs/{job['id']}", timeout=60).json()
    _say(f"  {job['id']} {job['status']}: {job['result']}\nCtrl-C ends it.")
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    sys.exit(main())
