"""The database's step of a deployment: enough connections, and the schema up to date."""

from dilamme.domain.errors import ConfigurationError
from dilamme.settings import Settings
from dilamme.store import schema, stats
from dilamme.store.connection import Connection
from dilamme.usecases.migrate import Migrated, check, migrate

SCHEDULERS = 2  # the leader and its successor
RESCUES = 5  # Lambda retries any more at once, and the leases free their jobs in the end
MIGRATORS = 1


def connections_needed(worker_slots: int, api_concurrency: int) -> int:
    """The largest number of connections that the functions open at once.

    Each process has one. The number is doubled, since after an upgrade the frozen processes of the old version keep theirs
    for a while. There is one worker more than slots, since a doubled event starts one that finds no slot and leaves. Each
    worker in a slot may prefetch on a second connection, which it closes when it leaves.
    """
    return 2 * (worker_slots + 1 + SCHEDULERS + RESCUES + api_concurrency) + worker_slots + MIGRATORS


def check_connections(connection: Connection, worker_slots: int, api_concurrency: int) -> None:
    """Refuses a deployment whose functions may need more connections than the server gives.

    Raises:
        ConfigurationError: they may. The message gives the figures and the remedy.
    """
    needed = connections_needed(worker_slots, api_concurrency)
    limits = stats.connection_limits(connection)
    if needed > limits.usable:
        raise ConfigurationError(
            f"WorkerSlots {worker_slots} and ApiConcurrency {api_concurrency} may need {needed} database connections, and the "
            f"server gives {limits.usable} (max_connections {limits.max_connections} less {limits.reserved} reserved): "
            "lower WorkerSlots or ApiConcurrency, choose a larger DatabaseClass, or put a pooler in front"
        )


def deploy(connection: Connection, settings: Settings, api_concurrency: int | None) -> Migrated:
    """Checks the connections, unless ``api_concurrency`` is None (a pooler stands in front), and migrates.

    A schema that is newer than this code and compatible with it stays: an older version is being deployed again.

    Raises:
        ConfigurationError: `check_connections`.
        SchemaError: as `dilamme.usecases.migrate.migrate`; or the schema is newer and not compatible with this code.
    """
    if api_concurrency is not None:
        check_connections(connection, settings.worker_slots, api_concurrency)
    applied = schema.applied(connection)
    if applied and applied[-1].version > schema.known_version():
        check(connection)
        return Migrated([], applied[-1].version, schema.may_create_roles(connection))
    return migrate(connection, settings)
