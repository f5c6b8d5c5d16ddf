"""moto, for the services that Dilamme only calls: SQS holds the dead letters, CloudWatch the dashboard."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from dilamme_local.errors import StackError
from dilamme_local.inherited import for_functions
from dilamme_local.invocation import REGION
from dilamme_local.private import append_to
from dilamme_local.product import PACKAGES

# Whatever the user is logged in to, nothing here may reach it.
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "local",
    "AWS_SECRET_ACCESS_KEY": "local",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_EC2_METADATA_DISABLED": "true",
}


class Aws:
    """moto in a process of its own, with one queue.

    It comes up in its own time, beside whatever else is starting; ``url`` and ``queue_url`` are known once it is ready.
    """

    def __init__(self, environment: Mapping[str, str], log: Path) -> None:
        clean = for_functions(environment, own_database=True)
        self._log = log
        self.url = ""
        self.queue_url = ""
        with append_to(log) as output:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "dilamme_local.moto_process"],
                env={**clean, **CREDENTIALS, "PYTHONPATH": os.pathsep.join(PACKAGES)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                start_new_session=True,
            )

    def wait_until_ready(self) -> None:
        """Raises: StackError: it ended instead."""
        self.url = self._process.stdout.readline().strip() if self._process.stdout else ""
        if not self.url:
            raise StackError(f"moto does not start: see {self._log}")
        self.queue_url = self._create_queue("dilamme-dead-letters")

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _create_queue(self, name: str) -> str:
        """Asks without boto3, whose import and client take longer than all the rest of this file."""
        headers = {
            "Content-Type": "application/x-amz-json-1.0",
            "X-Amz-Target": "AmazonSQS.CreateQueue",
            "Authorization": f"AWS4-HMAC-SHA256 Credential=local/20260101/{REGION}/sqs/aws4_request",  # moto's signpost
        }
        body = json.dumps({"QueueName": name}).encode()
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(urllib.request.Request(self.url, body, headers)) as answer:  # noqa: S310 (our server)
            url: str = json.load(answer)["QueueUrl"]
        return url
