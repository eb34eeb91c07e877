"""One control process: the HTTP interface and its housekeeping. Any number of them run side by side; none leads."""

from collections.abc import Iterable
from datetime import timedelta
from uuid import UUID

import structlog

from tracelake.chaos import watch_for
from tracelake.control.access.administration import Administration, ensure_reserved_roles
from tracelake.control.access.orgs import Orgs
from tracelake.control.access.service import Access, ensure_query_token, first_start
from tracelake.control.access.signed_tokens import issuers_of
from tracelake.control.api.app import create_app
from tracelake.control.api.context import Services
from tracelake.control.cold.reading import ColdRecords
from tracelake.control.commits.checkpoints import CHECKPOINT_EVERY, checkpoint
from tracelake.control.commits.movers import Movers
from tracelake.control.commits.service import Commits, Committer
from tracelake.control.commits.store import FrozenEntry
from tracelake.control.compaction.building import LOOK_SECONDS, build_compactor
from tracelake.control.compaction.service import Compactor
from tracelake.control.dags.granting import Granting
from tracelake.control.dags.record_sight import RegisteredSight
from tracelake.control.database import migrations
from tracelake.control.database.readiness import Readiness
from tracelake.control.database.transactions import Database, Role, Transaction, Watch, nobody_watches
from tracelake.control.database.wakeups import WakeUps
from tracelake.control.deploys.service import Deploys
from tracelake.control.emission.loops import RecordLoops
from tracelake.control.events.accounting import PAUSE_SECONDS, Accounting
from tracelake.control.explain.service import Explaining
from tracelake.control.locations.first_definitions import define_missing
from tracelake.control.locations.service import Locations
from tracelake.control.outbox.service import Drainer
from tracelake.control.outbox.webhook import Webhook
from tracelake.control.pools import store as pools
from tracelake.control.promotion.service import Guard, ensure_default_policies
from tracelake.control.queries.forwarding import Forwarding
from tracelake.control.queries.pins import Pins
from tracelake.control.queries.receipts import Receipts
from tracelake.control.queries.saving import SavedQueries
from tracelake.control.records.desk import RecordDesk
from tracelake.control.records.keeping import RecordKeeping
from tracelake.control.records.service import Records
from tracelake.control.records.tails import RECORDS_STORED, Tails
from tracelake.control.registry.read_roles import Reading
from tracelake.control.registry.snapshots import Snapshots
from tracelake.control.serving import HttpServer, settle
from tracelake.control.tasks.asking import Asking
from tracelake.control.tasks.barring import Barring
from tracelake.control.tasks.canceling import Cancels
from tracelake.control.tasks.claiming import Claims
from tracelake.control.tasks.completing import Completions
from tracelake.control.tasks.finishing import TASK_FINAL, Finisher
from tracelake.control.tasks.heartbeats import Heartbeats
from tracelake.control.tasks.joining import Joining
from tracelake.control.tasks.judgement import Backoff
from tracelake.control.tasks.pausing import Pauses
from tracelake.control.tasks.posting import Posting
from tracelake.control.tasks.reaping import Reaper
from tracelake.control.tasks.recording import Recording
from tracelake.control.tasks.requesting import Requests
from tracelake.control.tasks.routing import Routes
from tracelake.control.tasks.sweeping import Sweeper
from tracelake.control.tasks.unchanged import Unchanging
from tracelake.control.tasks.waiting import WaitingRoom
from tracelake.logging_setup import configure_logging
from tracelake.loops import Loop, Loops
from tracelake.settings import Settings
from tracelake.storage.contract import Storage
from tracelake.storage.opening import open_storage
from tracelake.storage.paths import table_location
from tracelake.storage.private_places import PrivatePlaces, private_places
from tracelake_sdk.dags import DEFAULT_POOL
from tracelake_sdk.dags.operators import OPERATORS
from tracelake_sdk.errors import SettingInvalid

_log = structlog.get_logger()

_MOVERS = 4           # lines that one process moves at once; on object storage most of it is waiting
_SWEEP_SECONDS = 60.0


