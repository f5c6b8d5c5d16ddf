"""How our functions call each other, by boto3, against the local Lambda service."""

import pytest

from dilamme.aws import invoke
from tests.local.bench import Bench


def test_a_second_call_goes_over_the_connection_of_the_first(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """On AWS that is a TLS handshake spared for each call."""
    accepted: list[object] = []
    accept = bench.service.get_request

    def count() -> object:
        accepted.append(answer := accept())
        return answer

    monkeypatch.setattr(bench.service, "get_request", count)
    monkeypatch.setattr(invoke, "_client", lambda: bench.client)
    for number in range(3):
        invoke.invoke("worker", {"do": "return", "value": number})
    bench.wait_for_calls("worker", 3)
    assert len(accepted) == 1
