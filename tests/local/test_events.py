"""Events are accepted at once and run, retried, throttled, lost, doubled and reported as on AWS."""

import json
import os
import signal
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError

from dilamme_local import events
from dilamme_local.faults import Kind
from tests.local.puppet_service import PuppetService, puppet
from tests.support.processes import alive
from tests.support.waiting import wait_until


def test_an_event_is_accepted_before_it_has_run(service: PuppetService) -> None:
    request_id = service.send("worker", do="sleep", seconds=60)
    assert service.wait_for_calls("worker", 1)[0]["requestId"] == request_id


def test_a_success_is_not_reported(service: PuppetService) -> None:
    service.send("worker")
    wait_until(lambda: service.dispatcher.counts()["worker"]["succeeded"] == 1)
    assert service.dispatcher.counts()["rescue"]["accepted"] == 0


def test_a_failed_event_is_reported_with_lambdas_record(service: PuppetService) -> None:
    request_id = service.send("worker", do="raise", message="boom", slot=3)
    record = service.wait_for_calls("rescue", 1)[0]["event"]
    assert record.keys() == {
        "version",
        "timestamp",
        "requestContext",
        "requestPayload",
        "responseContext",
        "responsePayload",
    }
    assert record["version"] == "1.0"
    assert record["timestamp"].endswith("Z")
    assert record["requestContext"] == {
        "requestId": request_id,
        "functionArn": "arn:aws:lambda:us-east-1:123456789012:function:worker:$LATEST",
        "condition": "RetriesExhausted",
        "approximateInvokeCount": 1,
    }
    assert record["requestPayload"] == {"do": "raise", "message": "boom", "slot": 3}
    assert record["responseContext"] == {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"}
    assert record["responsePayload"]["errorType"] == "RuntimeError"


@pytest.mark.parametrize("event", [{"do": "exit", "status": 1}, {"do": "die"}])
def test_a_lost_process_is_reported(service: PuppetService, event: dict[str, Any]) -> None:
    service.send("worker", **event)
    record = service.wait_for_calls("rescue", 1)[0]["event"]
    assert record["responsePayload"]["errorType"] == "Runtime.ExitError"
    assert record["requestPayload"] == event


def test_a_timeout_is_reported(start: Callable[..., PuppetService]) -> None:
    service = start(puppet("worker", timeout_seconds=0.3, on_failure="rescue"), puppet("rescue"))
    service.send("worker", do="sleep", seconds=60)
    assert service.wait_for_calls("rescue", 1)[0]["event"]["responsePayload"]["errorType"] == "Sandbox.Timedout"


def test_a_test_can_kill_exactly_the_process_that_runs_an_event(service: PuppetService) -> None:
    service.send("worker", do="sleep", seconds=60, slot=1)
    service.send("worker", do="sleep", seconds=60, slot=2)
    service.wait_for_calls("worker", 2)
    running = _get(service, "/_local/invocations")["running"]
    victim = next(r for r in running if r["function"] == "worker" and r["event"]["slot"] == 2)
    os.kill(victim["pid"], signal.SIGKILL)
    assert service.wait_for_calls("rescue", 1)[0]["event"]["requestPayload"]["slot"] == 2
    assert [r["event"]["slot"] for r in _get(service, "/_local/invocations")["running"]] == [1]


def test_invocations_are_counted(service: PuppetService) -> None:
    service.send("worker", do="raise", message="")
    service.wait_for_calls("rescue", 1)
    wait_until(lambda: service.dispatcher.counts()["rescue"]["succeeded"] == 1)
    counts = _get(service, "/_local/invocations")["counts"]
    assert counts["worker"] == {"accepted": 1, "started": 1, "succeeded": 0, "failed": 1, "throttled": 0}
    assert counts["rescue"] == {"accepted": 1, "started": 1, "succeeded": 1, "failed": 0, "throttled": 0}


def test_an_error_is_retried_as_often_as_the_function_says(
    start: Callable[..., PuppetService], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "RETRY_SECONDS", (0.05, 0.05))
    service = start(puppet("worker", retries=2, on_failure="rescue"), puppet("rescue"))
    service.send("worker", do="raise", message="again")
    record = service.wait_for_calls("rescue", 1)[0]["event"]
    assert record["requestContext"]["approximateInvokeCount"] == 3
    assert len({call["requestId"] for call in service.journal("worker")}) == 1
    assert len(service.journal("worker")) == 3


def test_a_throttled_event_runs_when_there_is_room(start: Callable[..., PuppetService]) -> None:
    service = start(puppet("worker", reserved_concurrency=1))
    service.send("worker", do="sleep", seconds=0.5, number=1)
    service.wait_for_calls("worker", 1)
    service.send("worker", number=2)
    calls = service.wait_for_calls("worker", 2)
    assert [call["event"]["number"] for call in calls] == [1, 2]
    assert service.dispatcher.counts()["worker"]["throttled"] >= 1


def test_an_event_that_never_ran_within_its_age_is_reported(start: Callable[..., PuppetService]) -> None:
    service = start(
        puppet("worker", reserved_concurrency=1, event_age_seconds=0.2, on_failure="rescue"), puppet("rescue")
    )
    service.send("worker", do="sleep", seconds=60)
    service.wait_for_calls("worker", 1)
    service.send("worker", number=2)
    record = service.wait_for_calls("rescue", 1)[0]["event"]
    assert record["requestContext"]["condition"] == "EventAgeExceeded"
    assert record["requestPayload"] == {"number": 2}
    assert "responsePayload" not in record


def test_an_event_that_is_lost_was_accepted_and_never_runs(service: PuppetService) -> None:
    service.arm("worker", Kind.LOSE)
    service.send("worker", number=1)
    service.send("worker", number=2)
    assert [call["event"]["number"] for call in service.wait_for_calls("worker", 1)] == [2]
    assert service.dispatcher.counts()["worker"]["accepted"] == 2


def test_a_doubled_event_runs_twice_in_parallel_under_one_request_id(service: PuppetService) -> None:
    service.arm("worker", Kind.DOUBLE)
    request_id = service.send("worker", do="sleep", seconds=60)
    calls = service.wait_for_calls("worker", 2)
    assert {call["requestId"] for call in calls} == {request_id}
    assert len({call["pid"] for call in calls}) == 2


def test_a_delayed_event_is_overtaken(service: PuppetService) -> None:
    service.arm("worker", Kind.DELAY, seconds=0.5)
    service.send("worker", number=1)
    service.send("worker", number=2)
    assert [call["event"]["number"] for call in service.wait_for_calls("worker", 2)] == [2, 1]


def test_a_lost_report_is_a_lost_event_of_the_rescue(service: PuppetService) -> None:
    service.arm("rescue", Kind.LOSE)
    service.send("worker", do="die", number=1)
    wait_until(lambda: service.dispatcher.counts()["rescue"]["accepted"] == 1)
    service.send("worker", do="die", number=2)
    assert [call["event"]["requestPayload"]["number"] for call in service.wait_for_calls("rescue", 1)] == [2]


@pytest.mark.parametrize(
    ("kind", "code"), [(Kind.THROTTLE, "TooManyRequestsException"), (Kind.FAIL, "ServiceException")]
)
def test_invoke_refuses_as_often_as_it_is_told_to(service: PuppetService, kind: Kind, code: str) -> None:
    service.arm("worker", kind, times=2)
    for _ in range(2):
        with pytest.raises(ClientError, match=code):
            service.send("worker", number=1)
    service.send("worker", number=2)
    assert [call["event"]["number"] for call in service.wait_for_calls("worker", 1)] == [2]


def test_an_invoke_that_hangs_runs_nothing(service: PuppetService) -> None:
    service.arm("worker", Kind.HANG, seconds=0.2)
    with pytest.raises((ConnectionClosedError, ReadTimeoutError)):
        service.send("worker", number=1)
    service.send("worker", number=2)
    assert [call["event"]["number"] for call in service.wait_for_calls("worker", 1)] == [2]


def test_an_invoke_that_is_mute_runs_what_it_does_not_confirm(service: PuppetService) -> None:
    service.arm("worker", Kind.MUTE, seconds=0.2)
    with pytest.raises((ConnectionClosedError, ReadTimeoutError)):
        service.send("worker", number=1)
    assert service.wait_for_calls("worker", 1)[0]["event"]["number"] == 1


def test_faults_are_armed_and_disarmed_over_http(service: PuppetService) -> None:
    _call(service, "POST", "/_local/faults", {"name": "worker", "kind": "lose", "times": None})
    assert _get(service, "/_local/faults") == [{"name": "worker", "kind": "lose", "times": None, "seconds": 60}]
    service.send("worker", number=1)
    _call(service, "DELETE", "/_local/faults")
    service.send("worker", number=2)
    assert [call["event"]["number"] for call in service.wait_for_calls("worker", 1)] == [2]


@pytest.mark.parametrize("fault", [{"name": "worker", "kind": "explode"}, {"kind": "lose"}, {}])
def test_what_is_not_a_fault_is_refused(service: PuppetService, fault: dict[str, str]) -> None:
    with pytest.raises(urllib.request.HTTPError, match="400"):
        _call(service, "POST", "/_local/faults", fault)


def test_a_stop_reports_what_it_kills_before_it_ends(service: PuppetService) -> None:
    service.send("worker", do="sleep", seconds=60, slot=7)
    pid = service.wait_for_calls("worker", 1)[0]["pid"]
    service.stop()
    assert not alive(pid)
    assert [call["event"]["requestPayload"]["slot"] for call in service.journal("rescue")] == [7]


def _get(service: PuppetService, path: str) -> Any:
    return json.loads(_call(service, "GET", path))


def _call(service: PuppetService, method: str, path: str, content: object = None) -> bytes:
    data = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(service.service.url + path, data, method=method)
    with urllib.request.urlopen(request) as answer:
        body: bytes = answer.read()
        return body
