"""Brings the schema up to date: once a deployment, safe to run twice and in parallel."""

from contextlib import closing
from dataclasses import asdict
from typing import Any

from dilamme import settings
from dilamme.aws.telemetry import set_up
from dilamme.store.connection import connect
from dilamme.usecases.migrate import migrate
from dilamme.usecases.session import database_url

logger, _ = set_up("migrate")


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Applies what is missing; {applied, version, roles}."""
    with closing(connect(database_url())) as connection:
        migrated = migrate(connection, settings.load())
    logger.info("migrated", extra=asdict(migrated))
    return asdict(migrated)
