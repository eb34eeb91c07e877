"""Snapshots of the index, so that a process need not read the log from its beginning. They may be missing or old; the log is authoritative."""

import json
from typing import Any

from tracelake_sdk.errors.records import OffsetUnknown
from tracelake_sdk.records.repository.embedded.folders import Folder
from tracelake_sdk.records.repository.embedded.index import Identities, Latest, NewestRecords
from tracelake_sdk.records.repository.embedded.layout import FIRST, IDENTITIES, INDEX, LogPosition, format_offset, parse_offset
from tracelake_sdk.records.repository.embedded.segments import RecordLog

_FORMAT = 1


def read_newest(folder: Folder, log: RecordLog) -> tuple[NewestRecords, LogPosition]:
    """The content of `index.json`, and the position at which it was taken; empty and from the beginning if there is none for this log."""
    fields = _header(folder.read(INDEX))
    position = _position(fields, log)
    if position == FIRST or "newest" not in fields:
        return NewestRecords(), FIRST
    pairs = {
        (found["kind"], tuple(found["target"])): Latest(found["produced"], found["id"], found["path"], found["target_extras"])
        for found in fields["newest"]
    }
    return NewestRecords(pairs), position


def read_identities(folder: Folder, log: RecordLog) -> tuple[Identities, LogPosition]:
    header, _, table = (folder.read(IDENTITIES) or b"").partition(b"\n")
    position = _position(_header(header), log)
    return (Identities(table), position) if position != FIRST else (Identities(), FIRST)


def write(folder: Folder, log: RecordLog, newest: NewestRecords, identities: Identities, position: LogPosition) -> None:
    """Writes both as of a position; the identities become one table."""
    name = log.name()
    if name is None:
        return
    log.secure(position)  # a snapshot must not be ahead of the log
    taken = {"format": _FORMAT, "log": name.log, "tenant": name.tenant, "offset": format_offset(name.log, position), "records": len(identities)}
    table = identities.merged()
    folder.replace(IDENTITIES, _json(taken) + b"\n" + table)
    pairs = [{"kind": kind, "target": target, **latest._asdict()} for (kind, target), latest in sorted(newest.pairs.items(), key=lambda item: item[0])]
    folder.replace(INDEX, _json({**taken, "newest": pairs}) + b"\n")
    identities.table, identities.fresh = table, {}
    newest.since = 0


def _header(body: bytes | None) -> dict[str, Any]:
    try:
        fields = json.loads(body or b"{}")
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) and fields.get("format") == _FORMAT else {}


def _position(fields: dict[str, Any], log: RecordLog) -> LogPosition:
    name = log.name()
    if name is None or not fields:
        return FIRST
    try:
        position = parse_offset(name.log, str(fields.get("offset")))
    except OffsetUnknown:  # the snapshot is of another log
        return FIRST
    return position if log.between_lines(position) else FIRST


def _json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()
