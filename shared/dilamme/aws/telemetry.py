"""Logs and metrics of the functions, as JSON and EMF on standard output."""

import logging
import os

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter

NAMESPACE = "Dilamme"


def set_up(service: str) -> tuple[Logger, Metrics]:
    """The function's logger and metrics; the package's own loggers write through the same formatter.

    Metrics have one dimension beside the service, the stack: a dimension from user input would be a bill without end.
    """
    logger = Logger(service=service, use_rfc3339=True, utc=True)
    package = logging.getLogger("dilamme")
    package.handlers = [_handler(service)]
    package.setLevel(logger.log_level)
    package.propagate = False
    metrics = Metrics(namespace=NAMESPACE, service=service)
    metrics.set_default_dimensions(environment=os.environ.get("DILAMME_STACK", "local"))
    return logger, metrics


def _handler(service: str) -> logging.Handler:
    handler = logging.StreamHandler()
    handler.setFormatter(LambdaPowertoolsFormatter(use_rfc3339=True, utc=True, service=service))
    return handler
