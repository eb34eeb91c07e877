"""Moments of several processes on one clock: each appends its own to its own file."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

FOLDER = "BENCH_STAMPS"
MOMENTS = "BENCH_MOMENTS"  # the names that are noted, with commas between them


@dataclass(frozen=True)
class Stamp:
    name: str
    ns: int  # CLOCK_MONOTONIC, which all processes of a machine share


class Stamps:
    def __init__(self, program: str) -> None:
        self._file: int = os.open(Path(os.environ[FOLDER]) / program, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, name: str) -> None:
        os.write(self._file, b"%d %s\n" % (time.monotonic_ns(), name.encode()))


def read(folder: Path, program: str) -> list[Stamp]:
    path = folder / program
    if not path.exists():
        return []
    whole = path.read_text().rpartition("\n")[0]
    pairs = (line.split(" ", 1) for line in whole.splitlines())
    return [Stamp(name, int(ns)) for ns, name in pairs]


def watch(program: str, default: tuple[str, ...] = ()) -> Callable[[str], None]:
    """What a program calls at each of its moments, in the place of the chaos suite's watch."""
    noted = frozenset(os.environ[MOMENTS].split(",")) if MOMENTS in os.environ else frozenset(default)
    stamps = Stamps(program)

    def moment(name: str) -> None:
        if name in noted:
            stamps.note(name)

    return moment


class Tail:
    """What a program notes from now on."""

    def __init__(self, folder: Path, program: str) -> None:
        self._path: Path = folder / program
        self._at: int = self._path.stat().st_size if self._path.exists() else 0

    def new(self) -> list[Stamp]:
        """Whole lines alone; half a one is there the next time."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._at)
            whole = file.read().rpartition(b"\n")[0]
        if not whole:
            return []
        self._at += len(whole) + 1
        pairs = (line.split(" ", 1) for line in whole.decode().splitlines())
        return [Stamp(name, int(ns)) for ns, name in pairs]
