"""The bus loops of a process that stores records: the repository and the counts as subscribers, and the relay that publishes stored records."""

from tracelake.control.bus.opening import open_bus
from tracelake.control.bus.postgres import PostgresBus
from tracelake.control.bus.relay import Relay
from tracelake.control.database.transactions import Database
from tracelake.loops import Loop
from tracelake.settings import Settings
from tracelake_sdk.records import MetadataContext
from tracelake_sdk.records.bus import EVENTS, Bus
from tracelake_sdk.records.subscribers import RecordCounts, RepositoryOf, Subscriber, storing

_TIDY_SECONDS = 60.0


class BusLoops:
    """Does nothing if the settings configure no bus; the database must be open before `start`."""

    def __init__(self, settings: Settings, database: Database, repository_of: RepositoryOf) -> None:
        self.counts: RecordCounts = RecordCounts()
        self.bus: Bus | None = None
        self._settings: Settings = settings
        self._database: Database = database
        self._repository_of: RepositoryOf = repository_of
        self._subscribers: list[Subscriber] = []

    def start(self) -> list[Loop]:
        pause = self._settings.tasks.housekeeping_seconds
        bus = self.bus = open_bus(self._settings.bus, self._database)
        if bus is None:
            return []
        # Each has its own offset and thread: a failure of one does not stop the others.
        self._subscribers = [Subscriber(bus, EVENTS, "repository", storing(self._repository_of)), Subscriber(bus, EVENTS, "metrics", self.counts.handle)]
        loops = [Loop(f"bus {subscriber.name}", subscriber.run_once, pause=pause) for subscriber in self._subscribers]
        loops.append(Loop("bus relay", Relay(self._database, bus, self._repository_of, self._context_of).run_once, pause=pause))
        if isinstance(bus, PostgresBus):
            loops.append(Loop("bus tidying", bus.run_once, pause=_TIDY_SECONDS))
        return loops

    def set_aside(self) -> dict[str, int]:
        """How many messages each subscriber set aside since this process began."""
        return {subscriber.name: subscriber.set_aside for subscriber in self._subscribers}

    def stop(self) -> None:
        for subscriber in self._subscribers:
            subscriber.close()
        if self.bus is not None:
            self.bus.close()

    def _context_of(self, tenant: str) -> MetadataContext:
        return MetadataContext(cluster=self._settings.records.cluster, workspace=self._settings.records.workspace, tenant=tenant)
