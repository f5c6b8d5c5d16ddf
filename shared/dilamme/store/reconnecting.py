"""A connection that is replaced when it is lost, for the loops of worker and scheduler."""

import logging
from collections.abc import Callable

import psycopg

from dilamme.domain.errors import DatabaseUnavailable
from dilamme.store.connection import Connection

logger = logging.getLogger("dilamme.database")


class Reconnecting:
    """The loop's connection. `attempt` runs a step on it; a lost connection is replaced before the next step.

    ``reconnected`` is called after each replacement: the reply to a COMMIT may have been lost with the old connection, so
    the loop must find out whether its last step was carried out.

    A session that takes no writes is a lost one: after a failover it stays so for ever, while a new one may write.
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
        """Runs a step that talks to the database. False if the connection was lost; ``failed`` is then logged.

        The step may have been carried out all the same.
        """
        try:
            if self.connection.closed:
                self.replace()
                self._reconnected()
            step()
        except (DatabaseUnavailable, psycopg.OperationalError, psycopg.errors.ReadOnlySqlTransaction) as error:
            logger.error(failed, extra={"error": str(error)})
            self.connection.close()
            return False
        return True

    def replace(self) -> None:
        """Opens a new connection.

        Raises:
            DatabaseUnavailable: PostgreSQL does not answer.
        """
        self.connection = self._reconnect()
