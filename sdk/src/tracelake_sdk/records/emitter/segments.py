"""Segments of a spool: files of framed entries, written by one process, read by it or, after it ended, by another.

A file begins with eight letters and the offset after the last delivered frame. A frame is its length, its checksum, the length of the
context, the context and the record, both as JSON. An incomplete write has no valid frame, and was never acknowledged.
"""

import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

SUFFIX = ".spool"
_LETTERS = b"TLSPOOL1"
_DELIVERED = struct.Struct(">Q")
_FRAME = struct.Struct(">III")  # length of the rest after the checksum, checksum of that rest, length of the context, which is part of that rest
_CONTEXT = struct.Struct(">I")
_HEAD = 8  # length and checksum
START = len(_LETTERS) + _DELIVERED.size
MOST_READ = 4 * 1024 * 1024


@dataclass(frozen=True)
class Frame:
    """One entry as it was written."""

    offset: int
    end: int
    context: bytes
    record: bytes


def framed(context: bytes, record: bytes) -> bytes:
    body = b"".join((_CONTEXT.pack(len(context)), context, record))
    return b"".join((_CONTEXT.pack(len(body)), _CONTEXT.pack(zlib.crc32(body)), body))


@dataclass
class Segment:
    """One open file; `end` is the offset after the last valid frame, `delivered` after the last delivered one."""

    path: Path
    file: int
    end: int = START
    delivered: int = START

    @classmethod
    def create(cls, path: Path, *, fsync: bool) -> "Segment":
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.pwrite(file, _LETTERS + _DELIVERED.pack(START), 0)
        if fsync:
            os.fsync(file)
            _sync_folder(path.parent)
        return cls(path, file)

    @classmethod
    def open(cls, path: Path) -> "Segment":
        """A segment of a dead process; `end` is the size of the file, and the frames determine how much of it is valid."""
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        size = os.fstat(file).st_size
        head = os.pread(file, START, 0)
        whole = len(head) == START and head.startswith(_LETTERS)
        (delivered,) = _DELIVERED.unpack(head[len(_LETTERS):]) if whole else (START,)
        return cls(path, file, end=size if whole else START, delivered=delivered if START <= delivered <= size else START)

    def append(self, frame: bytes, *, fsync: bool) -> None:
        """Writes the complete frame or raises OSError; the next write overwrites a partial frame."""
        written = os.pwrite(self.file, frame, self.end)
        if written != len(frame):
            raise OSError("the frame was written in part")
        if fsync:
            os.fdatasync(self.file)
        self.end += written

    def read(self, most: int) -> list[Frame]:
        """The undelivered frames, at most `most`; empty if no complete frame follows."""
        left = self.end - self.delivered
        data = os.pread(self.file, min(left, MOST_READ), self.delivered)
        if len(data) >= _CONTEXT.size and (wanted := _HEAD + _CONTEXT.unpack_from(data)[0]) > len(data) and wanted <= left:
            data = os.pread(self.file, wanted, self.delivered)  # one frame that is larger than the read size
        frames: list[Frame] = []
        at = 0
        while len(frames) < most and (frame := _frame(data, at, self.delivered)) is not None:
            frames.append(frame)
            at = frame.end - self.delivered
        return frames

    def entry(self, frame: Frame) -> str:
        """The id of one of its frames."""
        return f"{self.path.name}:{frame.offset}"

    def advance(self, to: int) -> None:
        """Marks frames up to here as delivered or set aside."""
        os.pwrite(self.file, _DELIVERED.pack(to), len(_LETTERS))
        self.delivered = to

    def remainder(self) -> bytes:
        """The bytes after the last complete frame: an incomplete write, or damage."""
        return os.pread(self.file, self.end - self.delivered, self.delivered)

    def is_damaged(self) -> bool:
        """Whether a complete frame is not valid; a frame that a kill cut off is shorter than its length field."""
        rest = self.remainder()
        return len(rest) >= _FRAME.size and len(rest) >= _HEAD + _CONTEXT.unpack_from(rest)[0]

    def close(self) -> None:
        os.close(self.file)

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        self.close()


def _frame(data: bytes, at: int, offset: int) -> Frame | None:
    if len(data) - at < _FRAME.size:
        return None
    length, checksum, context = _FRAME.unpack_from(data, at)
    body = data[at + _HEAD : at + _HEAD + length]
    if len(body) != length or zlib.crc32(body) != checksum or _CONTEXT.size + context > length:
        return None
    return Frame(offset + at, offset + at + _HEAD + length, body[_CONTEXT.size : _CONTEXT.size + context], body[_CONTEXT.size + context :])


def _sync_folder(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
