"""Signature Version 4, which API Gateway's IAM authorization wants; botocore makes it."""

import re
from collections.abc import Generator
from typing import TYPE_CHECKING

import httpx

from dilamme.domain.errors import ConfigurationError

if TYPE_CHECKING:
    from botocore.credentials import Credentials

_EXECUTE_API = re.compile(r"\.execute-api\.([a-z0-9-]+)\.amazonaws\.com(\.cn)?$")


def auth_for(url: httpx.URL, region: str | None) -> httpx.Auth | None:
    """Signs for ``region``, or for the one in an address of API Gateway's; nothing for other addresses.

    Raises:
        ConfigurationError: it must be signed, and boto3 is not installed, or has no credentials.
    """
    if region is None:
        found = _EXECUTE_API.search(url.host)
        if found is None:
            return None
        region = found[1]
    try:
        from botocore.session import Session  # noqa: PLC0415  whoever calls the local stack needs none
    except ModuleNotFoundError:
        raise ConfigurationError(f"calls to {url.host} are signed with boto3: pip install 'dilamme[aws]'") from None
    credentials = Session().get_credentials()
    if credentials is None:
        raise ConfigurationError(
            f"calls to {url.host} are signed, and there are no AWS credentials: run `aws sso login`, or set AWS_PROFILE"
        )
    return _Signature(credentials, region)


class _Signature(httpx.Auth):
    requires_request_body = True

    def __init__(self, credentials: "Credentials", region: str) -> None:
        self._credentials = credentials
        self._region = region

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Adds the signature; anew for each try, since it holds the time."""
        from botocore.auth import SigV4Auth  # noqa: PLC0415
        from botocore.awsrequest import AWSRequest  # noqa: PLC0415

        kept = {name: request.headers[name] for name in ("content-type", "host") if name in request.headers}
        signed = AWSRequest(request.method, str(request.url), data=request.content, headers=kept)
        SigV4Auth(self._credentials, "execute-api", self._region).add_auth(signed)
        for name in ("Authorization", "X-Amz-Date", "X-Amz-Security-Token"):
            if name in signed.headers:
                request.headers[name] = signed.headers[name]
        yield request
