"""Refused entries: kept beside the spool with their problems, until the cause is fixed and they are sent again.

A file is a log of one owner's entries: the last line of an entry counts, and a line of accepted entries names those that are finished.
So nothing is changed in place, and resending does not wait for the process that sets entries aside.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tracelake_sdk.records.emitter.segments import Frame

REFUSED = "refused"


@dataclass(frozen=True)
class SetAside:
    """One refused entry, as JSON."""

    entry: str
    at: str
    problem: dict[str, Any]
    context: Any
    record: Any


class RefusedFile:
    """The lines of one owner; each entry counts once, also if it is refused again after a kill or a resend."""

    def __init__(self, folder: Path, owner: str) -> None:
        self.path: Path = folder / REFUSED / f"{owner}.jsonl"
        self._known: dict[str, dict[str, Any]] | None = None  # entries with their problems

    def add(self, entry: str, frame: Frame, problem: dict[str, Any]) -> bool:
        """Returns whether the entry is new; an entry that is refused for another reason gets the new problem."""
        if self._known is None:
            self._known = {line.entry: line.problem for line in self.lines()}
        earlier = self._known.get(entry)
        if earlier != problem:
            self._append({"entry": entry, "at": datetime.now(UTC).isoformat(), "problem": problem, "context": _spelt(frame.context), "record": _spelt(frame.record)})
            self._known[entry] = problem
        return earlier is None

    def lines(self) -> list[SetAside]:
        """Entries that were not accepted later, in the order in which they were set aside."""
        return list(_lines(self.path).values())

    def settle(self, entries: Sequence[str]) -> None:
        """Marks entries as accepted by the repository."""
        if entries:
            self._append({"taken": list(entries)})

    def tidy(self) -> None:
        """Rewrites the file atomically without accepted entries; the caller holds the owner's lock, so that no entry is set aside in between."""
        new = self.path.with_suffix(".new")
        if not (lines := self.lines()):
            self.path.unlink(missing_ok=True)
            new.unlink(missing_ok=True)  # left by a killed process
            return
        with new.open("wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.writelines(json.dumps(asdict(line), ensure_ascii=False).encode() + b"\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path)

    def add_damaged(self, segment: Path, offset: int, data: bytes) -> None:
        """Bytes that are not a valid frame although they are complete; their content is unknown."""
        self.path.parent.mkdir(mode=0o700, exist_ok=True)
        self.path.with_name(f"{segment.name}.{offset}.damaged").write_bytes(data)

    def _append(self, line: dict[str, Any]) -> None:
        self.path.parent.mkdir(mode=0o700, exist_ok=True)
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(file).st_size
            torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
            spelt = (b"\n" if torn else b"") + json.dumps(line, ensure_ascii=False).encode() + b"\n"
            if os.write(file, spelt) != len(spelt):
                raise OSError("the line was written in part")
        finally:
            os.close(file)


def set_aside(folder: Path) -> list[SetAside]:
    """All refused entries of a spool folder, ordered by owner."""
    return [line for owner in refused_owners(folder) for line in RefusedFile(folder, owner).lines()]


def refused_owners(folder: Path) -> list[str]:
    """Owners with refused entries, oldest first."""
    return sorted(path.name.removesuffix(".jsonl") for path in (folder / REFUSED).glob("*.jsonl"))


def damaged_parts(folder: Path) -> list[Path]:
    """Files with bytes of a spool that are not a valid entry."""
    return sorted((folder / REFUSED).glob("*.damaged"))


def _lines(path: Path) -> dict[str, SetAside]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    found: dict[str, SetAside] = {}
    for line in data.split(b"\n"):
        try:
            parsed = json.loads(line)
        except ValueError:
            continue  # empty, or cut off by a kill and written again
        if "taken" in parsed:
            for entry in parsed["taken"]:
                found.pop(entry, None)
        else:
            found[parsed["entry"]] = SetAside(**parsed)
    return found


def _spelt(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return data.decode(errors="replace")
