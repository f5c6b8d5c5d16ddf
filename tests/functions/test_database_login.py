"""How a function logs in to its database on AWS: by a token of IAM's, or by a secret that may be rotated; by TLS, verified."""

import hashlib
import itertools
import json
import os
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import psycopg
import pytest
from moto import mock_aws
from psycopg.conninfo import conninfo_to_dict
from psycopg.sql import SQL

from dilamme import session
from dilamme.aws import database
from dilamme.domain.errors import ConfigurationError, DatabaseUnavailable
from dilamme_local.postgres import Postgres
from tests.functions.tls import TlsProxy

REGION = "eu-west-1"
ON_AWS = {
    "DILAMME_DATABASE_HOST": "db.abc.eu-west-1.rds.amazonaws.com",
    "DILAMME_DATABASE_PORT": "5432",
    "DILAMME_DATABASE_NAME": "dilamme",
    "AWS_DEFAULT_REGION": REGION,
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "not-a-secret",
    "AWS_SESSION_TOKEN": "a-session",
}


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [*os.environ]:
        if name.startswith(("DILAMME_", "AWS_", "DATABASE_")):
            monkeypatch.delenv(name)
    for name, value in ON_AWS.items():
        monkeypatch.setenv(name, value)
    database._secret.cache_clear()
    database._secrets_manager.cache_clear()
    yield
    database._secret.cache_clear()
    database._secrets_manager.cache_clear()


# ----- by IAM


def test_a_token_is_the_one_that_boto3_would_make() -> None:
    ours = _parts(database.token("db.example.com", 5432, "dilamme_api"))
    theirs = _parts(
        boto3.client("rds", region_name=REGION).generate_db_auth_token("db.example.com", 5432, "dilamme_api")
    )
    changing = ("X-Amz-Date", "X-Amz-Signature")
    assert {key: value for key, value in ours.items() if key not in changing} == {
        key: value for key, value in theirs.items() if key not in changing
    }


def test_at_one_instant_even_the_signature_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    instant = datetime(2026, 11, 29, 12, tzinfo=UTC)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda remove_tzinfo=True: instant.replace(tzinfo=None))
    theirs = boto3.client("rds", region_name=REGION).generate_db_auth_token("db.example.com", 5432, "dilamme_api")
    assert _parts(database.token("db.example.com", 5432, "dilamme_api")) == _parts(theirs)


def _parts(token: str) -> dict[str, Any]:
    address = urlsplit(f"https://{token}")
    return {"place": address.netloc + address.path, **parse_qs(address.query)}


def test_a_function_logs_in_as_its_role_with_a_token_and_verifies_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DILAMME_DATABASE_USER", "dilamme_worker")
    told = conninfo_to_dict(database.conninfo())
    assert (told["host"], told["user"], told["dbname"]) == (
        ON_AWS["DILAMME_DATABASE_HOST"],
        "dilamme_worker",
        "dilamme",
    )
    assert (told["sslmode"], told["sslrootcert"]) == ("verify-full", str(database.CERTIFICATES))
    assert "X-Amz-Signature" in str(told["password"])


