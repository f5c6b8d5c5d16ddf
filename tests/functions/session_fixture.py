"""Points the functions' one connection at a test's database."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dilamme import session
from tests.support.entrance import role_url


@contextmanager
def entered(monkeypatch: pytest.MonkeyPatch, database_url: str, role: str | None = None) -> Iterator[None]:
    """``role``: the function whose database role to log in as; None is the superuser, as for the migration."""
    monkeypatch.setenv("DATABASE_URL", database_url if role is None else role_url(database_url, role))
    monkeypatch.setattr(session, "_connection", None)
    monkeypatch.setattr(session, "_schema_seen_at", 0.0)
    yield
    if session._connection is not None:
        session._connection.close()
