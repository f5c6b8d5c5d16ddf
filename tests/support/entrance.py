"""The ways into a test's database."""

from collections.abc import Callable
from dataclasses import dataclass

from dilamme.store.connection import Connection
from dilamme.store.session_settings import ROLE_PREFIX
from dilamme_local.postgres import Postgres

Enter = Callable[[str], Connection]


def role_url(url: str, function: str) -> str:
    """The same database, as the role of ``function`` (api, scheduler, worker, rescue), which needs no password."""
    scheme, rest = url.split("://")
    return f"{scheme}://{ROLE_PREFIX}{function}@{rest.rpartition('@')[2]}"


@dataclass(frozen=True)
class Entrance:
    """One database, and who may enter it."""

    server: Postgres
    name: str

    def url(self, function: str) -> str:
        return role_url(self.superuser_url, function)

    @property
    def superuser_url(self) -> str:
        return self.server.url(self.name)
