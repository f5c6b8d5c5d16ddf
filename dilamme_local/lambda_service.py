"""Lambda's `Invoke` over HTTP, as boto3 calls it, and beside it an admin endpoint for tests.

POST   /2015-03-31/functions/{name}/invocations   X-Amz-Invocation-Type: RequestResponse | Event
GET    /_local/invocations    {"running": [{function, pid, requestId, startedAt, event}], "counts": {function: {…}}}
GET    /_local/faults         what is armed
POST   /_local/faults         {"name", "kind", "times", "seconds"}: arms one, see `faults`
DELETE /_local/faults         disarms all
"""

import json
import select
from dataclasses import asdict
from typing import NoReturn, cast
from urllib.parse import unquote, urlsplit

from dilamme_local.dispatcher import Dispatcher, Running
from dilamme_local.events import Events
from dilamme_local.faults import Fault, Faults, Kind
from dilamme_local.http_server import BodyTooLargeError, Handler, RequestMalformedError, Server
from dilamme_local.invocation import Invocation, StoppingError, ThrottledError, UnknownFunctionError, arn

SYNCHRONOUS_BYTES_MAX = 6_291_556
EVENT_BYTES_MAX = 1024 * 1024
BEFORE_NAME, AFTER_NAME = "/2015-03-31/functions/", "/invocations"


class LambdaService(Server):
    """Serves what a dispatcher and its events can do; both are given before `start`.

    The address comes first: the functions, without which there is no dispatcher, are told it.
    """

    dispatcher: Dispatcher
    events: Events

    def __init__(self, faults: Faults, port: int = 0) -> None:
        self.faults = faults
        super().__init__(port, LambdaHandler)


