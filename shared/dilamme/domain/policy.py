"""The number of a job's attempts, the time of each, and the wait in between.

One rule decides each of them: the job's own value, else its type's, else the setting. `store/sql/job_types.sql` states it
in SQL, for the functions that know no handler.
"""

from dataclasses import dataclass
from typing import Protocol

from dilamme.domain.retry import Backoff


class Declared(Protocol):
    """A type's own values; None leaves it to the settings."""

    @property
    def timeout_seconds(self) -> float | None: ...
    @property
    def backoff_base_seconds(self) -> float | None: ...
    @property
    def backoff_cap_seconds(self) -> float | None: ...


@dataclass(frozen=True, slots=True)
class Policy:
    """The values for a job if neither it nor its type gives any."""

    max_attempts: int
    timeout_seconds: float
    backoff_base_seconds: float
    backoff_cap_seconds: float

    def attempts(self, declared: int | None) -> int:
        """The number of failed attempts after which a job is dead; ``declared`` is its own or its type's."""
        return self.max_attempts if declared is None else declared

    def timeout(self, declared: Declared) -> float:
        """The timeout of one attempt, in seconds."""
        return self.timeout_seconds if declared.timeout_seconds is None else declared.timeout_seconds

    def backoff(self, declared: Declared | None = None) -> Backoff:
        """The backoff of a type; without one, the settings'."""
        base = None if declared is None else declared.backoff_base_seconds
        cap = None if declared is None else declared.backoff_cap_seconds
        return Backoff(
            self.backoff_base_seconds if base is None else base, self.backoff_cap_seconds if cap is None else cap
        )
