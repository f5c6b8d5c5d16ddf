"""Every tunable: its unit in its name, its default, its bounds and its reason.

A setting is the environment variable ``DILAMME_<NAME>``. `load` reads them all at once: a wrong value stops a function
at its start, with one sentence, and not a job in the middle of the night. Unknown variables are logged.
"""

import logging
import os
from collections.abc import Mapping
from functools import cache
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from dilamme.domain.errors import ConfigurationError
from dilamme.domain.misspelt import nearest
from dilamme.domain.policy import Policy
from dilamme.domain.retry import SECONDS_MAX

PREFIX = "DILAMME_"

# Variables that the template, or a shell, sets and nobody tunes. `dilamme.aws.database` and `dilamme.aws.telemetry` read them, not
# `load`: a migration needs the database and its log even if a setting is wrong, since it must report that to CloudFormation.
PLACES: Mapping[str, str] = {
    "STACK": "The stack, a dimension of every metric; `local` without it.",
    "DATABASE_HOST": "Where the database is; `DATABASE_URL` goes before it and all that follow.",
    "DATABASE_PORT": "Its port.",
    "DATABASE_NAME": "The database's name on that server.",
    "DATABASE_USER": "The role that a function logs in as, by a token of IAM's.",
    "DATABASE_SECRET": "ARN of a secret to log in with instead.",
    "URL": "Where the command `dilamme` finds the API; the local stack without it.",
    "DATABASE": "The PostgreSQL that the command `dilamme` goes to, past the API.",
    "DATABASE_CERTIFICATES": "Who signs the server's certificate: `rds`, `system`, or the path of a PEM file.",
}

logger = logging.getLogger("dilamme.settings")

Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, le=SECONDS_MAX, allow_inf_nan=False)]


