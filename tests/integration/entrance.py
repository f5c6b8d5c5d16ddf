"""The ways into a test's database."""

from collections.abc import Callable
from dataclasses import dataclass

from dilamme.store.connection import ROLE_PREFIX, Connection
from local.postgres import Postgres

Enter = Callable[[str], Connection]


@dataclass(frozen=True)
class Entrance:
    """One database, and who may enter it."""

    server: Postgres
    name: str

    def url(self, function: str) -> str:
        """As the role of ``function`` (api, scheduler, worker, rescue)."""
        return self.server.url(self.name, ROLE_PREFIX + function)

    @property
    def superuser_url(self) -> str:
        return self.server.url(self.name)
