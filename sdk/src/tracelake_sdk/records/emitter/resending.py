"""Delivers refused records again, after the cause was fixed: a kind was registered, a clock was corrected.

A record is marked as accepted after the repository has answered: after a kill in between it is sent again, and the repository answers `same`.
"""

import json
from pathlib import Path
from typing import Any

from tracelake_sdk.records.emitter.delivery import Delivered, Delivery, NotAccepting
from tracelake_sdk.records.emitter.draining import FlushReport
from tracelake_sdk.records.emitter.owners import claim
from tracelake_sdk.records.emitter.refusals import RefusedFile, SetAside, refused_owners
from tracelake_sdk.records.emitter.segments import MOST_READ, Frame
from tracelake_sdk.records.repository.contract import MetadataRepository


class _Again:
    """The refused entries of one owner, as entries to deliver; entries that are refused again stay in their file."""

    def __init__(self, file: RefusedFile) -> None:
        self._file: RefusedFile = file
        self._lines: list[SetAside] = file.lines()
        self._done: int = 0
        self._refused: set[str] = set()

    def read(self, most: int) -> list[Frame]:
        frames: list[Frame] = []
        size = 0
        for index in range(self._done, min(self._done + most, len(self._lines))):
            line = self._lines[index]
            frame = Frame(index, index + 1, _bytes(line.context), _bytes(line.record))
            size += len(frame.record)
            if frames and size > MOST_READ:
                break
            frames.append(frame)
        return frames

    def entry(self, frame: Frame) -> str:
        return self._lines[frame.offset].entry

    def add(self, entry: str, frame: Frame, problem: dict[str, Any]) -> bool:
        self._file.add(entry, frame, problem)
        self._refused.add(entry)
        return True

    def advance(self, to: int) -> None:
        self._file.settle([line.entry for line in self._lines[self._done : to] if line.entry not in self._refused])
        self._done = to


def resend(folder: Path, repository: MetadataRepository) -> FlushReport:
    """Delivers all refused entries, oldest first, also of running processes; stops if the repository does not accept anything."""
    delivered = Delivered()
    for name in refused_owners(folder):
        file = RefusedFile(folder, name)
        again = _Again(file)
        delivery = Delivery(repository, again, patience=0)  # entries that fail without a reason are already set aside
        try:
            while (done := delivery.run_once(again)).entries:
                delivered += done
        except NotAccepting as waits:
            return FlushReport(delivered, problem=waits.problem)
        finally:
            _tidy(folder, name, file)
    return FlushReport(delivered)


def _tidy(folder: Path, name: str, file: RefusedFile) -> None:
    owner = claim(folder, name)
    if owner is None:
        return  # the process is running and may write to its file, which is rewritten after it ends
    try:
        file.tidy()
    finally:
        owner.release()


def _bytes(value: Any) -> bytes:
    """The bytes as they were emitted, also if they are not valid JSON."""
    return value.encode() if isinstance(value, str) else json.dumps(value, ensure_ascii=False).encode()
