"""Rebuilds the index of a folder from the log and the record files, and repairs what a crash left behind."""

from dataclasses import dataclass
from uuid import UUID

from tracelake_sdk.records.repository.embedded import snapshots
from tracelake_sdk.records.repository.embedded.cold_files import ColdFiles
from tracelake_sdk.records.repository.embedded.drafts import read_entry
from tracelake_sdk.records.repository.embedded.folders import Folder, is_staged
from tracelake_sdk.records.repository.embedded.index import Entry, Follower, Identities, NewestRecords, RecordCatalog
from tracelake_sdk.records.repository.embedded.layout import FIRST, RECORDS, record_path, second_path
from tracelake_sdk.records.repository.embedded.segments import RecordLog, json_line


@dataclass(frozen=True)
class Rebuilt:
    """The result of a rebuild."""

    records: int
    as_indexed: bool  # the previous index was equal
    removed: int      # files of records that were neither logged nor acknowledged
    logged: int       # files that had no line, and have one now
    repaired: int     # lines that could not be read, and were blanked out


def rebuild(folder: Folder, log: RecordLog, tenant: str) -> Rebuilt:
    """The caller holds the writer's lock."""
    repaired = log.repair()
    before = _as_indexed(folder, log)
    follower, newest, identities, catalog = Follower(log), NewestRecords(), Identities(), RecordCatalog()
    for view in (newest, identities, catalog):
        follower.add(view, FIRST)
    as_indexed = before == (newest.pairs, identities.merged())
    named = {listed.id: listed.path for pair in catalog.pairs.values() for listed in pair}
    there = folder.paths("")
    removed = _clear_away(folder, [path for path in there if is_staged(path)], named)
    paths = {*named.values(), *removed}
    unnamed = [path for path in there if path.startswith(f"{RECORDS}/") and path.endswith(".json") and path not in paths]
    cold = _cold_entries(folder, named) if repaired or not named else []  # an undamaged log already names them
    logged, spare = _log_files(folder, log, tenant, follower, identities, unnamed, cold)
    snapshots.write(folder, log, newest, identities, follower.position)
    return Rebuilt(len(identities), as_indexed, len(removed) + spare, logged, repaired)


def _as_indexed(folder: Folder, log: RecordLog) -> tuple[object, bytes]:
    """The records that a process that uses the snapshots would find."""
    follower = Follower(log)
    newest, newest_place = snapshots.read_newest(folder, log)
    identities, identities_place = snapshots.read_identities(folder, log)
    follower.add(newest, newest_place)
    follower.add(identities, identities_place)
    return newest.pairs, identities.merged()


def _clear_away(folder: Folder, staged: list[str], named: dict[str, str]) -> list[str]:
    """Deletes staged files of writers that ended before they logged, and temporary files; a living writer checks its files while it holds the lock."""
    removed: list[str] = []
    for path in staged:
        entry = read_entry(folder.read(path) or b"", path)
        if entry is not None and entry.id not in named:
            wanted = record_path(entry.kind, entry.target, entry.produced, entry.run_id)
            for name in (wanted, second_path(wanted, entry.id)):
                found = read_entry(folder.read(name) or b"", name)
                if found is not None and found.id == entry.id:
                    removed.append(name)
    folder.delete([*removed, *staged])  # staged names last: without them the others would look like records
    return removed


def _cold_entries(folder: Folder, named: dict[str, str]) -> list[Entry]:
    """Entries of compacted records that the log does not name."""
    rows = ColdFiles(folder).every_row()
    found = [read_entry(row["body"].encode(), row["path"]) for row in rows if UUID(row["id"]).hex not in named]
    return [entry for entry in found if entry is not None]


def _log_files(
    folder: Folder, log: RecordLog, tenant: str, follower: Follower, identities: Identities, paths: list[str], cold: list[Entry]
) -> tuple[int, int]:
    """Logs complete records that the log does not name: it was damaged, or their writer died in an object store. In the order of their ids."""
    bodies = folder.read_many(paths)
    files = [entry for path, body in zip(paths, bodies, strict=True) if body is not None and (entry := read_entry(body, path)) is not None]
    here = {entry.path for entry in files}
    logged = spare = 0
    for entry in sorted({entry.id: entry for entry in [*cold, *files]}.values()):
        while (same := identities.find(entry.identity)) is None:
            logged += _append(log, tenant, follower, entry)
        if entry.path in here and same[0] == entry.content and same[1] != entry.id:
            folder.delete([entry.path])
            spare += 1
    return logged, spare


def _append(log: RecordLog, tenant: str, follower: Follower, entry: Entry) -> int:
    """Returns how many entries were appended: 0 if another process appended first, in an object store."""
    end = log.append(follower.position, [json_line(entry.fields())], tenant)
    if end is None:
        follower.poll()
        return 0
    follower.advance([entry], end)
    return 1
