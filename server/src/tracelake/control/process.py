"""One control process: the HTTP interface and its housekeeping. Any number of them run side by side, without a leader."""

from collections.abc import Iterable
from datetime import timedelta
from uuid import UUID

from tracelake.chaos import watch_for
from tracelake.control.access.administration import AccessAdministration
from tracelake.control.access.orgs import Orgs
from tracelake.control.access.service import Access
from tracelake.control.access.signed_tokens import issuers_of
from tracelake.control.api.app import create_app
from tracelake.control.api.context import Services
from tracelake.control.cold.reading import ColdRecords
from tracelake.control.commits.building import build_committer
from tracelake.control.commits.movers import Movers
from tracelake.control.commits.service import Committer
from tracelake.control.compaction.building import LOOK_SECONDS, build_compactor
from tracelake.control.compaction.service import Compactor
from tracelake.control.dags.granting import Granting
from tracelake.control.dags.record_visibility import RegistryVisibility
from tracelake.control.database import migrations
from tracelake.control.database.readiness import Readiness
from tracelake.control.database.transactions import Database, Watch, no_watch
from tracelake.control.database.wakeups import WakeUps
from tracelake.control.deploys.service import Deploys
from tracelake.control.emission.loops import RecordLoops
from tracelake.control.events.accounting import PAUSE_SECONDS, Accounting
from tracelake.control.explain.service import Explaining
from tracelake.control.first_start import add_org_defaults, make_missing
from tracelake.control.locations.service import Locations
from tracelake.control.outbox.building import build_drainer
from tracelake.control.outbox.service import Drainer
from tracelake.control.promotion.service import RulesAndPolicies
from tracelake.control.queries.forwarding import Forwarding
from tracelake.control.queries.pins import Pins
from tracelake.control.queries.receipts import Receipts
from tracelake.control.queries.saving import SavedQueryService
from tracelake.control.records.authorization import AuthorizedRecords
from tracelake.control.records.repositories import RecordRepositories
from tracelake.control.records.service import Records
from tracelake.control.records.tails import RECORDS_STORED, Tails
from tracelake.control.registry.read_roles import ReadRoleService
from tracelake.control.registry.snapshots import SnapshotService
from tracelake.control.serving import HttpServer, settle
from tracelake.control.tasks.building import TaskBuilder, TaskServices
from tracelake.control.tasks.claims.long_polls import WaitingRoom
from tracelake.control.tasks.finishing import TASK_FINAL
from tracelake.control.tasks.sweeping import Sweeper
from tracelake.logging_setup import configure_logging
from tracelake.loops import Loop, Loops
from tracelake.settings import Settings
from tracelake.storage.contract import Storage
from tracelake.storage.opening import open_storage
from tracelake.storage.private_places import PrivatePlaces, private_places
from tracelake_sdk.errors import SettingInvalid

_MOVERS = 4           # lines that one process moves at once; on object storage most of it is waiting
_SWEEP_SECONDS = 60.0