def test_a_token_is_made_for_each_login(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = itertools.count(1)
    monkeypatch.setenv("DILAMME_DATABASE_USER", "dilamme_api")
    monkeypatch.setattr(database, "token", lambda *_: f"token-{next(numbers)}")
    assert [conninfo_to_dict(database.conninfo())["password"] for _ in range(2)] == ["token-1", "token-2"]


def test_a_url_beats_all_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://localhost/mine")
    assert database.conninfo() == "postgresql://localhost/mine"


def test_without_any_of_it_the_sentence_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DILAMME_DATABASE_HOST")
    with pytest.raises(ConfigurationError, match="DATABASE_URL is not set"):
        database.conninfo()


# ----- by a secret


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with mock_aws():
        client = boto3.client("secretsmanager", region_name=REGION)
        arn = client.create_secret(Name="db", SecretString=json.dumps({"username": "postgres", "password": "first"}))[
            "ARN"
        ]
        monkeypatch.setenv("DILAMME_DATABASE_SECRET", arn)
        yield client


def put_secret(client: Any, value: Any) -> None:
    client.put_secret_value(SecretId="db", SecretString=value if isinstance(value, str) else json.dumps(value))


def test_the_masters_secret_has_no_place_in_it_so_the_template_gives_it(secrets: Any) -> None:
    told = conninfo_to_dict(database.conninfo())
    assert (told["host"], told["dbname"], told["user"], told["password"]) == (
        ON_AWS["DILAMME_DATABASE_HOST"],
        "dilamme",
        "postgres",
        "first",
    )


def test_a_secret_of_ones_own_says_where_the_database_is(secrets: Any) -> None:
    own = {"username": "app", "password": "p w'd", "host": "pg.example.com", "port": 6432, "dbname": "shop"}
    put_secret(secrets, own)
    told = conninfo_to_dict(database.conninfo())
    assert (told["host"], told["port"], told["dbname"], told["password"]) == ("pg.example.com", "6432", "shop", "p w'd")
    assert told["sslmode"] == "verify-full"


def test_a_secret_is_fetched_once(secrets: Any) -> None:
    database.conninfo()
    put_secret(secrets, {"username": "postgres", "password": "second"})
    assert conninfo_to_dict(database.conninfo())["password"] == "first"


def test_after_a_refusal_it_is_fetched_once_more_and_only_a_new_one_is_worth_another_try(secrets: Any) -> None:
    database.conninfo()
    assert not database.secret_has_changed()
    put_secret(secrets, {"username": "postgres", "password": "second"})
    assert database.secret_has_changed()
    assert conninfo_to_dict(database.conninfo())["password"] == "second"


@pytest.mark.parametrize("value", ["not json", "[1]", '"text"'])
def test_a_secret_that_is_not_an_object_is_refused_with_a_sentence(secrets: Any, value: str) -> None:
    put_secret(secrets, value)
    with pytest.raises(ConfigurationError, match="not a JSON object"):
        database.conninfo()


def test_a_secret_that_lacks_a_key_is_refused_with_its_name(secrets: Any) -> None:
    put_secret(secrets, {"username": "app", "host": "h"})
    with pytest.raises(ConfigurationError, match="no password"):
        database.conninfo()


@mock_aws
def test_a_secret_that_is_not_there_is_a_database_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DILAMME_DATABASE_SECRET", "arn:aws:secretsmanager:eu-west-1:123456789012:secret:none")
    with pytest.raises(DatabaseUnavailable, match="secret is not to be had"):
        database.conninfo()


# ----- by TLS, to a real server


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for localhost, and its key beside it."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names]
    subprocess.run(
        [*command, "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True
    )
    return folder / "cert.pem"


@pytest.fixture(scope="module")
def encrypted(postgres: Postgres, certificate: Path) -> Iterator[TlsProxy]:
    """The tests' server behind TLS, with a user who needs a password."""
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("CREATE ROLE app LOGIN")
    proxy = TlsProxy(postgres.port, certificate, certificate.with_name("key.pem"))
    yield proxy
    proxy.stop()
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("DROP ROLE app")


def set_password(postgres: Postgres, password: str) -> None:
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(SQL("ALTER ROLE app PASSWORD {}").format(password))


@pytest.fixture
def placed(
    postgres: Postgres, encrypted: TlsProxy, secrets: Any, monkeypatch: pytest.MonkeyPatch, certificate: Path
) -> Any:
    own = {"username": "app", "password": "first", "host": "localhost", "port": encrypted.port, "dbname": "postgres"}
    put_secret(secrets, own)
    set_password(postgres, "first")
    monkeypatch.setenv("DILAMME_DATABASE_CERTIFICATES", str(certificate))
    return own


def test_a_server_whose_certificate_is_trusted_is_entered_by_tls(placed: Any, encrypted: TlsProxy) -> None:
    before = encrypted.encrypted
    with session.open_connection() as connection:
        assert connection.execute("SELECT current_user").fetchone() == ("app",)
    assert encrypted.encrypted == before + 1


def test_a_server_that_nobody_vouches_for_is_not(placed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DILAMME_DATABASE_CERTIFICATES", "rds")
    with pytest.raises(DatabaseUnavailable, match="certificate verify failed"):
        session.open_connection()


def test_a_server_of_another_name_is_not(placed: Any, secrets: Any) -> None:
    put_secret(secrets, {**placed, "host": "127.0.0.1"})
    with pytest.raises(DatabaseUnavailable, match="does not match host name"):
        session.open_connection()


def test_a_password_rotated_behind_our_back_costs_one_more_look(placed: Any, secrets: Any, postgres: Postgres) -> None:
    session.open_connection().close()
    set_password(postgres, "second")
    put_secret(secrets, {**placed, "password": "second"})
    session.open_connection().close()


def test_a_password_that_is_wrong_is_an_error_that_does_not_tell_it(placed: Any, secrets: Any) -> None:
    put_secret(secrets, {**placed, "password": "sesame"})
    with pytest.raises(DatabaseUnavailable) as refused:
        session.open_connection()
    assert "sesame" not in str(refused.value)


# ----- the certificates that are shipped


def test_the_bundle_is_the_one_whose_checksum_was_kept() -> None:
    kept, name = database.CERTIFICATES.with_suffix(".pem.sha256").read_text().split()
    assert name == database.CERTIFICATES.name
    assert hashlib.sha256(database.CERTIFICATES.read_bytes()).hexdigest() == kept


def test_every_certificate_in_it_is_a_root_with_years_to_live() -> None:
    trusted = ssl.create_default_context(cafile=str(database.CERTIFICATES)).get_ca_certs()
    assert len(trusted) == database.CERTIFICATES.read_text().count("BEGIN CERTIFICATE")
    ends = [datetime.strptime(str(one["notAfter"]), "%b %d %H:%M:%S %Y GMT").replace(tzinfo=UTC) for one in trusted]
    assert min(ends) > datetime(2036, 1, 1, tzinfo=UTC)


def test_it_has_roots_of_rds_and_of_its_proxy() -> None:
    text = database.CERTIFICATES.read_text()
    assert "# Amazon RDS us-east-1 Root CA RSA2048 G1" in text
    assert "# Amazon Root CA 1" in text
