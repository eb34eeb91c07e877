"""The spool of one process: emitted records that are not delivered yet, on disk."""

import os
import threading
from collections import deque
from pathlib import Path

from tracelake_sdk.errors.records import SpoolFull
from tracelake_sdk.records.emitter.owners import Owner, bytes_of_others, new_owner
from tracelake_sdk.records.emitter.segments import Segment, framed


class Spool:
    """Any thread of one process may write; one thread reads."""

    def __init__(self, folder: Path, *, segment_bytes: int, most_bytes: int, fsync: bool) -> None:
        self.folder: Path = folder
        self._segment_bytes: int = segment_bytes
        self._most_bytes: int = most_bytes
        self._fsync: bool = fsync
        self._lock: threading.Lock = threading.Lock()
        self._owner: Owner = new_owner(folder)
        self._segments: deque[Segment] = deque()
        self._number: int = 0
        self._closed: bool = False
        self._others: int = 0      # bytes of other processes, as of the last new segment
        self.waiting_bytes: int = 0
        self.emitted: int = 0      # entries
        self.done: int = 0         # entries delivered or set aside

    @property
    def owner(self) -> str:
        return self._owner.name

    def append(self, context: bytes, record: bytes) -> bool:
        """The entry is on disk if this returns true; a closed spool returns false. Raises SpoolFull."""
        frame = framed(context, record)
        with self._lock:
            if self._closed:
                return False
            try:
                segment = self._segment(len(frame))
                segment.append(frame, fsync=self._fsync)
            except OSError as error:
                raise SpoolFull(f"The spool cannot be written: {error.strerror or error}.") from error
            self.waiting_bytes += len(frame)
            self.emitted += 1
            return True

    def next(self) -> Segment | None:
        """The oldest segment with undelivered entries."""
        with self._lock:
            return next((segment for segment in self._segments if segment.delivered < segment.end), None)

    def settle(self, entries: int) -> None:
        """Counts entries as delivered or set aside; removes finished segments."""
        with self._lock:
            self.done += entries
            while len(self._segments) > 1 and self._segments[0].delivered == self._segments[0].end:
                self._segments.popleft().remove()
            self.waiting_bytes = sum(segment.end - segment.delivered for segment in self._segments)

    def close(self) -> None:
        """Undelivered entries stay until the folder is flushed."""
        with self._lock:
            self._closed = True
            for segment in self._segments:
                if segment.delivered == segment.end:
                    segment.remove()
                else:
                    segment.close()
            self._segments.clear()
            self._owner.release()

    def leave_to_parent(self) -> None:
        """In a forked child: closes its copies of the files, without touching those of the parent."""
        for segment in self._segments:
            segment.close()
        self._segments.clear()
        os.close(self._owner.file)

    def _segment(self, wanted: int) -> Segment:
        if self.waiting_bytes + self._others + wanted > self._most_bytes:
            self._others = bytes_of_others(self.folder, self.owner)
            if self.waiting_bytes + self._others + wanted > self._most_bytes:
                raise SpoolFull
        if not self._segments or self._segments[-1].end >= self._segment_bytes:
            self._number += 1
            self._others = bytes_of_others(self.folder, self.owner)
            self._segments.append(Segment.create(self._owner.segment(self._number), fsync=self._fsync))
        return self._segments[-1]
