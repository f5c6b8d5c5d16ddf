"""A clock that a test moves: the database's only one, replaced for every process that looks at it."""

from datetime import UTC, datetime, timedelta

from dilamme.store.connection import Connection

START = datetime(2030, 1, 1, tzinfo=UTC)


class Clock:
    """Stands at `START` until it is moved.

    As the real one it is STABLE: one value inside a statement, a new one in the next. It reads its table with its
    owner's rights, so that the functions' roles need none.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.now = START
        connection.execute("CREATE TABLE public.moved_clock (moment timestamptz NOT NULL)")
        connection.execute("INSERT INTO public.moved_clock VALUES (%s)", (START,))
        connection.execute(
            "CREATE OR REPLACE FUNCTION dilamme.clock() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE"
            " SECURITY DEFINER AS 'SELECT moment FROM public.moved_clock'"
        )

    def set(self, moment: datetime) -> None:
        self._connection.execute("UPDATE public.moved_clock SET moment = %s", (moment,))
        self.now = moment

    def advance(self, seconds: float) -> None:
        self.set(self.now + timedelta(seconds=seconds))

    @property
    def seconds(self) -> float:
        """How far it has been moved."""
        return (self.now - START).total_seconds()
