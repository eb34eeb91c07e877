"""The layout of a repository's folder: the names of its files, and the offsets of its log. Names are not parsed for facts about a record; its file has them."""

import hashlib
import re
from datetime import datetime
from typing import NamedTuple

from tracelake_sdk.errors.records import OffsetUnknown

RECORDS, KINDS, LOG = "records", "kinds", "log"
INDEX = "index.json"                # a snapshot: the newest record of each kind and target
IDENTITIES = "index/identities"     # a snapshot: the identities of all records
TURN = "log/turn.lock"              # the lock of the writer, on a local disk
STAGED = ".staged"                  # suffix of a record's file until a line of the log names it

_SAFE = re.compile(r"[A-Za-z0-9_-]{1,80}")
_SAFE_PREFIX = re.compile(r"[A-Za-z0-9_-]{0,60}")
_HASH_DIGITS = 12
_SEGMENT = re.compile(r"log/([0-9]{12})\.jsonl")
_OFFSET = re.compile(r"([0-9a-f]{16})\.([0-9]{1,12})\.([0-9]{1,15})")
_PAGE = re.compile(r"([0-9]{8}T[0-9]{12}Z)\.([0-9a-f]{32})")
_BEGINNING = "0"  # the offset of a repository that has no log yet


class LogPosition(NamedTuple):
    """A position between two lines of the log; positions compare in log order."""

    segment: int
    byte: int


FIRST = LogPosition(1, 0)


def part(name: str) -> str:
    """A name as part of a path: unchanged if every file system accepts it, else a safe prefix and a hash."""
    if _SAFE.fullmatch(name):
        return name
    digits = hashlib.sha256(name.encode()).hexdigest()[:_HASH_DIGITS]
    prefix = _SAFE_PREFIX.match(name)
    return f"{prefix[0]}-{digits}" if prefix and prefix[0] else digits


def moment(at: datetime) -> str:
    """UTC with microseconds and no colons; the texts sort like the times."""
    text = at.isoformat(timespec="microseconds")
    return f"{text[:19].replace('-', '').replace(':', '')}{text[20:26]}Z"


def record_path(kind: str, target: tuple[str, str, str], produced: str, run_id: str | None) -> str:
    folder = ".".join(part(name) for name in target)
    return f"{RECORDS}/{kind}/{folder}/{produced}_{'no-run' if run_id is None else part(run_id)}.json"


def second_path(path: str, id: str) -> str:
    """For a record whose path is taken by another record of the same run and time."""
    return f"{path.removesuffix('.json')}_{id}.json"


def staged_path(path: str, id: str) -> str:
    """In the record's own folder; the leading dot makes directory readers skip it."""
    return f"{path.rpartition('/')[0]}/.{id}{STAGED}"


def kind_path(name: str, version: int) -> str:
    return f"{KINDS}/{name}/{version}.json"


def segment_path(number: int) -> str:
    return f"{LOG}/{number:012}.jsonl"


def segment_number(path: str) -> int | None:
    found = _SEGMENT.fullmatch(path)
    return int(found[1]) if found else None


def format_offset(log: str | None, position: LogPosition) -> str:
    return _BEGINNING if log is None else f"{log}.{position.segment}.{position.byte}"


def parse_offset(log: str | None, offset: str | None) -> LogPosition:
    """Raises OffsetUnknown for an offset of another log."""
    if offset is None or offset == _BEGINNING:
        return FIRST
    found = _OFFSET.fullmatch(offset)
    if found is None or found[1] != log:
        raise OffsetUnknown
    return LogPosition(int(found[2]), int(found[3]))


def format_page(produced: str, id: str) -> str:
    return f"{produced}.{id}"


def parse_page(page: str) -> tuple[str, str]:
    found = _PAGE.fullmatch(page)
    if found is None:
        raise OffsetUnknown
    return found[1], found[2]
