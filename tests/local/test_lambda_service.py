"""boto3's synchronous `Invoke` is answered as Lambda answers it, from processes that behave like Lambda's."""

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from dilamme_local.functions import Function
from tests.local.puppet_service import PuppetService, puppet
from tests.support.processes import alive
from tests.support.waiting import wait_until


def test_a_result_comes_back_as_json(service: PuppetService) -> None:
    assert service.invoke("worker", do="return", value={"grüße": [1, None, "\n"]}) == {"grüße": [1, None, "\n"]}


def test_an_invocation_without_a_payload_has_an_empty_event(service: PuppetService) -> None:
    service.client.invoke(FunctionName="worker")
    assert service.journal("worker")[0]["event"] == {}


def test_a_success_names_the_version_and_the_request_that_the_handler_saw(service: PuppetService) -> None:
    answer = service.client.invoke(FunctionName="worker", Payload=b"{}")
    assert answer["StatusCode"] == 200
    assert answer["ExecutedVersion"] == "$LATEST"
    assert "FunctionError" not in answer
    assert service.journal("worker")[0]["requestId"] == answer["ResponseMetadata"]["RequestId"]


@pytest.mark.parametrize(
    "identifier",
    [
        "worker",
        "worker:$LATEST",
        "123456789012:function:worker",
        "arn:aws:lambda:us-east-1:123456789012:function:worker",
    ],
)
def test_a_function_is_found_by_its_name_or_its_arn(service: PuppetService, identifier: str) -> None:
    assert service.client.invoke(FunctionName=identifier)["StatusCode"] == 200


def test_the_context_is_lambdas(service: PuppetService) -> None:
    seen = service.invoke("worker", do="describe")
    assert (seen["name"], seen["version"]) == ("worker", "$LATEST")
    assert seen["arn"] == "arn:aws:lambda:us-east-1:123456789012:function:worker"
    assert seen["requestId"] == service.journal("worker")[0]["requestId"]
    assert (seen["logGroup"], seen["memory"]) == ("/aws/lambda/worker", "512")
    assert "[$LATEST]" in seen["logStream"]


def test_the_remaining_time_counts_down_from_the_timeout(service: PuppetService) -> None:
    before, after = service.invoke("worker", do="describe")["remaining"]
    assert 0 < after <= before - 50
    assert before <= 20_000


def test_a_handler_finds_its_folder_and_the_shared_package_and_nothing_of_the_checkout(service: PuppetService) -> None:
    seen = service.invoke("worker", do="describe")
    checkout = Path(__file__).parents[2]
    assert seen["folder"] == seen["path"][0] == str(checkout / "tests" / "local" / "puppet")
    assert seen["path"][1] == str(checkout / "shared")
    assert str(checkout) not in seen["path"]
    assert seen["variables"]["AWS_LAMBDA_FUNCTION_NAME"] == "worker"


def test_an_exception_is_a_function_error(service: PuppetService) -> None:
    answer = service.client.invoke(FunctionName="worker", Payload=b'{"do": "raise", "message": "no \\u2603"}')
    assert (answer["StatusCode"], answer["FunctionError"]) == (200, "Unhandled")
    error = service.invoke("worker", do="raise", message="no ☃")
    assert (error["errorType"], error["errorMessage"]) == ("RuntimeError", "no ☃")
    assert "puppet/handler.py" in error["stackTrace"][-1]


def test_an_environment_survives_its_handlers_exception(service: PuppetService) -> None:
    first = service.invoke("worker")["pid"]
    service.invoke("worker", do="raise", message="")
    assert service.invoke("worker")["pid"] == first


def test_what_exceeds_the_timeout_is_killed(start: Callable[..., PuppetService]) -> None:
    service = start(puppet("worker", timeout_seconds=0.3))
    error = service.invoke("worker", do="sleep", seconds=60)
    assert error["errorType"] == "Sandbox.Timedout"
    assert "Task timed out after 0.30 seconds" in error["errorMessage"]
    assert not alive(service.journal("worker")[0]["pid"])
    assert "pid" in service.invoke("worker")


@pytest.mark.parametrize(
    ("event", "how"),
    [
        ({"do": "exit", "status": 137}, "Runtime exited with error: exit status 137"),
        ({"do": "exit", "status": 0}, "Runtime exited without providing a reason"),
        ({"do": "die"}, "Runtime exited with error: signal: killed"),
    ],
)
def test_a_process_that_ends_is_reported(service: PuppetService, event: dict[str, object], how: str) -> None:
    error = service.invoke("worker", **event)
    assert error["errorType"] == "Runtime.ExitError"
    assert how in error["errorMessage"]


def test_an_environment_that_died_idle_is_replaced_unseen(service: PuppetService) -> None:
    first = service.invoke("worker")["pid"]
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not alive(first))
    assert service.invoke("worker")["pid"] != first


