"""Worker processes against a control in the test's own process."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from support.controls import ControlPlane

from tracelake_sdk.home import HomeFiles

# A killed worker's tasks come back within a second.
BRISK = {"lease_seconds": 1, "housekeeping_seconds": 0.05, "backoff_seconds": 0.05}
# No lease ends by itself, however slow the machine is.
PATIENT = BRISK | {"lease_seconds": 120}


class Workers:
    """Worker processes against one control, each ended by its pid when the test ends."""

    def __init__(self, control_plane: ControlPlane, url: str, folder: Path, ending: ExitStack) -> None:
        self.control_plane, self.url, self._folder, self._ending = control_plane, url, folder, ending
        self._number = 0

    def start(self, **environment: str) -> "subprocess.Popen[bytes]":
        self._number += 1
        token = HomeFiles(self.control_plane.control.settings.home).worker_token() or ""
        log = self._ending.enter_context((self._folder / f"worker-{self._number}.log").open("wb"))
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TRACELAKE")}
        given = {"TRACELAKE_HOME": str(self._folder / "empty"), "TRACELAKE__WORKER__API_URL": self.url, "TRACELAKE__WORKER__TOKEN": token, **environment}
        process = subprocess.Popen([sys.executable, "-m", "tracelake.main", "worker"], env=kept | given, stdout=log, stderr=log, cwd=self._folder)
        self._ending.callback(process.wait, 60)
        self._ending.callback(process.kill)
        return process

    def log(self, number: int = 1) -> str:
        return (self._folder / f"worker-{number}.log").read_text()


def until(fact: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.02)


def polls(control_plane: ControlPlane) -> bool:
    return control_plane.services.tasks.waiting.number_waiting > 0
