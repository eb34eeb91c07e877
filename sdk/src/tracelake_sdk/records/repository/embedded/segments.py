"""The log: one line per accepted record, in the order that all processes agree on. It is append-only.

A segment is a file of lines, or one object of an object store. It begins with a line that names the log, its tenant and
the segment; in a file a last line names the next segment. Readers skip lines of unknown types.
"""

import json
import os
import secrets
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from tracelake_sdk.errors.records import RepositoryDamaged
from tracelake_sdk.records.repository.embedded.folders import Folder, LocalFolder, reached, write_all
from tracelake_sdk.records.repository.embedded.layout import FIRST, LOG, LogPosition, segment_number, segment_path

SEGMENT_BYTES = 8 * 1024 * 1024
READ_AT_ONCE = 4 * 1024 * 1024
_MOST_AHEAD = 32  # objects
_HEADER_BYTES = 8 * 1024
NEXT = "next"  # names the segment after this one


class LogLine(NamedTuple):
    fields: dict[str, Any]
    behind: LogPosition  # where the next line begins


@dataclass(frozen=True)
class Chunk:
    """Some lines, and where they end; an unchanged position means the end of the log."""

    lines: list[LogLine]
    end: LogPosition


@dataclass(frozen=True)
class LogName:
    log: str
    tenant: str


class RecordLog(Protocol):
    def name(self) -> LogName | None:
        """None before the first record."""
        ...

    def read(self, position: LogPosition, most: int = READ_AT_ONCE) -> Chunk:
        """The lines from a position on; raises RepositoryDamaged if a line cannot be read."""
        ...

    def between_lines(self, position: LogPosition) -> bool:
        """Whether it is a valid position of this log."""
        ...

    def turn(self) -> AbstractContextManager[None]:
        """A context in which no other writer appends, or one in which `append` reports that another writer did."""
        ...

    def append(self, position: LogPosition, lines: Sequence[bytes], tenant: str) -> LogPosition | None:
        """Appends after the last line, which must have been read; None: another writer appended first, read and try again."""
        ...

    def secure(self, position: LogPosition) -> None:
        """Makes lines up to a position durable, before a snapshot refers to them."""
        ...

    def repair(self) -> int:
        """Blanks out lines that cannot be read, so that all other positions stay valid; returns how many."""
        ...

    def close(self) -> None: ...


