"""The standalone records service: metadata records and kinds, with its own database and tokens, and no other tables."""


import structlog

from tracelake.chaos import watch_for
from tracelake.control.access.administration import AccessAdministration
from tracelake.control.access.orgs import Orgs
from tracelake.control.access.service import Access, first_start
from tracelake.control.access.signed_tokens import issuers_of
from tracelake.control.api.app import create_records_app
from tracelake.control.api.context import RecordServices
from tracelake.control.bus.loops import BusLoops
from tracelake.control.cold.reading import ColdRecords
from tracelake.control.compaction.building import LOOK_SECONDS, build_compactor
from tracelake.control.compaction.service import Compactor
from tracelake.control.database import migrations
from tracelake.control.database.readiness import Readiness
from tracelake.control.database.transactions import Database, DatabaseRole, Watch, no_watch
from tracelake.control.database.wakeups import WakeUps
from tracelake.control.records.authorization import AuthorizedRecords
from tracelake.control.records.repositories import RecordRepositories
from tracelake.control.records.service import Records
from tracelake.control.records.tails import RECORDS_STORED, Tails
from tracelake.control.serving import HttpServer, settle
from tracelake.logging_setup import configure_logging
from tracelake.loops import Loop, Loops
from tracelake.settings import Settings
from tracelake.storage.opening import open_storage
from tracelake_sdk.errors import SettingInvalid

SETS = (migrations.CORE, migrations.RECORDS)
_log = structlog.get_logger()


class RecordsProcess:
    """The services of one such process; `start` begins its background loops, `stop` ends them."""

    def __init__(self, settings: Settings, *, watch: Watch = no_watch) -> None:
        url = settings.database.url
        if url is None:
            raise SettingInvalid("TRACELAKE_DATABASE_URL: set it to the service's role on its own database; `tracelaked migrate --for records` prepares it.")
        if settings.records.url is not None:
            raise SettingInvalid("TRACELAKE__RECORDS__URL: the records service stores its records in its own database; unset it")
        self.settings: Settings = settings
        self.database: Database = Database(url.get_secret_value(), size=settings.database.pool_size, watch=watch)
        self.tails: Tails = Tails(self.database, most=settings.records.max_tails)
        self.wakeups: WakeUps = WakeUps(url.get_secret_value(), lambda topic: self.tails.ring())
        issuers = issuers_of(settings.access)
        storage = open_storage(settings, watch)
        self.compactor: Compactor = build_compactor(settings, self.database, storage, watch)
        records = Records(self.database, lambda org: self.wakeups.send([RECORDS_STORED]), cold=ColdRecords(storage))
        self._bus_loops: BusLoops = BusLoops(settings, self.database, RecordRepositories(records).repository_of)
        self.loops: Loops = Loops()
        self.services: RecordServices = RecordServices(
            self.database, Access(self.database, issuers), AccessAdministration(self.database), Orgs(self.database, lambda tx, org: None), AuthorizedRecords(records), self.tails,
            Readiness(self.database, self.loops, SETS),
        )  # fmt: skip

    def start(self) -> None:
        """Refuses a database that lacks a migration; on the very first start creates the org and its admin."""
        migrations.check(self.database.url, sets=SETS)
        self.database.__enter__()
        access = self.settings.access
        with self.database.transaction("first_start", role=DatabaseRole.DEFINE) as tx:
            made = first_start(tx, self.settings.home, org=access.org, admin_issuer=access.admin_issuer, admin_subject=access.admin_subject)
        if made:
            _log.info("first start: an org and its admin were created", org=access.org)
        self.wakeups.start()
        self.tails.start()
        self.loops.add([*self.wakeups.loops, self.tails.loop])
        self.loops.start(Loop("compaction", self.compactor.run_once, pause=LOOK_SECONDS))
        for loop in self._bus_loops.start():
            self.loops.start(loop)

    def stop(self) -> None:
        self.tails.stop()
        self.wakeups.stop()
        self.loops.stop()  # a running compaction ends with this process; the next process starts it again
        self._bus_loops.stop()
        self.database.__exit__()


class RecordsServer(HttpServer):
    """The service behind a socket; when it stops, it closes the streams first."""

    def __init__(self, process: RecordsProcess) -> None:
        super().__init__(create_records_app(process.services, process.settings.api), process.settings.api)
        self._process: RecordsProcess = process

    def stop(self) -> None:
        self._process.tails.close()
        super().stop()


def run(settings: Settings) -> None:
    """Serves until a signal stops it."""
    configure_logging()
    process = RecordsProcess(settings, watch=watch_for(settings.chaos.kill_at))
    process.start()
    server = RecordsServer(process)
    settle()
    try:
        server.run()
    finally:
        process.stop()