class Settings(BaseModel):
    """The settings of one process; frozen, validated, documented field by field."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    ageing_seconds: float = Field(
        30,
        ge=0,
        le=SECONDS_MAX,
        allow_inf_nan=False,
        description="Wait that raises a ready job by one priority; 0 turns ageing off.",
    )
    tick_seconds: Seconds = Field(1.0, description="The scheduler's beat.")
    leader_seconds: Seconds = Field(
        130, description="Longest life of a scheduler's loop: over two triggers, so that a late one leaves no gap."
    )
    leader_lease_seconds: Seconds = Field(
        5, description="A leader that has not ticked for this long may be replaced at once."
    )
    idle_exit: bool = Field(
        True,
        description="With nothing due before the next trigger the scheduler stops; whoever makes work due wakes it.",
    )
    idle_exit_seconds: Seconds = Field(3, description="How long it stays idle before it stops.")
    trigger_seconds: Seconds = Field(
        60, description="How often the scheduler function is triggered; set by the template."
    )
    worker_slots: Count = Field(10, le=1000, description="Workers that may run at once (`make run` sets 4).")
    worker_concurrency: Count = Field(4, le=64, description="Handlers a worker runs at once; 1 runs them inline.")
    # Not `Seconds`: pydantic would use that annotation's upper bound and ignore this one.
    worker_timeout_seconds: float = Field(300, gt=0, le=900, description="The worker function's own timeout.")
    worker_reserve_seconds: Seconds = Field(
        5, description="Kept back from the worker's time to settle what it ran; no handler runs into it."
    )
    batch_jobs_max: Count = Field(1000, le=5000, description="Most jobs that one claim takes.")
    batch_wait_seconds: Seconds = Field(
        1.0, description="Longest that a claimed job waits for a free handler before it is returned."
    )
    lease_margin_seconds: Seconds = Field(
        10, description="Added to the function's deadline: past it, a claim nobody answered for is free again."
    )
    event_age_seconds: Seconds = Field(
        60, description="Maximum age of an asynchronous event: an invited worker that has not come by then will not."
    )
    max_attempts: int = Field(3, ge=1, le=25, description="Claims before a job is dead, unless its type or it says.")
    job_timeout_seconds: Seconds = Field(60, description="A handler's time, unless its type says.")
    backoff_base_seconds: Seconds = Field(10, description="Backoff after the first failure; it doubles.")
    backoff_cap_seconds: Seconds = Field(3600, description="Backoff never exceeds this.")
    unknown_type_delay_seconds: Seconds = Field(
        30, description="How much later a job is tried again whose type no worker knows."
    )
    unknown_type_grace_seconds: Seconds = Field(
        3600, description="How long a job of an unknown type is kept for a deployment that knows it, before it is dead."
    )
    completed_retention_seconds: Seconds = Field(
        7 * 86400, description="Completed and cancelled jobs are kept this long."
    )
    dead_retention_seconds: Seconds = Field(30 * 86400, description="Dead jobs are kept this long.")
    check_payloads: bool = Field(
        True,
        description="Whether a job is refused whose payload does not fit the schema that its type's workers published.",
    )
    demo_jobs: bool = Field(False, description="Registers the demo.* handlers (`make run` sets it).")
    log_jobs: bool = Field(False, description="A line of the log for each job that ends (`make run` sets it).")
    worker_function: str = Field("", description="Name of the worker function; set by the deployment.")
    scheduler_function: str = Field("", description="Name of the scheduler function; set by the deployment.")
    dead_letter_queue_url: str = Field("", description="SQS queue for dead letters; set by the deployment.")

    @model_validator(mode="after")
    def _fits(self) -> "Settings":
        room = self.worker_timeout_seconds - self.worker_reserve_seconds
        if self.job_timeout_seconds > room:
            raise ValueError(
                f"{PREFIX}JOB_TIMEOUT_SECONDS is {self.job_timeout_seconds:g}, but a worker that ends after "
                f"{PREFIX}WORKER_TIMEOUT_SECONDS ({self.worker_timeout_seconds:g}) less "
                f"{PREFIX}WORKER_RESERVE_SECONDS ({self.worker_reserve_seconds:g}) has {room:g} s: lower the one or raise the other"
            )
        return self

    @property
    def policy(self) -> Policy:
        """The attempts, timeout and backoff of a job if neither it nor its type gives any."""
        return Policy(self.max_attempts, self.job_timeout_seconds, self.backoff_base_seconds, self.backoff_cap_seconds)

    @property
    def invitation_seconds(self) -> float:
        """The time for which a slot or the lead is reserved for an invoked function: its event's maximum age, and a margin."""
        return self.event_age_seconds + self.lease_margin_seconds

    @property
    def watch_seconds(self) -> float:
        """The time ahead in which an idle scheduler looks for work: until the next trigger, which may be late."""
        return self.trigger_seconds + self.lease_margin_seconds

    @property
    def job_timeout_seconds_max(self) -> float:
        """The longest timeout that a job type may ask for, in seconds."""
        return self.worker_timeout_seconds - self.worker_reserve_seconds


def read(environment: Mapping[str, str]) -> Settings:
    """The settings that ``environment`` gives. Unknown variables with our prefix are logged as warnings.

    Raises:
        ConfigurationError: a value cannot work; the message names each such variable, its value and the fault.
    """
    for sentence in unknown_variables(environment):
        logger.warning(sentence)
    values = {
        name: environment[variable]
        for name in Settings.model_fields
        if environment.get(variable := PREFIX + name.upper())
    }
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        sentences = []
        for fault in error.errors():
            message = fault["msg"].removeprefix("Value error, ")
            if fault["loc"]:  # else it is the validator's, whose message names the variables itself
                variable = PREFIX + str(fault["loc"][0]).upper()
                message = f"{variable} is {fault['input']!r}: {message[0].lower()}{message[1:]}"
            sentences.append(message)
        raise ConfigurationError("; ".join(sentences)) from None


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """A sentence for each variable with our prefix that nothing reads, with the name that was probably meant."""
    known = [PREFIX + name.upper() for name in (*Settings.model_fields, *PLACES)]
    unknown = [name for name, value in environment.items() if name.startswith(PREFIX) and value and name not in known]
    sentences = []
    for name in sorted(unknown):
        # Without the prefix, which would make any two names alike.
        names = [other.removeprefix(PREFIX) for other in known]
        near = nearest(name.removeprefix(PREFIX), names)
        meant = f": did you mean {PREFIX}{near}?" if near else ""
        sentences.append(f"{name} is no setting of Dilamme, and nothing reads it{meant}")
    return sentences


@cache
def load() -> Settings:
    """The settings of this process, read once from its environment."""
    return read(os.environ)
