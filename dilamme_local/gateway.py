"""API Gateway on one machine: every request, whatever its method and path, becomes an invocation of the api function."""

import json
from typing import cast

from dilamme_local import payload
from dilamme_local.dispatcher import Dispatcher
from dilamme_local.http_server import BodyTooLargeError, Handler, RequestMalformedError, Server
from dilamme_local.invocation import Invocation, StoppingError, ThrottledError

REQUEST_BYTES_MAX = 10 * 1024 * 1024
EVENT_BYTES_MAX = 6 * 1024 * 1024  # of a synchronous invocation: a body full of quotes grows on its way into the event


class Gateway(Server):
    """Serves HTTP on ``port`` (0: a free one) by invoking ``function_name``; the dispatcher is given before `start`."""

    dispatcher: Dispatcher

    def __init__(self, port: int, function_name: str = "api") -> None:
        self.function_name = function_name
        super().__init__(port, GatewayHandler)


class GatewayHandler(Handler):
    """One connection of an HTTP client. The gateway's own errors are ``{"message": …}``, as AWS's are."""

    def handle_request(self) -> None:
        try:
            body = self.read_body(REQUEST_BYTES_MAX)
        except BodyTooLargeError:
            self.answer_json(413, {"message": "Request Entity Too Large"})
        except RequestMalformedError:
            self.answer_json(400, {"message": "Bad Request"})
        else:
            self._forward(body)

    def _forward(self, body: bytes) -> None:
        event = payload.event(self.command, self.path, self.headers.items(), body, self.client_address[0])
        encoded = json.dumps(event, ensure_ascii=False).encode()
        if len(encoded) > EVENT_BYTES_MAX:
            self.answer_json(413, {"message": "Request Entity Too Large"})
            return
        response = self._invoke(encoded)
        self.answer(response.status, response.headers, response.body)

    def _invoke(self, event: bytes) -> payload.Response:
        gateway = cast("Gateway", self.server)
        try:
            outcome = gateway.dispatcher.run(Invocation(gateway.function_name, event))
        except (ThrottledError, StoppingError):
            return payload.Response(503, [("Content-Type", "application/json")], b'{"message":"Service Unavailable"}')
        return payload.response(outcome.payload) if outcome.succeeded else payload.INTERNAL_SERVER_ERROR