class Control:
    """The services of one process over one database; `start` begins its background loops, `stop` ends them."""

    def __init__(self, settings: Settings, *, watch: Watch = no_watch) -> None:
        url = settings.database.url
        if url is None:
            raise SettingInvalid("TRACELAKE_DATABASE_URL: set it to the service's role on the state database, or start everything with `tracelaked up`.")
        self.settings: Settings = settings
        self.database: Database = Database(url.get_secret_value(), size=settings.database.pool_size, watch=watch)
        self.storage: Storage = open_storage(settings, watch)
        self._private: PrivatePlaces = private_places(settings)
        self.waiting: WaitingRoom = WaitingRoom()
        self.wakeups: WakeUps = WakeUps(url.get_secret_value(), self._on_wake_up)
        self.loops: Loops = Loops()
        self.tails: Tails = Tails(self.database, most=settings.records.max_tails)
        self.records: Records = Records(self.database, self._stored, cold=ColdRecords(self.storage))
        self.compactor: Compactor = build_compactor(settings, self.database, self.storage, watch)
        self.record_repositories: RecordRepositories = RecordRepositories(self.records, settings.records.url, settings.records.token)
        self.record_loops: RecordLoops = RecordLoops(settings, self.database, self.record_repositories.repository_of, watch)
        tasks = TaskBuilder(settings, self.database, self._wake, self.waiting)
        self.committer: Committer = build_committer(self.database, self.storage, tasks.recording().record, watch)
        self.movers: Movers = Movers(self.committer, threads=_MOVERS, look_seconds=settings.tasks.housekeeping_seconds, after_move=self._place_waiting)
        self.services: Services = self._services(tasks.services(self.movers.notify))
        self.sweeper: Sweeper = tasks.sweeper(self.storage, watch)
        self.drainer: Drainer | None = build_drainer(self.database, settings.webhook, TASK_FINAL, watch)

    def start(self) -> None:
        """Refuses a database that lacks a migration; on the very first start creates the org, its admin and its worker."""
        settings = self.settings
        migrations.check(self.database.url)
        self.database.__enter__()
        make_missing(self.database, settings, self._private)
        self.wakeups.start()
        self.tails.start()
        self.movers.start()
        self.loops.add([*self.wakeups.loops, self.tails.loop, *self.movers.loops])
        self._loop(Loop("housekeeping", self._keep_house, pause=settings.tasks.housekeeping_seconds))
        self._loop(Loop("accounting", Accounting(self.database).run_once, pause=PAUSE_SECONDS))
        self._loop(Loop("sweep", self.sweeper.run_once, pause=_SWEEP_SECONDS))
        self._loop(Loop("compaction", self.compactor.run_once, pause=LOOK_SECONDS))
        self._loop(Loop("pins", self.services.pins.run_once, pause=settings.query.lease_seconds / 2))
        for loop in self.record_loops.start():
            self._loop(loop)
        if self.drainer is not None:
            self._loop(Loop("outbox", self.drainer.run_once, pause=settings.tasks.housekeeping_seconds))

    def stop(self) -> None:
        self.waiting.close()
        self.movers.stop()
        self.wakeups.stop()
        self.tails.stop()
        self.loops.stop()
        self.record_loops.stop()
        self.record_repositories.close()
        self.services.forwarding.close()
        self.database.__exit__()

    def _services(self, tasks: TaskServices) -> Services:
        settings, database = self.settings, self.database
        return Services(
            database=database,
            access=Access(database, issuers_of(settings.access)),
            administration=AccessAdministration(database),
            orgs=Orgs(database, add_org_defaults),
            granting=Granting(database),
            reading=ReadRoleService(database),
            locations=Locations(database, self._private),
            snapshots=SnapshotService(database),
            deploys=Deploys(database, self._wake),
            tasks=tasks,
            explaining=Explaining(database, self.storage.uri),
            guard=RulesAndPolicies(database),
            pins=Pins(database, timedelta(seconds=settings.query.lease_seconds)),
            receipts=Receipts(database),
            saved_queries=SavedQueryService(database),
            forwarding=Forwarding(settings.query.url, longest=settings.query.max_seconds + settings.query.patience_seconds),
            records=AuthorizedRecords(self.records, RegistryVisibility(), elsewhere=self.record_repositories.elsewhere),
            tails=self.tails,
            record_loops=self.record_loops,
            readiness=Readiness(database, self.loops),
        )

    def _wake(self, pool_ids: Iterable[UUID]) -> None:
        self.wakeups.send(str(pool) for pool in pool_ids)

    def _stored(self, org: UUID) -> None:
        self.wakeups.send([RECORDS_STORED])

    def _on_wake_up(self, topic: str) -> None:
        if topic == RECORDS_STORED:
            self.tails.ring()
        else:
            self.waiting.wake(UUID(topic))

    def _place_waiting(self) -> int:
        return self.services.tasks.reaper.place_waiting()

    def _keep_house(self) -> int:
        self.waiting.wake_each_pool()
        return self.services.tasks.reaper.run_once()

    def _loop(self, loop: Loop) -> None:
        self.loops.start(loop)


class ControlServer(HttpServer):
    """A control process's services behind a socket; when it stops, it answers waiting polls and closes streams first."""

    def __init__(self, control: Control) -> None:
        api = control.settings.api
        super().__init__(create_app(control.services, api), api)
        self._control: Control = control

    def stop(self) -> None:
        self._control.waiting.close()
        self._control.tails.close()
        super().stop()


def run(settings: Settings) -> None:
    """Serves until a signal stops it."""
    configure_logging()
    control = Control(settings, watch=watch_for(settings.chaos.kill_at))
    control.start()
    server = ControlServer(control)
    settle()
    try:
        server.run()
    finally:
        control.stop()
