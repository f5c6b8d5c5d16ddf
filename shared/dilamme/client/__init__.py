"""Clients of the HTTP API: `Client`, and `AsyncClient` with the same methods to await.

    with Client("http://127.0.0.1:3000") as client:
        job = client.submit("mail.welcome", {"to": "ada@example.com"}, priority=1)
        print(client.wait(job.id).result)

A call that was lost, or met an overload, is repeated: GETs as they are, POSTs under an idempotency key. Addresses of API
Gateway's are called with a signature (SigV4).
"""

from dilamme.client.asynchronous import AsyncClient
from dilamme.client.problems import Refused, Unreachable
from dilamme.client.synchronous import Client

__all__ = ["AsyncClient", "Client", "Refused", "Unreachable"]
