"""A connection that is replaced when it is lost, for the loops of worker and scheduler."""

import logging
from collections.abc import Callable

import psycopg

from dilamme.domain.errors import DatabaseUnavailable
from dilamme.store.connection import Connection
from dilamme.store.faults import Remedy, remedy

logger = logging.getLogger("dilamme.database")


class Reconnecting:
    """The loop's connection. `attempt` runs a step on it; a lost connection is replaced before the next step.

    ``reconnected`` is called after each replacement: the reply to a COMMIT may have been lost with the old connection, so
    the loop must find out whether its last step was carried out.

    Which errors mean that is said in `dilamme.store.faults`.
    """

    def __init__(
        self,
        connection: Connection,
        reconnect: Callable[[], Connection],
        reconnected: Callable[[], None] = lambda: None,
    ) -> None:
        self.connection = connection
        self._reconnect = reconnect
        self._reconnected = reconnected

    def attempt(self, step: Callable[[], None], failed: str) -> bool:
        """Runs a step that talks to the database. False if it failed and can be tried again; ``failed`` is then logged.

        If the connection was lost, the step may have been carried out all the same.

        Raises:
            psycopg.Error: trying it again would not help.
        """
        try:
            if self.connection.closed:
                self.replace()
                self._reconnected()
            step()
        except (DatabaseUnavailable, psycopg.Error) as error:
            helps = Remedy.RECONNECT if isinstance(error, DatabaseUnavailable) else remedy(error)
            if helps not in (Remedy.RECONNECT, Remedy.REPEAT):
                raise
            logger.error(failed, extra={"error": str(error)})
            if helps is Remedy.RECONNECT:
                self.connection.close()
            return False
        return True

    def replace(self) -> None:
        """Opens a new connection.

        Raises:
            DatabaseUnavailable: PostgreSQL does not answer.
        """
        self.connection = self._reconnect()
