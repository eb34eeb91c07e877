"""What a repository refused: kept beside the spool with its problem, for people to look at."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tracelake_sdk.emitter.segments import Frame

REFUSED = "refused"


@dataclass(frozen=True)
class SetAside:
    """One entry that was refused, as JSON."""

    entry: str
    at: str
    problem: dict[str, Any]
    context: Any
    record: Any


class RefusedFile:
    """The lines of one owner; an entry has one, also when it is refused again after a kill."""

    def __init__(self, folder: Path, owner: str) -> None:
        self.path: Path = folder / REFUSED / f"{owner}.jsonl"
        self._known: set[str] | None = None

    def add(self, segment: Path, frame: Frame, problem: dict[str, Any]) -> bool:
        """Whether it was not there yet."""
        entry = f"{segment.name}:{frame.offset}"
        if self._known is None:
            self._known = {line.entry for line in _lines(self.path)}
        if entry in self._known:
            return False
        self._append({"entry": entry, "at": datetime.now(UTC).isoformat(), "problem": problem, "context": _spelt(frame.context), "record": _spelt(frame.record)})
        self._known.add(entry)
        return True

    def add_damaged(self, segment: Path, offset: int, data: bytes) -> None:
        """Bytes that are no frame although all of one is there; nobody can tell what they were."""
        self.path.parent.mkdir(mode=0o700, exist_ok=True)
        self.path.with_name(f"{segment.name}.{offset}.damaged").write_bytes(data)

    def _append(self, line: dict[str, Any]) -> None:
        self.path.parent.mkdir(mode=0o700, exist_ok=True)
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(file).st_size
            torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
            os.write(file, (b"\n" if torn else b"") + json.dumps(line, ensure_ascii=False).encode() + b"\n")
        finally:
            os.close(file)


def set_aside(folder: Path) -> list[SetAside]:
    """All that was refused and lies in a spool folder, in the order of their owners."""
    return [line for path in sorted((folder / REFUSED).glob("*.jsonl")) for line in _lines(path)]


def _lines(path: Path) -> Iterator[SetAside]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    for line in data.split(b"\n"):
        try:
            yield SetAside(**json.loads(line))
        except ValueError:
            continue  # empty, or its process did not finish it and wrote it again


def _spelt(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return data.decode(errors="replace")