class Control:
    """The services of one process over one database; `start` begins its background loops, `stop` ends them."""

    def __init__(self, settings: Settings, *, watch: Watch = nobody_watches) -> None:
        url = settings.database.url
        if url is None:
            raise SettingInvalid("TRACELAKE_DATABASE_URL: set it to the service's role on the state database, or start everything with `tracelaked up`.")
        self.settings: Settings = settings
        self.database: Database = Database(url.get_secret_value(), size=settings.database.pool_size, watch=watch)
        self.storage: Storage = open_storage(settings, watch)
        self._private: PrivatePlaces = private_places(settings)
        self.waiting: WaitingRoom = WaitingRoom()
        self.wakeups: WakeUps = WakeUps(url.get_secret_value(), self._heard)
        self.loops: Loops = Loops()
        self._routes: Routes = Routes()
        self.tails: Tails = Tails(self.database, most=settings.records.max_tails)
        self.records: Records = Records(self.database, self._stored, cold=ColdRecords(self.storage))
        self.compactor: Compactor = build_compactor(settings, self.database, self.storage, watch)
        self.keeping: RecordKeeping = RecordKeeping(self.records, settings.records.url, settings.records.token)
        self.record_loops: RecordLoops = RecordLoops(settings, self.database, self.keeping.repository_of, watch)
        self._finisher: Finisher = Finisher(tells_webhook=settings.webhook.url is not None)
        self.committer: Committer = self._committer(watch)
        self.movers: Movers = Movers(self.committer, threads=_MOVERS, look_seconds=settings.tasks.housekeeping_seconds, after_move=self._place_waiting)
        self.services: Services = self._services()
        self.sweeper: Sweeper = Sweeper(self.database, self.storage, timedelta(seconds=settings.storage.staging_retention_seconds), watch)
        self.drainer: Drainer | None = self._drainer(watch)

    def start(self) -> None:
        """Refuses a database that lacks a migration; on the very first start makes the org, its admin and its worker."""
        settings = self.settings
        migrations.check(self.database.url)
        self.database.__enter__()
        access = settings.access
        with self.database.transaction("first_start", role=Role.DEFINE) as tx:
            made = first_start(tx, settings.home, org=access.org, admin_issuer=access.admin_issuer, admin_subject=access.admin_subject)
            orgs = pools.orgs(tx)
            ensure_query_token(tx, settings.home, org=orgs[0])
            for org in orgs:
                ensure_reserved_roles(tx, org)
                _furnish(tx, org)
            define_missing(tx, orgs[0], settings.locations, self._private)
        if made:
            _log.info("first start: an org, its admin and its worker were created", org=access.org)
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
        self.keeping.close()
        self.services.forwarding.close()
        self.database.__exit__()

    def _services(self) -> Services:
        settings, database = self.settings, self.database
        lease = timedelta(seconds=settings.tasks.lease_seconds)
        backoff = Backoff(timedelta(seconds=settings.tasks.backoff_seconds), timedelta(seconds=settings.tasks.max_backoff_seconds))
        finisher = self._finisher
        max_unrecorded = settings.storage.max_unrecorded
        completions = Completions(database, self._wake, backoff, finisher, self.movers.told, self._routes)
        issuers = issuers_of(settings.access)
        return Services(
            database=database,
            access=Access(database, issuers),
            administration=Administration(database),
            orgs=Orgs(database, _furnish),
            granting=Granting(database),
            reading=Reading(database),
            locations=Locations(database, self._private),
            snapshots=Snapshots(database),
            deploys=Deploys(database, self._wake),
            requests=Requests(database, self._wake),
            claims=Claims(database, self.waiting, lease, Unchanging(database, self._wake, finisher).end, Barring(database, self._wake, finisher).end, max_unrecorded, routes=self._routes),
            completions=completions,
            joining=Joining(completions.complete, self._routes.line_of),
            posting=Posting(database, self._wake),
            heartbeats=Heartbeats(database, lease),
            cancels=Cancels(database, self._wake, finisher),
            pauses=Pauses(database, self._wake),
            asking=Asking(database),
            explaining=Explaining(database, self.storage.uri),
            guard=Guard(database),
            pins=Pins(database, timedelta(seconds=settings.query.lease_seconds)),
            receipts=Receipts(database),
            saved_queries=SavedQueries(database),
            forwarding=Forwarding(settings.query.url, longest=settings.query.max_seconds + settings.query.patience_seconds),
            reaper=Reaper(database, self._wake, lease, backoff, finisher, max_unrecorded),
            waiting=self.waiting,
            desk=RecordDesk(self.records, RegisteredSight(), elsewhere=self.keeping.elsewhere),
            tails=self.tails,
            record_loops=self.record_loops,
            readiness=Readiness(database, self.loops),
        )

    def _committer(self, watch: Watch) -> Committer:
        def checkpoint_now_and_then(frozen: FrozenEntry) -> None:
            if frozen.delta_version and frozen.delta_version % CHECKPOINT_EVERY == 0:
                checkpoint(self.storage, table_location(frozen.org_id, frozen.dataset_id, frozen.dataset_version_id), frozen.delta_version, watch)

        recording = Recording(self.database, self._wake, self._finisher, self._routes)
        return Committer(Commits(self.database, self.storage), recording.record, checkpoint_now_and_then)

    def _drainer(self, watch: Watch) -> Drainer | None:
        webhook = self.settings.webhook
        if webhook.url is None:
            return None
        secret = webhook.secret.get_secret_value() if webhook.secret else None
        sender = Webhook(webhook.url, secret, webhook.timeout_seconds, webhook.allow_private_addresses)
        return Drainer(self.database, {TASK_FINAL: sender}, longest_send=timedelta(seconds=webhook.timeout_seconds), watch=watch)

    def _wake(self, pool_ids: Iterable[UUID]) -> None:
        self.wakeups.send(str(pool) for pool in pool_ids)

    def _stored(self, org: UUID) -> None:
        self.wakeups.send([RECORDS_STORED])

    def _heard(self, topic: str) -> None:
        if topic == RECORDS_STORED:
            self.tails.ring()
        else:
            self.waiting.wake(UUID(topic))

    def _place_waiting(self) -> int:
        return self.services.reaper.place_waiting()

    def _keep_house(self) -> int:
        self.waiting.wake_each_pool()
        return self.services.reaper.run_once()

    def _loop(self, loop: Loop) -> None:
        self.loops.start(loop)


def _furnish(tx: Transaction, org: UUID) -> None:
    """What every org has from its start, beside its roles."""
    ensure_default_policies(tx, org=org, actor="first start")
    for runtime in sorted({runtime for runtime, _ in OPERATORS}):
        pools.ensure(tx, org=org, runtime=runtime, name=DEFAULT_POOL)


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
    """Serves until it is asked to stop."""
    configure_logging()
    control = Control(settings, watch=watch_for(settings.chaos.kill_at))
    control.start()
    server = ControlServer(control)
    settle()
    try:
        server.run()
    finally:
        control.stop()
