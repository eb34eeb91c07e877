"""What a control process runs for its records: emission, and, where there is a bus, what stands behind it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from tracelake.control.bus.opening import open_bus
from tracelake.control.bus.postgres import PostgresBus
from tracelake.control.bus.relaying import Relaying
from tracelake.control.database.transactions import Database, Watch
from tracelake.control.emission.facts import Place
from tracelake.control.emission.service import Emission, Unhurried
from tracelake.control.emission.storing import RepositoryOf, into_repositories, onto_bus
from tracelake.settings import Settings
from tracelake_sdk.bus import EVENTS, Bus
from tracelake_sdk.records import MetadataContext
from tracelake_sdk.subscribers import RecordCounts, Subscriber, storing

_TIDY_SECONDS = 60.0


@dataclass(frozen=True)
class Loop:
    name: str
    run_once: Callable[[], int]
    pause: float


class RecordLoops:
    """The loops; the database must be open when they are asked for."""

    def __init__(self, settings: Settings, database: Database, repository_of: RepositoryOf, watch: Watch) -> None:
        self.counts: RecordCounts = RecordCounts()
        self.place: Place = Place(settings.records.cluster, settings.records.workspace)
        self._settings: Settings = settings
        self._database: Database = database
        self._repository_of: RepositoryOf = repository_of
        self._watch: Watch = watch
        self._bus: Bus | None = None
        self._subscribers: list[Subscriber] = []

    def start(self) -> list[Loop]:
        pause = self._settings.tasks.housekeeping_seconds
        bus = self._bus = open_bus(self._settings.bus, self._database)
        where = into_repositories(self._repository_of) if bus is None else onto_bus(bus)
        lease = timedelta(seconds=self._settings.tasks.lease_seconds)
        loops = [Loop("emission", Unhurried(Emission(self._database, where, self.place, lease=lease, watch=self._watch)).run_once, pause)]
        if bus is None:
            return loops
        # Their own offsets and their own threads: whichever fails stops none of the others.
        self._subscribers = [Subscriber(bus, EVENTS, "repository", storing(self._repository_of)), Subscriber(bus, EVENTS, "metrics", self.counts.handle)]
        loops += [Loop(f"bus {subscriber.name}", subscriber.run_once, pause) for subscriber in self._subscribers]
        loops.append(Loop("bus relay", Relaying(self._database, bus, self._repository_of, self._context_of).run_once, pause))
        if isinstance(bus, PostgresBus):
            loops.append(Loop("bus tidying", bus.run_once, _TIDY_SECONDS))
        return loops

    def set_aside(self) -> dict[str, int]:
        """How many messages each subscriber set aside since this process began."""
        return {subscriber.name: subscriber.set_aside for subscriber in self._subscribers}

    def stop(self) -> None:
        for subscriber in self._subscribers:
            subscriber.close()
        if self._bus is not None:
            self._bus.close()

    def _context_of(self, tenant: str) -> MetadataContext:
        return MetadataContext(cluster=self.place.cluster, workspace=self.place.workspace, tenant=tenant)