@pytest.mark.parametrize(
    ("event", "error_type"),
    [
        ({"do": "return an object"}, "Runtime.MarshalError"),
        ({"do": "return megabytes", "megabytes": 7}, "Function.ResponseSizeTooLarge"),
    ],
)
def test_a_result_that_lambda_cannot_carry_is_an_error(
    service: PuppetService, event: dict[str, object], error_type: str
) -> None:
    assert service.invoke("worker", **event)["errorType"] == error_type


@pytest.mark.parametrize(
    ("source", "error_type", "message"),
    [
        ("import no_such_module", "Runtime.ImportModuleError", "Unable to import module 'handler': No module named"),
        ("raise ValueError('a setting')", "ValueError", "a setting"),
        ("import os; os._exit(3)", "Runtime.ExitError", "exit status 3"),
        ("", "AttributeError", "has no attribute 'handler'"),
    ],
)
def test_a_handler_that_cannot_be_imported_fails_every_invocation(
    start: Callable[..., PuppetService], tmp_path: Path, source: str, error_type: str, message: str
) -> None:
    (tmp_path / "handler.py").write_text(source)
    service = start(Function("worker", tmp_path, timeout_seconds=5))
    for _ in range(2):
        error = service.invoke("worker")
        assert error["errorType"] == error_type
        assert message in error["errorMessage"]


def test_a_warm_environment_is_used_again(service: PuppetService) -> None:
    assert len({service.invoke("worker")["pid"] for _ in range(5)}) == 1


def test_parallel_invocations_have_environments_of_their_own(service: PuppetService) -> None:
    with ThreadPoolExecutor(3) as callers:
        pids = list(callers.map(lambda _: service.invoke("worker", do="sleep", seconds=0.5)["pid"], range(3)))
    assert len(set(pids)) == 3


def test_a_spare_is_kept_beside_a_busy_environment(start: Callable[..., PuppetService]) -> None:
    service = start(puppet("worker", spares=1))
    service.send("worker", do="sleep", seconds=60)
    busy = service.wait_for_calls("worker", 1)[0]["pid"]
    assert service.invoke("worker")["pid"] != busy


def test_beyond_the_reserved_concurrency_a_synchronous_call_is_throttled(start: Callable[..., PuppetService]) -> None:
    service = start(puppet("worker", reserved_concurrency=1))
    service.send("worker", do="sleep", seconds=60)
    service.wait_for_calls("worker", 1)
    with pytest.raises(service.client.exceptions.TooManyRequestsException) as throttled:
        service.invoke("worker")
    assert throttled.value.response["ResponseMetadata"]["HTTPStatusCode"] == 429
    assert throttled.value.response["Reason"] == "ReservedFunctionConcurrentInvocationLimitExceeded"


def test_without_a_reservation_callers_wait_for_a_free_environment(start: Callable[..., PuppetService]) -> None:
    service = start(puppet("worker"))
    with ThreadPoolExecutor(30) as callers:
        pids = list(callers.map(lambda _: service.invoke("worker")["pid"], range(60)))
    assert len(pids) == 60
    assert len(set(pids)) <= 8


@pytest.mark.parametrize(
    ("arguments", "code", "status"),
    [
        ({"FunctionName": "nobody"}, "ResourceNotFoundException", 404),
        ({"FunctionName": "nobody", "InvocationType": "Event"}, "ResourceNotFoundException", 404),
        ({"FunctionName": "worker", "Payload": b"{not json"}, "InvalidRequestContentException", 400),
        ({"FunctionName": "worker", "InvocationType": "Whenever"}, "InvalidParameterValueException", 400),
        ({"FunctionName": "worker", "Payload": b'"' + b"x" * 6_300_000 + b'"'}, "RequestTooLargeException", 413),
        (
            {"FunctionName": "worker", "InvocationType": "Event", "Payload": b'"' + b"x" * 1_100_000 + b'"'},
            "RequestTooLargeException",
            413,
        ),
    ],
)
def test_what_cannot_be_invoked_is_refused_in_awss_shape(
    service: PuppetService, arguments: dict[str, object], code: str, status: int
) -> None:
    with pytest.raises(ClientError) as refused:
        service.client.invoke(**arguments)
    assert refused.value.response["Error"]["Code"] == code
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == status
    assert service.journal("worker") == []


def test_a_stop_kills_what_runs_and_leaves_no_process(start: Callable[..., PuppetService]) -> None:
    service = start(puppet("worker", spares=2))
    service.send("worker", do="sleep", seconds=60)
    service.invoke("worker")
    pids = {call["pid"] for call in service.wait_for_calls("worker", 2)}
    service.stop()
    wait_until(lambda: not any(map(alive, pids)))
