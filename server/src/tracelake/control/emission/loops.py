"""The record loops of a control process: emission, and with a bus its subscribers."""

from datetime import timedelta

from tracelake.control.bus.loops import BusLoops
from tracelake.control.database.transactions import Database, Watch
from tracelake.control.emission.facts import Installation
from tracelake.control.emission.service import Emission, ThrottledEmission
from tracelake.control.emission.storing import into_repositories, onto_bus
from tracelake.loops import Loop
from tracelake.settings import Settings
from tracelake_sdk.records.subscribers import RecordCounts, RepositoryOf


class RecordLoops:
    """Starts and stops the loops; the database must be open before `start`."""

    def __init__(self, settings: Settings, database: Database, repository_of: RepositoryOf, watch: Watch) -> None:
        self.installation: Installation = Installation(settings.records.cluster, settings.records.workspace)
        self._settings: Settings = settings
        self._database: Database = database
        self._repository_of: RepositoryOf = repository_of
        self._watch: Watch = watch
        self._behind_bus: BusLoops = BusLoops(settings, database, repository_of)

    @property
    def counts(self) -> RecordCounts:
        return self._behind_bus.counts

    def start(self) -> list[Loop]:
        behind_bus = self._behind_bus.start()
        bus = self._behind_bus.bus
        where = into_repositories(self._repository_of) if bus is None else onto_bus(bus)
        lease = timedelta(seconds=self._settings.tasks.lease_seconds)
        emission = ThrottledEmission(Emission(self._database, where, self.installation, lease=lease, watch=self._watch))
        return [Loop("emission", emission.run_once, pause=self._settings.tasks.housekeeping_seconds), *behind_bus]

    def set_aside(self) -> dict[str, int]:
        """How many messages each subscriber set aside since this process began."""
        return self._behind_bus.set_aside()

    def stop(self) -> None:
        self._behind_bus.stop()
