"""Nobody but this machine's programs, and the pages that it served itself, gets an answer from the local stack."""

import http.client
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.exceptions import ClientError

from dilamme_local.aws import Aws
from dilamme_local.gateway import Gateway
from tests.local.puppet_service import PuppetService, puppet

INVOKE = "/2015-03-31/functions/worker/invocations"
SIGNED = {"Authorization": "AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/lambda/aws4_request"}
# What a browser sends for a page of another origin, as it can without asking first: no header of its own making.
PAGES = {
    "a form": {"Origin": "https://evil.example", "Content-Type": "application/x-www-form-urlencoded"},
    "a fetch without a content type": {"Origin": "https://evil.example"},
    "a sandboxed frame": {"Origin": "null"},
    "a page of the same name's": {"Origin": "http://localhost.evil.example"},
    "a browser that sends no origin": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
    "a name that was bound anew": {"Host": "evil.example:3000", "Origin": "http://evil.example:3000"},
    "a name that was bound anew, read": {"Host": "rebind.evil.example"},
    "the address that is every address": {"Host": "0.0.0.0:3000"},
}
FRIENDS = {
    "curl": {},
    "its own page": {"Origin": "http://127.0.0.1:{port}", "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"},
    "a development server on this machine": {"Origin": "http://localhost:5173", "Sec-Fetch-Site": "same-site"},
    "its name": {"Host": "localhost:{port}"},
    "a forwarded port": {"Host": "127.0.0.1:8080"},
    "IPv6": {"Host": "[::1]:{port}"},
    "a name below localhost": {"Host": "jobs.localhost:{port}"},
}


def _send(url: str, method: str, path: str, headers: dict[str, str], body: bytes = b"{}") -> tuple[int, bytes]:
    port = urlsplit(url).port
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    client.request(method, path, body, {name: value.format(port=port) for name, value in headers.items()})
    response = client.getresponse()
    content = response.read()
    client.close()
    return response.status, content


@pytest.fixture
def service(start: Callable[..., PuppetService]) -> PuppetService:
    return start(puppet("worker"), puppet("api"))


@pytest.fixture
def gateway(service: PuppetService) -> Iterator[Gateway]:
    gateway = Gateway(0)
    gateway.dispatcher = service.dispatcher
    gateway.start()
    yield gateway
    gateway.stop()


@pytest.mark.case("E7")
@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_another_origin_gets_no_function_to_run(service: PuppetService, gateway: Gateway, page: str) -> None:
    for method, path in (("POST", "/jobs"), ("POST", "/jobs/7/cancel"), ("GET", "/jobs"), ("OPTIONS", "/jobs")):
        status, body = _send(gateway.url, method, path, PAGES[page])
        assert status == 403
        assert "this machine" in json.loads(body)["message"]
    status, body = _send(service.service.url, "POST", INVOKE, {**SIGNED, **PAGES[page]})
    assert (status, "this machine" in json.loads(body)["Message"]) == (403, True)
    status, _ = _send(service.service.url, "POST", "/_local/faults", PAGES[page], b'{"name": "worker", "kind": "lose"}')
    assert (status, service.faults.armed()) == (403, [])
    assert service.journal("worker") == service.journal("api") == []


@pytest.mark.case("E7")
def test_a_refused_page_with_a_long_body_is_answered_and_the_next_one_too(gateway: Gateway) -> None:
    for _ in range(2):
        assert _send(gateway.url, "POST", "/jobs", PAGES["a form"], b"x" * 5_000_000)[0] == 403


@pytest.mark.parametrize("friend", FRIENDS)
def test_this_machine_is_answered(service: PuppetService, gateway: Gateway, friend: str) -> None:
    for method in ("GET", "POST"):
        assert _send(gateway.url, method, "/jobs", FRIENDS[friend])[0] == 200
    assert len(service.journal("api")) == 2


def test_a_link_from_another_page_may_be_followed(gateway: Gateway) -> None:
    """To /docs, from this project's page somewhere."""
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert _send(gateway.url, "GET", "/docs", headers, b"")[0] == 200
    assert _send(gateway.url, "POST", "/docs", headers)[0] == 403


@pytest.mark.case("E7")
def test_an_invocation_that_nobody_signed_is_refused_as_by_aws(service: PuppetService) -> None:
    """boto3 and the AWS CLI sign each; a page cannot give a signature without asking first."""
    status, body = _send(service.service.url, "POST", INVOKE, {})
    assert (status, json.loads(body)["Message"]) == (403, "Missing Authentication Token")
    assert service.journal("worker") == []
    assert _send(service.service.url, "POST", INVOKE, SIGNED)[0] == 200


@pytest.mark.case("E7")
def test_the_queue_answers_its_clients_and_no_page(tmp_path: Path) -> None:
    """moto by itself lets every page read it: Access-Control-Allow-Origin is *."""
    aws = Aws({}, tmp_path / "moto.log")
    try:
        aws.wait_until_ready()
        for headers in PAGES.values():
            status, body = _send(aws.url, "POST", "/?Action=ListQueues", {**SIGNED, **headers})
            assert (status, b"this machine" in body, b"QueueUrl" in body) == (403, True, False)
        sqs = boto3.Session("local", "local", None, "us-east-1").client("sqs", endpoint_url=aws.url)
        assert sqs.list_queues()["QueueUrls"] == [aws.queue_url]
        with pytest.raises(ClientError, match="NonExistent"):
            sqs.get_queue_url(QueueName="none")
    finally:
        aws.stop()
