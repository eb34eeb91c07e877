"""The worker process: built from its settings, runs until a signal stops it."""

import gc
import secrets
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType
from typing import Protocol

import structlog

from tracelake.chaos import watch_for
from tracelake.control_client import connect_to_control
from tracelake.launch import hide_memory
from tracelake.logging_setup import configure_logging
from tracelake.loops import Loops
from tracelake.settings import Settings
from tracelake.worker.dispatcher.dispatcher_worker import DispatcherWorker
from tracelake.worker.loop_reports import LoopReports
from tracelake.worker.spark.building import build_spark_worker
from tracelake.worker.task_client import TaskClient
from tracelake_sdk.errors import LoopFailed, TracelakeError
from tracelake_sdk.home import HomeFiles

_log = structlog.get_logger()

_LOOK_SECONDS = 1.0    # between two checks of the loops
_POLL_SECONDS = 1.0    # how long a stop waits for a poll in flight; a task that it still returns is handed out again when its lease ends
_WORK_SECONDS = 12.0   # and for running work and its report


class Worker(Protocol):
    """Claims tasks of one runtime, runs them and reports."""

    @property
    def loops(self) -> Loops: ...

    def run(self) -> None: ...

    def stop(self) -> None: ...

    @property
    def polling(self) -> bool:
        """Whether it waits for work and holds no task."""
        ...


def run(settings: Settings) -> None:
    """Runs a worker; returns after SIGTERM or SIGINT, raises an error after which it cannot continue."""
    configure_logging()
    hide_memory()  # it holds the token, and operator programs run as the same user and must not read it
    name = settings.worker.name or f"worker-{secrets.token_hex(4)}"
    workers = build(settings, name)
    reports = LoopReports(_control(settings), name, [worker.loops for worker in workers])
    gc.freeze()  # objects from the start live as long as the process; collecting them would delay an operator by milliseconds
    ended = threading.Event()
    failures: list[Exception] = []

    def ask_to_stop(number: int, frame: FrameType | None) -> None:
        ended.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask_to_stop)
    # Not in the main thread: a call that waits for an answer must not block signals.
    lives = [threading.Thread(target=_live, args=(worker, failures, ended), name=type(worker).__name__, daemon=True) for worker in workers]
    for life in lives:
        life.start()
    reports.loop.start()
    _log.info("started", worker=name, runtimes=list(settings.worker.runtimes), prefetch=settings.worker.prefetch, slots=settings.worker.slots)
    while not ended.wait(_LOOK_SECONDS):
        # A worker that cannot work ends; its supervisor restarts and reports it.
        for worker in workers:
            if broken := worker.loops.broken():
                failures.append(LoopFailed(f"The loop `{broken.name}` of this worker keeps failing ({broken.code}); see the log."))
                ended.set()
    reports.loop.ask_to_stop()
    for worker in workers:
        worker.stop()
    if failures:
        with suppress(TracelakeError):  # control is not reachable; the worker's exit code reports it too
            reports.run_once()
    left = _join(list(zip(workers, lives, strict=True)))
    if failures:
        raise failures[0]
    _log.info("stopped", worker=name, left_a_call_in_flight=left)


def _live(worker: Worker, failures: list[Exception], ended: threading.Event) -> None:
    try:
        worker.run()
    except Exception as error:  # raised again by `run`, in the main thread
        failures.append(error)
    finally:
        ended.set()


def _join(lives: Sequence[tuple[Worker, threading.Thread]]) -> bool:
    """Waits for the workers to stop; whether one did not."""
    for _, life in lives:
        life.join(_POLL_SECONDS)
    for worker, life in lives:
        if life.is_alive() and not worker.polling:
            life.join(_WORK_SECONDS)
    return any(life.is_alive() for _, life in lives)


def build(settings: Settings, name: str) -> list[Worker]:
    """Raises NotRunning or SettingInvalid, which say what to set."""
    watch = watch_for(settings.chaos.kill_at)
    builders: dict[str, Callable[[TaskClient], Worker]] = {
        "dispatcher": lambda control: _dispatcher(settings, control, name, watch),
        "spark": lambda control: build_spark_worker(settings, control, name, watch),
    }
    return [builders[runtime](_control(settings)) for runtime in dict.fromkeys(settings.worker.runtimes)]


def _control(settings: Settings) -> TaskClient:
    files, given = HomeFiles(settings.home), settings.worker
    return TaskClient(
        connect_to_control(files, section="worker", api_url=given.api_url, token=given.token, token_of_home=files.worker_token(), wanted="a worker's token")
    )


def _dispatcher(settings: Settings, control: TaskClient, name: str, watch: Callable[[str], None]) -> DispatcherWorker:
    return DispatcherWorker(
        control,
        name=name,
        prefetch=settings.worker.prefetch,
        poll_seconds=settings.worker.poll_seconds,
        watch=watch,
    )
