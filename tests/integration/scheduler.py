"""A leader whose beat is the test's."""

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

from dilamme.scheduler.tick import Dispatch, Leader, tick
from dilamme.settings import Settings
from dilamme.store import lease, slots
from dilamme.store.connection import Connection


class Scheduler:
    """Leads from the beginning, with as many slots as the settings say."""

    def __init__(self, connection: Connection, settings: Settings) -> None:
        self._connection = connection
        self._executor = ThreadPoolExecutor(max_workers=4)
        self.settings = settings
        slots.provide_slots(connection, settings.worker_slots)
        owner = uuid4()
        self.leader = Leader(owner, lease.take_lead(connection, owner, settings.leader_lease_seconds))

    def tick(self) -> Dispatch | None:
        return tick(self._connection, self.settings, self.leader, self._executor)

    def close(self) -> None:
        self._executor.shutdown()