class AwsError(Exception):
    """An answer in the error shape of AWS's REST-JSON protocol."""

    def __init__(self, status: int, code: str, message: str, **more: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.more = more


class LambdaHandler(Handler):
    """One connection of a boto3 client or a test."""

    def handle_request(self) -> None:
        path = urlsplit(self.path).path
        try:
            if path.startswith(BEFORE_NAME) and path.endswith(AFTER_NAME) and self.command == "POST":
                self._invoke(_function_name(path.removeprefix(BEFORE_NAME).removesuffix(AFTER_NAME)))
            elif path.startswith("/_local/"):
                self._administer(path)
            else:
                self._know_nothing_of(path)
        except AwsError as error:
            self._answer_error(error)

    def _answer_error(self, error: AwsError) -> None:
        body = {"Type": "User", "Message": str(error), **error.more}
        self.answer_json(error.status, body, [("x-amzn-ErrorType", error.code)])

    def refuse(self, sentence: str) -> None:
        self._answer_error(AwsError(403, "AccessDeniedException", sentence))

    @property
    def _service(self) -> LambdaService:
        return cast("LambdaService", self.server)

    # ----- Invoke

    def _invoke(self, name: str) -> None:
        kind = self.headers.get("X-Amz-Invocation-Type", "RequestResponse")
        event = self._read_event(EVENT_BYTES_MAX if kind == "Event" else SYNCHRONOUS_BYTES_MAX)
        # Any signature will do. A page cannot give one without asking first, and is told nothing then.
        if not self.headers.get("Authorization", "").startswith("AWS4-HMAC-SHA256 "):
            raise AwsError(403, "MissingAuthenticationTokenException", "Missing Authentication Token")
        self._refuse_if_told_to(name)
        try:
            if kind == "Event":
                self._submit(name, event)
            elif kind == "RequestResponse":
                self._run(Invocation(name, event))
            else:
                raise AwsError(400, "InvalidParameterValueException", f"Unsupported invocation type {kind}")
        except UnknownFunctionError:
            raise AwsError(404, "ResourceNotFoundException", f"Function not found: {arn(name)}") from None
        except ThrottledError:
            reason = "ReservedFunctionConcurrentInvocationLimitExceeded"
            raise AwsError(429, "TooManyRequestsException", "Rate Exceeded.", Reason=reason) from None
        except StoppingError:
            raise AwsError(500, "ServiceException", "the local stack is stopping") from None

    def _submit(self, name: str, event: bytes) -> None:
        request_id = self._service.events.submit(name, event)
        if mute := self._service.faults.strike(name, Kind.MUTE):
            self._say_nothing(mute.seconds)
        else:
            self.answer(202, [("x-amzn-RequestId", request_id)], b"")

    def _run(self, invocation: Invocation) -> None:
        outcome = self._service.dispatcher.run(invocation)
        headers = [("x-amzn-RequestId", invocation.request_id), ("X-Amz-Executed-Version", "$LATEST")]
        if not outcome.succeeded:
            headers.append(("X-Amz-Function-Error", "Unhandled"))
        self.answer(200, [("Content-Type", "application/json"), *headers], outcome.payload)

    def _read_event(self, bytes_max: int) -> bytes:
        try:
            event = self.read_body(bytes_max) or b"{}"
            json.loads(event)
        except BodyTooLargeError:
            message = f"Request must be smaller than {bytes_max} bytes for the InvokeFunction operation"
            raise AwsError(413, "RequestTooLargeException", message) from None
        except (RequestMalformedError, ValueError) as error:
            message = f"Could not parse request body into json: {error}"
            raise AwsError(400, "InvalidRequestContentException", message) from None
        return event

    # ----- faults

    def _refuse_if_told_to(self, name: str) -> None:
        fault = self._service.faults.strike(name, Kind.THROTTLE, Kind.FAIL, Kind.HANG)
        if fault is None:
            return
        if fault.kind == Kind.THROTTLE:
            raise AwsError(429, "TooManyRequestsException", "Rate Exceeded.", Reason="CallerRateLimitExceeded")
        if fault.kind == Kind.HANG:
            self._say_nothing(fault.seconds)
            raise ConnectionAbortedError
        raise AwsError(500, "ServiceException", "The service encountered an internal error.")

    def _say_nothing(self, seconds: float) -> None:
        """Until the time is over or the client leaves; then the connection ends without an answer."""
        select.select([self.connection], [], [], seconds)
        self.close_connection = True

    # ----- admin

    def _administer(self, path: str) -> None:
        faults = self._service.faults
        match self.command, path:
            case "GET", "/_local/invocations":
                dispatcher = self._service.dispatcher
                self.answer_json(
                    200, {"running": list(map(_show, dispatcher.running())), "counts": dispatcher.counts()}
                )
            case "GET", "/_local/faults":
                self.answer_json(200, [asdict(fault) for fault in faults.armed()])
            case "POST", "/_local/faults":
                faults.arm(self._read_fault())
                self.answer(204, [], b"")
            case "DELETE", "/_local/faults":
                faults.clear()
                self.answer(204, [], b"")
            case _:
                self._know_nothing_of(path)

    def _know_nothing_of(self, path: str) -> NoReturn:
        raise AwsError(404, "ResourceNotFoundException", f"there is no {self.command} {path} here")

    def _read_fault(self) -> Fault:
        try:
            return Fault(**json.loads(self._read_event(EVENT_BYTES_MAX)))
        except (TypeError, ValueError) as error:
            raise AwsError(400, "InvalidParameterValueException", f"not a fault: {error}") from None


def _show(running: Running) -> dict[str, object]:
    return {
        "function": running.invocation.function_name,
        "pid": running.pid,
        "requestId": running.invocation.request_id,
        "startedAt": running.started_at.isoformat(),
        "event": json.loads(running.invocation.event),
    }


def _function_name(identifier: str) -> str:
    """The name in a name, a partial or a full ARN, with or without a qualifier."""
    parts = unquote(identifier).split(":")
    return parts[parts.index("function") + 1] if "function" in parts[:-1] else parts[0]
