"""The system that the demo runs on: one that is already running, or one that the demo starts and stops."""

import json
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from tracelake_sdk.cli.invocation import server_program
from tracelake_sdk.client import Client
from tracelake_sdk.errors import NotRunning, StartFailed, TracelakeError
from tracelake_sdk.home import HomeFiles, default_home

_START_SECONDS = 180.0
_STOP_SECONDS = 60.0
_ERROR_LINE = re.compile(r"error \[([a-z_]+)\]: (.*)")


@dataclass
class OwnSystem:
    """A `tracelaked up` that is our child. It shares our terminal, so that Ctrl-C and a closed window reach it too."""

    process: subprocess.Popen[bytes]
    output: IO[bytes]
    files: HomeFiles

    @property
    def runs(self) -> bool:
        return self.process.poll() is None

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while _read(self.files.running).get("pid") != self.process.pid:
            if not self.runs:
                raise self._why_it_ended()
            if time.monotonic() > deadline:
                raise StartFailed(f"The system did not start in {_START_SECONDS:.0f} seconds; its logs are in {self.files.home / 'logs'}.")
            time.sleep(0.05)

    def wait(self) -> None:
        """Waits until the system exits, or the user stops it."""
        try:
            self.process.wait()
        except KeyboardInterrupt:
            return

    def stop(self) -> None:
        if self.runs:
            self.process.terminate()
        deadline = time.monotonic() + _STOP_SECONDS
        while self.runs:
            try:
                self.process.wait(max(0.0, deadline - time.monotonic()))
            except KeyboardInterrupt:
                continue  # it is already stopping; keep waiting, or the process would be orphaned
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.output.close()

    def _why_it_ended(self) -> TracelakeError:
        self.output.seek(0)
        lines = self.output.read().decode(errors="replace").strip().splitlines()
        reported = _ERROR_LINE.fullmatch(lines[-1]) if lines else None
        if reported:
            return TracelakeError.of({"code": reported[1], "detail": reported[2]})
        return StartFailed(f"The system ended with exit code {self.process.returncode} before it was up; its logs are in {self.files.home / 'logs'}.")


def find_running() -> Client | None:
    """A client of the system that is already running here, if any. A system that is given by its address must be running."""
    try:
        client = Client()
        client.me()
    except NotRunning:
        if os.environ.get("TRACELAKE_API_URL"):
            raise
        return None
    return client


def start() -> OwnSystem:
    output = tempfile.TemporaryFile()  # noqa: SIM115  closed when the system is stopped
    process = subprocess.Popen([server_program(), "up"], stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    return OwnSystem(process, output, HomeFiles(default_home().absolute()))


@contextmanager
def unwound_by_signals() -> Generator[None]:
    """Makes SIGTERM exit the way Ctrl-C does: through every `finally`."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _read(file: Path) -> dict[str, Any]:
    try:
        found: Any = json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}

