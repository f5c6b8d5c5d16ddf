"""Where the database is, and how to log in to it.

Locally DATABASE_URL says it all. On AWS a function finds the place in DILAMME_DATABASE_*, and logs in with a token of
IAM's, which it signs itself, or with a secret of Secrets Manager; TLS is verified either way.

boto3 is imported inside the functions that need it: whoever has a DATABASE_URL does not pay for it.
"""

import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from psycopg.conninfo import make_conninfo

from dilamme.domain.errors import ConfigurationError, DatabaseUnavailable

TOKEN_SECONDS = 900  # AWS takes it for a login no longer than this; a connection outlives it
CERTIFICATES = Path(__file__).with_name("certificates") / "rds.pem"
# What an operating system trusts, where Amazon Linux and Debian keep it: libpq wants a file, and its own way to find
# one (sslrootcert=system) looks where the wheel was built.
SYSTEM_CERTIFICATES = (Path("/etc/pki/tls/certs/ca-bundle.crt"), Path("/etc/ssl/certs/ca-certificates.crt"))


def conninfo() -> str:
    """What to connect with, as psycopg takes it. Ask anew for each connection: a token ages, a password is rotated.

    Raises:
        ConfigurationError: nothing says where the database is, or the secret lacks what is needed.
        DatabaseUnavailable: Secrets Manager does not give the secret.
    """
    if url := os.environ.get("DATABASE_URL"):
        return url
    if arn := os.environ.get("DILAMME_DATABASE_SECRET"):
        return _conninfo(_with_place(_secret(arn)))
    if os.environ.get("DILAMME_DATABASE_HOST"):
        place = _with_place({"username": os.environ["DILAMME_DATABASE_USER"]})
        return _conninfo({**place, "password": token(place["host"], int(place["port"]), place["username"])})
    raise ConfigurationError("DATABASE_URL is not set: give the PostgreSQL to use")


def secret_has_changed() -> bool:
    """Fetches the secret once more, after a login with the one kept was refused. True if it is worth another login."""
    arn = os.environ.get("DILAMME_DATABASE_SECRET")
    if os.environ.get("DATABASE_URL") or not arn or not _secret.cache_info().currsize:
        return False
    refused = _secret(arn)
    _secret.cache_clear()
    return _secret(arn) != refused


def token(host: str, port: int, user: str) -> str:
    """A password for one login by IAM, good for `TOKEN_SECONDS`. No call to AWS: it is a signature.

    boto3 has `generate_db_auth_token`, on a client whose model takes a tenth of a second of a whole processor to load,
    and the smallest functions have a fourteenth of one.
    """
    from botocore.auth import SigV4QueryAuth  # noqa: PLC0415
    from botocore.awsrequest import AWSRequest  # noqa: PLC0415
    from botocore.session import get_session  # noqa: PLC0415

    session = get_session()
    credentials, region = session.get_credentials(), session.get_config_variable("region")
    if credentials is None or region is None:
        raise ConfigurationError("no AWS credentials or region to sign the login to the database with")
    request = AWSRequest("GET", f"https://{host}:{port}/", params={"Action": "connect", "DBUser": user})
    signer = SigV4QueryAuth(credentials.get_frozen_credentials(), "rds-db", region, expires=TOKEN_SECONDS)
    signer.add_auth(request)
    return str(request.url).removeprefix("https://")


def _with_place(login: Mapping[str, Any]) -> dict[str, Any]:
    """The login with what it does not say itself: RDS keeps a master's secret without a place in it."""
    place = {
        "host": os.environ.get("DILAMME_DATABASE_HOST"),
        "port": os.environ.get("DILAMME_DATABASE_PORT"),
        "dbname": os.environ.get("DILAMME_DATABASE_NAME"),
    }
    return {"port": 5432, "dbname": "postgres", **{name: value for name, value in place.items() if value}, **login}


def _conninfo(login: Mapping[str, Any]) -> str:
    if missing := {"host", "username", "password"} - login.keys():
        raise ConfigurationError(f"the database's secret has no {' and no '.join(sorted(missing))}: add it")
    return make_conninfo(
        "",
        host=login["host"],
        port=login["port"],
        dbname=login["dbname"],
        user=login["username"],
        password=login["password"],
        sslmode="verify-full",
        sslrootcert=str(_certificates()),
    )


def _certificates() -> Path:
    wanted = os.environ.get("DILAMME_DATABASE_CERTIFICATES") or "rds"
    if wanted == "rds":
        return CERTIFICATES
    if wanted != "system":
        return Path(wanted)
    found = next((path for path in SYSTEM_CERTIFICATES if path.exists()), None)
    if found is None:
        raise ConfigurationError("DILAMME_DATABASE_CERTIFICATES is 'system', and this system has none where we look")
    return found


@cache
def _secret(arn: str) -> Mapping[str, Any]:
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    try:
        text = _secrets_manager().get_secret_value(SecretId=arn)["SecretString"]
    except (BotoCoreError, ClientError) as error:
        raise DatabaseUnavailable(f"the database's secret is not to be had: {error}") from error
    secret = _parse(text)
    if not isinstance(secret, dict):
        raise ConfigurationError("the database's secret is not a JSON object of username, password, host, port, dbname")
    return secret


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


@cache
def _secrets_manager() -> Any:
    import boto3  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415

    # A network without a way to Secrets Manager shows as silence.
    config = Config(connect_timeout=2, read_timeout=3, retries={"mode": "standard", "total_max_attempts": 2})
    return boto3.client("secretsmanager", config=config)
