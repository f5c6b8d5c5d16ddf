"""What a stack can be told, and how `make run` tells it: environment variables."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from dilamme.domain.errors import ConfigurationError, DatabaseUnavailable
from dilamme.settings import Settings, read
from dilamme.store.connection import connect
from dilamme_local.application import Application
from dilamme_local.errors import StackError
from dilamme_local.product import FUNCTIONS

# Fewer workers than in the cloud fit on one machine, and something to try out belongs to a first run.
LOCAL_DEFAULTS = {"DILAMME_WORKER_SLOTS": "4", "DILAMME_DEMO_JOBS": "1", "DILAMME_LOG_JOBS": "1"}
PORT = 3000
DATA_DIR = ".data"


@dataclass(frozen=True)
class Options:
    """``port``: 0 is a free one. ``database_url``: a PostgreSQL of the user's, else the embedded one in ``data_dir``.

    ``application``: whose handlers run, with its settings and variables; without one, those in ``functions_folder``.
    ``database_roles``: the functions log in to it under their own roles, without a password.
    ``variables``: what the functions find in their environment, over this process's own. ``timeouts_seconds``: of functions, by name, in place of
    the deployed. ``clock_seconds``: between two triggers of the scheduler; None: none but `Stack.clock.trigger`.
    ``postgres_settings``: of the embedded PostgreSQL, over its own.
    """

    port: int = PORT
    data_dir: Path = Path(DATA_DIR)
    database_url: str | None = None
    database_roles: bool = False
    functions_folder: Path = FUNCTIONS
    application: Application | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    timeouts_seconds: Mapping[str, float] = field(default_factory=dict)
    clock_seconds: float | None = 60
    postgres_settings: Mapping[str, str] = field(default_factory=dict)

    def settings(self) -> Settings:
        """Raises: StackError: a setting of Dilamme's cannot work."""
        try:
            return read(self.function_variables())
        except ConfigurationError as error:
            raise StackError(str(error)) from None

    def function_variables(self) -> dict[str, str]:
        variables = {**os.environ, **self.variables}
        chosen = {**self.application.settings, **self.application.local} if self.application else {}
        defaults = {**LOCAL_DEFAULTS, **chosen}
        return {**variables, **{name: variables.get(name) or value for name, value in defaults.items()}}


def check_database(url: str) -> None:
    """Raises: StackError: it does not answer, or is no address; the password is not quoted."""
    try:
        connect(url).close()
    except DatabaseUnavailable as error:
        raise StackError(f"DATABASE_URL: {error}") from None
    except ConfigurationError as error:
        raise StackError(str(error)) from None


def as_role(url: str, role: str) -> str:
    """The same database, entered under another role without a password."""
    parameters = conninfo_to_dict(url, user=role)
    parameters.pop("password", None)
    return make_conninfo("", **parameters)
