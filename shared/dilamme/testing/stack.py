"""`dilamme_stack`: what `dilamme dev` runs, for a test."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dilamme.client import Client
from dilamme_local import stack as local
from dilamme_local.application import Application
from dilamme_local.options import Options


@dataclass(frozen=True)
class Stack:
    """``url`` of the API, a ``client`` of it, and the URL of the database, as its owner."""

    url: str
    client: Client
    database_url: str


@contextmanager
def running(application: Application, database_url: str, folder: Path) -> Iterator[Stack]:
    """Runs a stack on the database, with its files in ``folder``."""
    options = Options(port=0, data_dir=folder, database_url=database_url, database_roles=True, application=application)
    with local.Stack(options) as stack, Client(stack.url) as client:
        yield Stack(stack.url, client, database_url)
