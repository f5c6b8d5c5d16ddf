"""`dilamme grants`: the rights with which an application's role can do what they are for, and no more."""

import re
from collections.abc import Iterator
from contextlib import closing
from uuid import uuid4

import psycopg
import pytest

import dilamme
from dilamme import settings as settings_module
from dilamme.settings import Settings
from dilamme.store.connection import Connection
from dilamme.usecases import wake
from dilamme_cli.grants import grants_for
from tests.support.checkout import CHECKOUT
from tests.support.invocations import Invocations
from tests.support.jobs import tally
from tests.support.pooler import wanted


@pytest.fixture
def role(connection: Connection) -> Iterator[str]:
    """An application's login, with a name that needs quoting."""
    name = f"dilamme_app {uuid4().hex[:8]}"  # of a prefix that the tests' server lets in without a password
    connection.execute(f'CREATE ROLE "{name}" LOGIN')
    yield name
    connection.execute(f'DROP OWNED BY "{name}"')
    connection.execute(f'DROP ROLE "{name}"')


def enter(url: str, role: str) -> "psycopg.Connection[tuple[object, ...]]":
    return psycopg.connect(url, user=role, password=None, autocommit=True)


@pytest.mark.skipif(wanted(), reason="the pooler knows no other roles than the functions'")
def test_they_suffice_for_the_library_and_its_wake(
    connection: Connection, database_url: str, role: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.execute(grants_for(role, only_sql=False, wake=True))
    monkeypatch.setattr(settings_module, "load", lambda: settings)
    monkeypatch.setattr(wake, "invoke", Invocations())
    with closing(enter(database_url, role)) as caller:
        parent = dilamme.submit(caller, "a", interval_seconds=60, idempotency_key="key")
        dilamme.submit_many(caller, [{"type": "b", "dependency_ids": [parent]}])
        caller.execute("SELECT dilamme.submit('c')")
        dilamme.wake(caller)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            caller.execute("DELETE FROM dilamme.jobs")
    assert tally(connection) == {"pending": 3}


@pytest.mark.skipif(wanted(), reason="the pooler knows no other roles than the functions'")
def test_two_suffice_for_sql_alone(connection: Connection, database_url: str, role: str) -> None:
    connection.execute(grants_for(role, only_sql=True, wake=False))
    with closing(enter(database_url, role)) as caller:
        caller.execute("SELECT dilamme.submit('a')")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            caller.execute("SELECT FROM dilamme.jobs")
    assert tally(connection) == {"pending": 1}


def test_the_documents_have_the_same() -> None:
    def rights(text: str) -> set[str]:
        return {re.sub(r" TO .*", "", line) for line in text.splitlines() if line.startswith("GRANT")}

    (documented,) = re.findall("```sql\n(GRANT USAGE.*?)```", (CHECKOUT / "docs" / "aws.md").read_text(), re.DOTALL)
    ours = rights(grants_for("app", only_sql=False, wake=True)) - {"GRANT EXECUTE ON FUNCTION dilamme.submit"}
    assert rights(documented) == ours
