"""How our functions call each other, by boto3, against the local Lambda service."""

import pytest

from dilamme.aws import invoke
from tests.local.puppet_service import PuppetService


def test_a_second_call_goes_over_the_connection_of_the_first(
    service: PuppetService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On AWS that is a TLS handshake spared for each call."""
    accepted: list[object] = []
    accept = service.service.get_request

    def count() -> object:
        accepted.append(answer := accept())
        return answer

    monkeypatch.setattr(service.service, "get_request", count)
    monkeypatch.setattr(invoke, "_client", lambda: service.client)
    for number in range(3):
        invoke.invoke("worker", {"do": "return", "value": number})
    service.wait_for_calls("worker", 3)
    assert len(accepted) == 1
