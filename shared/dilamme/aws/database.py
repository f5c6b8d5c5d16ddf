"""The address of the database, and the login to it.

Locally, DATABASE_URL holds everything. On AWS a function finds host, port and name in DILAMME_DATABASE_*. It logs in with
a token of IAM's, which it signs itself, or with a secret of Secrets Manager. TLS is verified either way.

boto3 is imported inside the functions that need it, so that a process with a DATABASE_URL does not wait for the import.
"""

import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo

from dilamme.aws import environment
from dilamme.domain.errors import ConfigurationError, DatabaseUnavailable

TOKEN_SECONDS = 900  # AWS takes it for a login no longer than this; a connection outlives it
CERTIFICATES = Path(__file__).with_name("certificates") / "rds.pem"
# The operating system's trusted certificates, on Amazon Linux and on Debian. libpq needs a file, and its own search for
# one (sslrootcert=system) looks where the wheel was built.
SYSTEM_CERTIFICATES = (Path("/etc/pki/tls/certs/ca-bundle.crt"), Path("/etc/ssl/certs/ca-certificates.crt"))

_signer: tuple[Any, str | None] | None = None


def conninfo() -> str:
    """The connection string for psycopg. Ask anew for each connection: tokens expire, passwords are rotated.

    Raises:
        ConfigurationError: no variable says where the database is, or the secret is incomplete.
        DatabaseUnavailable: Secrets Manager does not return the secret.
    """
    variables = environment.variables()
    if url := variables.get("DATABASE_URL"):
        return _unmisled(url)
    if arn := variables.get("DILAMME_DATABASE_SECRET"):
        return _unmisled(_conninfo(_with_address(_secret(arn))))
    if variables.get("DILAMME_DATABASE_HOST"):
        login = _with_address({"username": variables["DILAMME_DATABASE_USER"]})
        password = token(login["host"], int(login["port"]), login["username"])
        return _unmisled(_conninfo({**login, "password": password}))
    raise ConfigurationError("DATABASE_URL is not set: give the PostgreSQL to use")


def hold_login() -> None:
    """Makes what each later login needs of boto3 now, before users' code can change the variables that it is made from."""
    global _signer  # noqa: PLW0603
    variables = environment.variables()
    if variables.get("DATABASE_URL"):
        return
    if variables.get("DILAMME_DATABASE_SECRET"):
        _secrets_manager()
    elif variables.get("DILAMME_DATABASE_HOST"):
        _signer = _find_signer()


def secret_has_changed() -> bool:
    """Fetches the secret again, after a login with the cached one was refused. True if another login is worth a try."""
    variables = environment.variables()
    arn = variables.get("DILAMME_DATABASE_SECRET")
    if variables.get("DATABASE_URL") or not arn or not _secret.cache_info().currsize:
        return False
    refused = _secret(arn)
    _secret.cache_clear()
    return _secret(arn) != refused


def token(host: str, port: int, user: str) -> str:
    """A password for one login by IAM, valid for `TOKEN_SECONDS`. It is a signature, so AWS is not called.

    The rival is boto3's `generate_db_auth_token`. Its client loads a model, which takes a tenth of a second of a whole
    processor, and the smallest functions have a fourteenth of one.
    """
    from botocore.auth import SigV4QueryAuth  # noqa: PLC0415
    from botocore.awsrequest import AWSRequest  # noqa: PLC0415

    credentials, region = _signer or _find_signer()
    if credentials is None or region is None:
        raise ConfigurationError("no AWS credentials or region to sign the login to the database with")
    request = AWSRequest("GET", f"https://{host}:{port}/", params={"Action": "connect", "DBUser": user})
    signer = SigV4QueryAuth(credentials.get_frozen_credentials(), "rds-db", region, expires=TOKEN_SECONDS)
    signer.add_auth(request)
    return str(request.url).removeprefix("https://")


def _find_signer() -> tuple[Any, str | None]:
    """AWS's credentials, which renew themselves, and the region."""
    from botocore.session import get_session  # noqa: PLC0415

    session = get_session()
    return session.get_credentials(), session.get_config_variable("region")


def _unmisled(conninfo: str) -> str:
    """``conninfo``, and what libpq would else take from a PG* variable that users' code has changed."""
    kept = environment.variables()
    changed = [
        option
        for option in (() if kept is os.environ else Conninfo.get_defaults())
        if option.envvar and os.environ.get(name := option.envvar.decode()) != kept.get(name)
    ]
    if not changed:
        return conninfo
    as_kept = {
        option.keyword.decode(): kept.get((option.envvar or b"").decode(), (option.compiled or b"").decode())
        for option in changed
    }
    try:
        return make_conninfo("", **{**as_kept, **conninfo_to_dict(conninfo)})
    except Exception:  # no connection string: who connects says so, without the password
        return conninfo


def _with_address(login: Mapping[str, Any]) -> dict[str, Any]:
    """The login, completed with host, port and name: RDS keeps a master's secret without them."""
    address = {
        "host": environment.variables().get("DILAMME_DATABASE_HOST"),
        "port": environment.variables().get("DILAMME_DATABASE_PORT"),
        "dbname": environment.variables().get("DILAMME_DATABASE_NAME"),
    }
    return {"port": 5432, "dbname": "postgres", **{name: value for name, value in address.items() if value}, **login}


def _conninfo(login: Mapping[str, Any]) -> str:
    if missing := {"host", "username", "password"} - login.keys():
        raise ConfigurationError(f"the database's secret has no {' and no '.join(sorted(missing))}: add it")
    wanted = environment.variables().get("DILAMME_DATABASE_CERTIFICATES") or "rds"
    certificates = CERTIFICATES if wanted == "rds" else Path(wanted)
    if wanted == "system":
        found = [path for path in SYSTEM_CERTIFICATES if path.exists()]
        if not found:
            raise ConfigurationError(
                "DILAMME_DATABASE_CERTIFICATES is 'system', and this system has none where we look"
            )
        certificates = found[0]
    return make_conninfo(
        "",
        host=login["host"],
        port=login["port"],
        dbname=login["dbname"],
        user=login["username"],
        password=login["password"],
        sslmode="verify-full",
        sslrootcert=str(certificates),
    )


@cache
def _secret(arn: str) -> Mapping[str, Any]:
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    try:
        text = _secrets_manager().get_secret_value(SecretId=arn)["SecretString"]
    except (BotoCoreError, ClientError) as error:
        raise DatabaseUnavailable(f"the database's secret is not to be had: {error}") from error
    try:
        secret = json.loads(text)
    except ValueError:
        secret = None
    if not isinstance(secret, dict):
        raise ConfigurationError("the database's secret is not a JSON object of username, password, host, port, dbname")
    return secret


@cache
def _secrets_manager() -> Any:
    import boto3  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415

    # A network without a route to Secrets Manager gives no error, only silence.
    config = Config(connect_timeout=2, read_timeout=3, retries={"mode": "standard", "total_max_attempts": 2})
    return boto3.client("secretsmanager", config=config)
