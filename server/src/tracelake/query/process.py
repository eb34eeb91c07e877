"""The query process: built from its settings, serves until a signal stops it."""

import gc
import os
import shutil
from pathlib import Path
from types import FrameType

import structlog
import uvicorn

from tracelake.bounded_head import BoundedHead
from tracelake.chaos import watch_for
from tracelake.control_client import connect_to_control
from tracelake.launch import hide_memory
from tracelake.logging_setup import configure_logging
from tracelake.loops import Loop, Loops
from tracelake.query.app import create_app
from tracelake.query.copies import Copies
from tracelake.query.engine.contract import EngineLimits
from tracelake.query.engines import Engines
from tracelake.query.front import Front
from tracelake.query.leases import PinLeases
from tracelake.query.pin_client import PinClient
from tracelake.settings import Settings
from tracelake.storage.opening import open_storage
from tracelake_sdk.home import HomeFiles

_log = structlog.get_logger()

_LOOK_SECONDS = 30.0  # between two checks for idle engines


class QueryServer(uvicorn.Server):
    """The HTTP server of a query process, with its parts."""

    def __init__(self, settings: Settings) -> None:
        query = settings.query
        folder = _own_folder(settings.home)
        self._folder: Path = folder
        self._control: PinClient = _control(settings)
        limits = EngineLimits(
            threads=query.threads or os.cpu_count() or 1,
            memory_mib=query.memory_mib,
            spill_mib=query.spill_mib,
            max_seconds=query.max_seconds,
            max_bytes=query.max_bytes,
        )
        self.engines: Engines = Engines(
            limits, folder, at_once=query.engines, waiting=query.waiting, patience=query.patience_seconds, idle_seconds=query.idle_seconds
        )
        self._leases: PinLeases = PinLeases(self._control)
        storage = open_storage(settings, watch_for(settings.chaos.kill_at))
        copies = Copies(storage, folder, most_bytes=query.max_copied_bytes)
        front = Front(self._control, self.engines, self._leases, copies, query.default_rows, query.max_rows)
        self.loops: Loops = Loops()
        self.loops.add([self._leases.loop])
        super().__init__(
            uvicorn.Config(
                create_app(front, self.loops, at_once=query.engines + query.waiting),
                host=query.host,
                port=query.port,
                log_config=None,
                access_log=False,
                lifespan="off",
                loop="uvloop",
                http=BoundedHead,
                timeout_keep_alive=75,
                timeout_graceful_shutdown=5,
            )
        )

    def serve_until_stopped(self) -> None:
        self._leases.start()
        self.loops.start(Loop("idle", self.engines.end_idle, pause=_LOOK_SECONDS))
        try:
            self.run()
        finally:
            self._leases.stop()
            self.loops.stop()
            self.engines.close()
            self._control.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal stops the server and the process exits with 0; uvicorn would end the process by the signal."""
        self.should_exit = True

    @property
    def port(self) -> int:
        """The port it listens on, once it has started."""
        return int(self.servers[0].sockets[0].getsockname()[1])


def run(settings: Settings) -> None:
    """Serves until a signal stops it."""
    configure_logging()
    hide_memory()  # it holds tokens, and engines run as the same user and must not read them
    server = QueryServer(settings)
    gc.freeze()
    _log.info("started", host=settings.query.host, port=settings.query.port, engines=settings.query.engines)
    server.serve_until_stopped()


def _control(settings: Settings) -> PinClient:
    files, given = HomeFiles(settings.home), settings.query
    wanted = "a service's token with the scope `pin`"
    return PinClient(connect_to_control(files, section="query", api_url=given.api_url, token=given.token, token_of_home=files.query_token(), wanted=wanted))


def _own_folder(home: Path) -> Path:
    """The folder of this process in which engines work; folders of killed processes are removed."""
    root = home / "query"
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    for left in root.iterdir():
        if left.name.isdigit() and not Path(f"/proc/{left.name}").exists():
            shutil.rmtree(left, ignore_errors=True)
    own = root / str(os.getpid())
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir(mode=0o700)
    return own