def json_line(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def lines_of(data: bytes, segment: int, start: int) -> Chunk:
    """All complete lines of some bytes; the rest is an unfinished write."""
    whole = data[: data.rfind(b"\n") + 1]
    texts = [text + b"\n" for text in whole.split(b"\n")[:-1]]
    lines = [text for text in texts if not text.isspace()]
    try:
        parsed: list[Any] = json.loads(b"[" + b",".join(lines) + b"]")
    except ValueError:
        parsed = []
    if len(parsed) != len(lines):
        raise RepositoryDamaged(f"A line of the log in `{segment_path(segment)}` cannot be read.")
    found: list[LogLine] = []
    position, following = start, iter(parsed)
    for text in texts:
        position += len(text)
        if text.isspace():
            continue
        fields = next(following)
        if NEXT in fields:
            return Chunk(found, LogPosition(fields[NEXT], 0))
        found.append(LogLine(fields, LogPosition(segment, position)))
    return Chunk(found, LogPosition(segment, position))


def unreadable(data: bytes) -> list[tuple[int, int]]:
    """Start and length of lines that are not JSON objects, without the newline."""
    found: list[tuple[int, int]] = []
    position = 0
    for text in data.split(b"\n")[:-1]:
        try:
            good = text.isspace() or not text or isinstance(json.loads(text), dict)
        except ValueError:
            good = False
        if not good:
            found.append((position, len(text)))
        position += len(text) + 1
    return found


def _header(log: str, tenant: str, segment: int) -> bytes:
    return json_line({"log": log, "tenant": tenant, "segment": segment})


def _name(header: bytes | None) -> LogName | None:
    if header is None or b"\n" not in header:
        return None
    try:
        fields = json.loads(header[: header.index(b"\n")])
        return LogName(fields["log"], fields["tenant"])
    except (ValueError, KeyError, TypeError):
        raise RepositoryDamaged(f"`{segment_path(1)}` does not begin like a log.") from None


class FileLog:
    """Files that writers append to, one writer at a time; a full file is followed by the next."""

    def __init__(self, folder: LocalFolder, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._folder: LocalFolder = folder
        self._segment_bytes: int = segment_bytes
        self._known: LogName | None = None
        self._reading: tuple[int, int] | None = None  # a segment and its handle
        self._writing: tuple[int, int] | None = None  # separate: a read-only folder can be read

    def name(self) -> LogName | None:
        if self._known is None:
            with reached():
                handle = self._to_read(1)
                self._known = _name(os.pread(handle, _HEADER_BYTES, 0)) if handle is not None else None
        return self._known

    def read(self, position: LogPosition, most: int = READ_AT_ONCE) -> Chunk:
        with reached():
            handle = self._to_read(position.segment)
            if handle is None:
                return Chunk([], position)
            data = os.pread(handle, most, position.byte)
        if len(data) == most and b"\n" not in data:
            return self.read(position, most * 2)
        return lines_of(data, position.segment, position.byte) if data else Chunk([], position)

    def between_lines(self, position: LogPosition) -> bool:
        with reached():
            handle = self._to_read(position.segment)
            if handle is None:
                return position.byte == 0 and (position == FIRST or self._to_read(position.segment - 1) is not None)
            return position.byte == 0 or os.pread(handle, 1, position.byte - 1) == b"\n"

    @contextmanager
    def turn(self) -> Generator[None]:
        with self._folder.turn():
            yield

    def append(self, position: LogPosition, lines: Sequence[bytes], tenant: str) -> LogPosition | None:
        self._folder.watch("store:turn")
        if position.byte >= self._segment_bytes:
            position = self._rotate(position)
        elif position.byte == 0:
            name = self.name()
            position = self._begin(position.segment, name.log if name else secrets.token_hex(8), tenant)
        return self._write(position, b"".join(lines))

    def secure(self, position: LogPosition) -> None:
        with reached():
            os.fsync(self._to_write(position.segment))

    def repair(self) -> int:
        found = 0
        for path in self._folder.paths(LOG):
            if segment_number(path) is None:
                continue
            damaged = unreadable(self._folder.read(path) or b"")
            with reached(), (self._folder.root / path).open("r+b") as file:
                for start, length in damaged:
                    os.pwrite(file.fileno(), b" " * length, start)
                os.fsync(file.fileno())
            found += len(damaged)
        return found

    def close(self) -> None:
        for opened in (self._reading, self._writing):
            if opened is not None:
                os.close(opened[1])
        self._reading = self._writing = None

    def __del__(self) -> None:
        """Closes the handles of a repository that was not closed."""
        self.close()

    def _begin(self, segment: int, log: str, tenant: str) -> LogPosition:
        header = _header(log, tenant, segment)
        if not self._folder.put_new(segment_path(segment), header):
            header = self._folder.read(segment_path(segment)) or header  # written by a writer that died right after it
        return LogPosition(segment, len(header))

    def _rotate(self, position: LogPosition) -> LogPosition:
        name = self.name()
        if name is None:
            raise RepositoryDamaged(f"`{segment_path(1)}` is missing.")
        self._folder.watch("rotate:before")
        following = self._begin(position.segment + 1, name.log, name.tenant)
        self._folder.watch("rotate:made")
        self._write(position, json_line({NEXT: position.segment + 1}))
        self.secure(position)  # full segments are durable, even without `fsync`
        self._folder.watch("rotate:named")
        return following

    def _write(self, position: LogPosition, body: bytes) -> LogPosition | None:
        with reached():
            handle = self._to_write(position.segment)
            if (size := os.fstat(handle).st_size) > position.byte:
                if b"\n" in os.pread(handle, size - position.byte, position.byte):
                    return None
                os.ftruncate(handle, position.byte)  # an incomplete line of a writer that died
            self._folder.watch("append:before")
            write_all(handle, body)
            if self._folder.fsync:
                os.fsync(handle)
        self._folder.watch("append:done")
        return LogPosition(position.segment, position.byte + len(body))

    def _to_read(self, segment: int) -> int | None:
        if self._reading is not None and self._reading[0] == segment:
            return self._reading[1]
        try:
            handle = os.open(f"{self._folder.root}/{segment_path(segment)}", os.O_RDONLY)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if self._reading is not None:
            os.close(self._reading[1])
        self._reading = (segment, handle)
        return handle

    def _to_write(self, segment: int) -> int:
        if self._writing is None or self._writing[0] != segment:
            handle = os.open(f"{self._folder.root}/{segment_path(segment)}", os.O_RDWR | os.O_APPEND)
            if self._writing is not None:
                os.close(self._writing[1])
            self._writing = (segment, handle)
        return self._writing[1]


class ObjectLog:
    """Numbered objects, one per append; the first writer of a number wins."""

    def __init__(self, folder: Folder) -> None:
        self._folder: Folder = folder
        self._known: LogName | None = None

    def name(self) -> LogName | None:
        if self._known is None:
            self._known = _name(self._folder.read(segment_path(1)))
        return self._known

    def read(self, position: LogPosition, most: int = READ_AT_ONCE) -> Chunk:
        lines: list[LogLine] = []
        ahead, taken = 1, 0
        while taken < most:
            wanted = range(position.segment, position.segment + ahead)
            for number, body in zip(wanted, self._folder.read_many([segment_path(number) for number in wanted]), strict=True):
                if body is None:
                    return Chunk(lines, position)
                lines += lines_of(body[position.byte :], number, position.byte).lines
                position = LogPosition(number + 1, 0)
                taken += len(body)
            ahead = min(2 * ahead, _MOST_AHEAD)
        return Chunk(lines, position)

    def between_lines(self, position: LogPosition) -> bool:
        if position.byte == 0:
            return position == FIRST or self._folder.read(segment_path(position.segment - 1)) is not None
        body = self._folder.read(segment_path(position.segment)) or b""
        return len(body) >= position.byte and body[position.byte - 1 : position.byte] == b"\n"

    @contextmanager
    def turn(self) -> Generator[None]:
        """No lock: `append` reports a conflict."""
        yield

    def append(self, position: LogPosition, lines: Sequence[bytes], tenant: str) -> LogPosition | None:
        name = self.name()
        header = _header(name.log if name else secrets.token_hex(8), tenant, position.segment)
        return LogPosition(position.segment + 1, 0) if self._folder.put_new(segment_path(position.segment), header + b"".join(lines)) else None

    def secure(self, position: LogPosition) -> None:
        """Nothing to do: objects are durable."""

    def repair(self) -> int:
        found = 0
        for path in self._folder.paths(LOG):
            body = bytearray(self._folder.read(path) or b"")
            for start, length in (damaged := unreadable(bytes(body))):
                body[start : start + length] = b" " * length
            if damaged:
                self._folder.replace(path, bytes(body))
            found += len(damaged)
        return found

    def close(self) -> None:
        """Nothing to close."""
