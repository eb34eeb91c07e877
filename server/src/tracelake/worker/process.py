"""The worker process: built from its settings, run until a signal asks it to stop."""

import gc
import secrets
import signal
import threading
from types import FrameType
from urllib.parse import urlsplit

import structlog

from tracelake.chaos import watch_for
from tracelake.logging_setup import configure_logging
from tracelake.settings import Settings
from tracelake.worker.control_client import ControlClient
from tracelake.worker.dispatching import DispatcherWorker
from tracelake_sdk.errors import NotRunning, SettingInvalid
from tracelake_sdk.home import HomeFiles

_log = structlog.get_logger()

_POLL_SECONDS = 1.0    # how long a stop waits for a poll in flight; what it may still bring comes back when its lease ends
_WORK_SECONDS = 10.0   # and for work in hand and its report


def run(settings: Settings) -> None:
    """The whole life of a worker; returns after SIGTERM or SIGINT, raises what made it impossible to go on."""
    configure_logging()
    name = settings.worker.name or f"worker-{secrets.token_hex(4)}"
    worker = build(settings, name)
    gc.freeze()  # what was built at the start lives as long as the process; looking through it would delay an operator by milliseconds
    ended = threading.Event()
    failures: list[Exception] = []

    def live() -> None:
        try:
            worker.run()
        except Exception as error:  # raised again below, in the main thread
            failures.append(error)
        finally:
            ended.set()

    def ask_to_stop(number: int, frame: FrameType | None) -> None:
        worker.stop()
        ended.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask_to_stop)
    # Not in the main thread: a call that waits for an answer must not keep a signal from being heard.
    life = threading.Thread(target=live, name="dispatcher", daemon=True)
    life.start()
    _log.info("started", worker=name, prefetch=settings.worker.prefetch)
    ended.wait()
    life.join(_POLL_SECONDS)
    if life.is_alive() and not worker.polling:
        life.join(_WORK_SECONDS)
    if failures:
        raise failures[0]
    _log.info("stopped", worker=name, left_a_call_in_flight=life.is_alive())


def build(settings: Settings, name: str) -> DispatcherWorker:
    """Raises NotRunning or SettingInvalid, with what to set."""
    files = HomeFiles(settings.home)
    api_url = settings.worker.api_url or files.api_url()
    if api_url is None:
        raise NotRunning(f"No Tracelake system runs in {settings.home}; start one with `tracelake up`, or set TRACELAKE__WORKER__API_URL to control's address.")
    parts = urlsplit(api_url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise SettingInvalid("TRACELAKE__WORKER__API_URL: write control's address as http://host:port")
    token = settings.worker.token.get_secret_value() if settings.worker.token else files.worker_token()
    if not token:
        raise SettingInvalid(f"TRACELAKE__WORKER__TOKEN: set it to a worker's token; {files.credentials} holds none")
    return DispatcherWorker(
        ControlClient(api_url, token),
        name=name,
        prefetch=settings.worker.prefetch,
        poll_seconds=settings.worker.poll_seconds,
        variables=settings.vars,
        watch=watch_for(settings.chaos.kill_at),
    )
