"""A clock that a test moves: the database's only one, replaced for every process that looks at it."""

from datetime import UTC, datetime, timedelta

from dilamme.store.connection import Connection

START = datetime(2030, 1, 1, tzinfo=UTC)


class Clock:
    """Runs ``ahead`` of the real time by as much as it has been advanced; from `stop` on it stands still.

    As the real one it is STABLE: one value inside a statement, a new one in the next. It reads its table with its
    owner's rights, so that the functions' roles need none.
    """

    def __init__(self, connection: Connection, *, stopped_at: datetime | None = None) -> None:
        self._connection = connection
        self._start = self._stopped_at = stopped_at
        self.ahead = timedelta(0)
        connection.execute("CREATE TABLE public.moved_clock (stopped_at timestamptz, ahead interval NOT NULL)")
        connection.execute("INSERT INTO public.moved_clock VALUES (%s, '0')", (stopped_at,))
        connection.execute(
            "CREATE OR REPLACE FUNCTION dilamme.clock() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE SECURITY DEFINER"
            " AS 'SELECT coalesce(stopped_at, statement_timestamp()) + ahead FROM public.moved_clock'"
        )

    @property
    def now(self) -> datetime:
        """The time on it."""
        return (self._stopped_at or datetime.now(UTC)) + self.ahead

    def set(self, moment: datetime) -> None:
        """Moves it to a moment, forwards or back."""
        self._move(self.ahead + (moment - self.now))

    def advance(self, seconds: float = 0, *, minutes: float = 0, hours: float = 0, days: float = 0) -> None:
        """Moves it forwards."""
        self._move(self.ahead + timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds))

    def _move(self, ahead: timedelta) -> None:
        # Not as psycopg writes it, with days: PostgreSQL's days have 23 hours where clocks are put forward.
        microseconds = ahead // timedelta(microseconds=1)
        self._connection.execute("UPDATE public.moved_clock SET ahead = %s * interval '1 microsecond'", (microseconds,))
        self.ahead = ahead

    @property
    def seconds(self) -> float:
        """How far it has been moved."""
        return self.ahead.total_seconds()
