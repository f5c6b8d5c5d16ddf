"""The number of jobs that a worker claims next, and how far down the line it looks for them."""

from collections.abc import Sequence

from dilamme.domain.durations import Durations
from dilamme.domain.job import Claim

DEEP_JOBS_MIN = 100  # a full claim of so many shows short jobs and a deep backlog: a second connection pays
BATCH_CHARACTERS_MAX = 16_000_000  # of payloads in one claim: a worker's memory is small, and it holds three claims
REACH_MIN = 32
REACH_MAX = 10_000


class BatchSize:
    """The size of a worker's next claim, learnt from the durations of its jobs and from its last claims."""

    def __init__(self, durations: Durations, wait_seconds: float, jobs_max: int) -> None:
        self.limit = 0  # jobs that the next claim may take; until `fit`, that the last one might have taken
        self.deep = False  # the last claim took as many as it might, and they were many
        self._durations = durations
        self._wait_seconds = wait_seconds
        self._jobs_max = jobs_max
        self._limit_by_size = jobs_max
        self._extra = REACH_MIN

    @property
    def reach(self) -> int:
        """The number of jobs to look at: the limit, and some more in place of those that rivals hold locked."""
        return self.limit + self._extra

    @property
    def whole(self) -> bool:
        """Is the next claim as large as a claim may ever be? Then its jobs end long before they have waited too long."""
        return self.limit == self._jobs_max

    def fit(self, runners: int) -> None:
        """Fits the next claim to ``runners``: they must start its last job before it has waited too long."""
        self.limit = min(self._durations.batch_size(runners, self._wait_seconds, self._jobs_max), self._limit_by_size)

    def learn(self, claims: Sequence[Claim]) -> bool:
        """Learns from a claim; True if it took fewer jobs than it might have taken: all that were ready."""
        self.deep = len(claims) == self.limit >= DEEP_JOBS_MIN
        short = len(claims) < self.limit
        if claims:
            characters = sum([one.payload_characters for one in claims])
            if characters + characters // len(claims) > BATCH_CHARACTERS_MAX:
                short = False  # cut by its size: there may be more
            self._limit_by_size = max(1, BATCH_CHARACTERS_MAX * len(claims) // characters)
            self.limit = min(self.limit, self._limit_by_size)
            # A short claim in a deep backlog: rivals held the jobs that it looked at. Look further down, for a while.
            widen = short and self.limit >= DEEP_JOBS_MIN
            self._extra = min(REACH_MAX, self.limit) if widen else max(REACH_MIN, self._extra - REACH_MIN)
        return short

    def look_further(self) -> None:
        """Makes the next claim look further down the line: others hold the jobs that the last one looked at."""
        self._extra = min(REACH_MAX, self._extra * 4)
