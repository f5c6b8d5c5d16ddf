"""Brings the schema up to date: a step of each deployment, safe to run twice, in parallel, and by hand."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from typing import Any

from dilamme import settings
from dilamme.aws import custom_resource
from dilamme.aws.telemetry import set_up
from dilamme.session import open_connection
from dilamme.usecases.deploy import deploy

logger, _ = set_up("migrate")


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Applies the missing migrations; {applied, version, roles}, or the answer that CloudFormation got."""
    if not custom_resource.is_request(event):
        return _deploy({})
    properties = event["ResourceProperties"]
    # The worker's reserved concurrency: one more than slots, for a doubled event. CloudFormation itself cannot add.
    outputs = {"WorkerConcurrency": int(properties["WorkerSlots"]) + 1}
    return custom_resource.handle(event, lambda: _deploy(properties), outputs)


def _deploy(properties: Mapping[str, str]) -> dict[str, Any]:
    # The settings are read here, not at import: a wrong one must be reported to CloudFormation.
    configuration = settings.load()
    api_concurrency = properties.get("ApiConcurrency")
    with closing(open_connection()) as connection:
        migrated = deploy(connection, configuration, int(api_concurrency) if api_concurrency else None)
    logger.info("migrated", extra=asdict(migrated))
    return asdict(migrated)
