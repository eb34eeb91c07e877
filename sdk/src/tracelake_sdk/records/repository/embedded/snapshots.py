"""Snapshots of the index: what spares a process from reading the log from its beginning. They may be lost or old, and are never the truth."""

import json
from typing import Any

from tracelake_sdk.errors.records import OffsetUnknown
from tracelake_sdk.records.repository.embedded.folders import Folder
from tracelake_sdk.records.repository.embedded.index import Identities, Latest, Newest
from tracelake_sdk.records.repository.embedded.layout import FIRST, IDENTITIES, INDEX, LogPosition, read_offset, spell_offset
from tracelake_sdk.records.repository.embedded.segments import RecordLog

_FORMAT = 1


def read_newest(folder: Folder, log: RecordLog) -> tuple[Newest, LogPosition]:
    """As `index.json` has it, and the position at which it was taken; empty and from the beginning where there is none for this log."""
    says = _header(folder.read(INDEX))
    position = _position(says, log)
    if position == FIRST or "newest" not in says:
        return Newest(), FIRST
    pairs = {
        (found["kind"], tuple(found["target"])): Latest(found["produced"], found["id"], found["path"], found["target_extras"])
        for found in says["newest"]
    }
    return Newest(pairs), position


def read_identities(folder: Folder, log: RecordLog) -> tuple[Identities, LogPosition]:
    header, _, table = (folder.read(IDENTITIES) or b"").partition(b"\n")
    position = _position(_header(header), log)
    return (Identities(table), position) if position != FIRST else (Identities(), FIRST)


def write(folder: Folder, log: RecordLog, newest: Newest, identities: Identities, position: LogPosition) -> None:
    """Both, as they are at a position; the identities become one table."""
    name = log.name()
    if name is None:
        return
    log.secure(position)  # a snapshot must not know more than the log
    taken = {"format": _FORMAT, "log": name.log, "tenant": name.tenant, "offset": spell_offset(name.log, position), "records": len(identities)}
    table = identities.merged()
    folder.replace(IDENTITIES, _spell(taken) + b"\n" + table)
    pairs = [{"kind": kind, "target": target, **latest._asdict()} for (kind, target), latest in sorted(newest.pairs.items(), key=lambda item: item[0])]
    folder.replace(INDEX, _spell({**taken, "newest": pairs}) + b"\n")
    identities.table, identities.fresh = table, {}
    newest.since = 0


def _header(body: bytes | None) -> dict[str, Any]:
    try:
        says = json.loads(body or b"{}")
    except ValueError:
        return {}
    return says if isinstance(says, dict) and says.get("format") == _FORMAT else {}


def _position(says: dict[str, Any], log: RecordLog) -> LogPosition:
    name = log.name()
    if name is None or not says:
        return FIRST
    try:
        position = read_offset(name.log, str(says.get("offset")))
    except OffsetUnknown:  # of a log that is gone
        return FIRST
    return position if log.between_lines(position) else FIRST


def _spell(says: dict[str, Any]) -> bytes:
    return json.dumps(says, separators=(",", ":"), ensure_ascii=False).encode()
