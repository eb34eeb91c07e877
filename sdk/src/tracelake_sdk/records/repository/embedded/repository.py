"""The embedded repository: records as files, found through an index that follows the log."""

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self

from tracelake_sdk.errors import TracelakeError
from tracelake_sdk.errors.records import OffsetUnknown, RecordConflict, TenantMismatch
from tracelake_sdk.records.identity import Fingerprints, canonical
from tracelake_sdk.records.ids import RecordIds
from tracelake_sdk.records.kinds import Kind
from tracelake_sdk.records.kinds.governance import upcast
from tracelake_sdk.records.matching import aggregate, matches
from tracelake_sdk.records.record import (
    LARGEST_RECORD,
    Aggregate,
    Aggregation,
    MetadataContext,
    MetadataRecord,
    MetadataTarget,
    RecordFilters,
    RecordPage,
    StoredRecord,
    StoreResult,
    TailPage,
    Window,
)
from tracelake_sdk.records.repository.admission import RecordAdmission, same_tenant, small_enough
from tracelake_sdk.records.repository.embedded import snapshots
from tracelake_sdk.records.repository.embedded.cold_files import ColdFiles, DroppedRecords, read_bodies
from tracelake_sdk.records.repository.embedded.compaction import Compacted, Compacting, FolderCompaction
from tracelake_sdk.records.repository.embedded.drafts import Draft, read_stored
from tracelake_sdk.records.repository.embedded.folders import Folder, Watch
from tracelake_sdk.records.repository.embedded.index import Entry, Follower, Identities, Latest, Listed, NewestRecords, Pair, RecordCatalog
from tracelake_sdk.records.repository.embedded.kind_files import KindFiles
from tracelake_sdk.records.repository.embedded.layout import FIRST, format_offset, format_page, moment, parse_offset, parse_page
from tracelake_sdk.records.repository.embedded.opening import open_folder
from tracelake_sdk.records.repository.embedded.rebuilding import Rebuilt, rebuild
from tracelake_sdk.records.repository.embedded.segments import SEGMENT_BYTES, RecordLog, json_line

_AT_ONCE = 1000          # records of a bulk that are logged in one write
_BLOCK = 256             # files of a query that are read together
SNAPSHOT_RECORDS = 2000  # since the last snapshot; grows with the repository, so that the cost per record stays the same
_SNAPSHOT_SHARE = 50
_SNAPSHOT_AT_CLOSE = 200
_SURELY_SMALL = LARGEST_RECORD // 2  # bytes of the content, which is most of a record's JSON


def _now() -> datetime:
    return datetime.now(UTC)


class EmbeddedRepository:
    """A MetadataRepository in a folder, or under a prefix of an object store. Threads and processes may share it.

    Stored records survive the end of the process; with `fsync` also a power loss. The keys and the endpoint of an object store
    come from the usual environment variables, or from `options` by the store's own names.
    """

    def __init__(
        self,
        url_or_folder: str | Path,
        *,
        tenant: str,
        fsync: bool = False,
        options: Mapping[str, str] | None = None,
        now: Callable[[], datetime] = _now,
        segment_bytes: int = SEGMENT_BYTES,
        snapshot_records: int = SNAPSHOT_RECORDS,
        watch: Watch = lambda moment: None,
    ) -> None:
        self.tenant: str = tenant
        self._now: Callable[[], datetime] = now
        self._folder: Folder
        self._log: RecordLog
        self._folder, self._log = open_folder(url_or_folder, fsync=fsync, options=options or {}, segment_bytes=segment_bytes, watch=watch)
        self._lock: threading.RLock = threading.RLock()
        self._admission: RecordAdmission = RecordAdmission(now)
        self._ids: RecordIds = RecordIds()
        self._kinds: KindFiles = KindFiles(self._folder)
        self._cold: ColdFiles = ColdFiles(self._folder)
        self._watch: Watch = watch
        self._stored: bool = False
        self._snapshot_records: int = snapshot_records
        self._start_over()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # Kinds
    def kinds(self) -> list[Kind]:
        with self._at_work():
            return [self._kinds.get(name) for name in self._kinds.names()]

    def kind(self, name: str, version: int | None = None) -> Kind:
        with self._at_work():
            return self._kinds.get(name, version)

    def register(self, kind: Kind, *, check_only: bool = False) -> Kind:
        with self._at_work(), self._log.turn():
            return self._kinds.register(kind, check_only=check_only)

    # Records
    def store(self, record: MetadataRecord, context: MetadataContext) -> StoreResult:
        with self._at_work(context):
            [result] = self._store([self._draft(record, Fingerprints(context), context)])
        if result.result == "conflict":
            raise RecordConflict(stored_id=str(result.id))
        return result

    def bulk_store(self, records: Sequence[MetadataRecord], context: MetadataContext) -> list[StoreResult]:
        results: list[StoreResult] = []
        for first in range(0, len(records), _AT_ONCE):
            with self._at_work(context):
                results += self._bulk(records[first : first + _AT_ONCE], context)
        return results

    def latest(self, target: MetadataTarget, kind: str, context: MetadataContext) -> StoredRecord | None:
        with self._at_work(context):
            self._kinds.get(kind)
            newest = self._loaded_newest()
            self._follower.poll()
            found = newest.pairs.get((kind, target.key))
            if found is None:
                return None
            [body] = read_bodies(self._folder, self._cold, [(found.id, found.path)])
            if body is None and DroppedRecords.read(self._folder).gone(kind, found.id):  # an older record may have been stored later
                return next(self._chosen(RecordFilters(kinds=[kind], source_id=target.source_id, schema=target.schema_name, table=target.table, limit=1)), None)
            return self._in_version(read_stored(body, found.id), None)

    def history(self, target: MetadataTarget, kind: str, context: MetadataContext, limit: int = 100, window: Window | None = None) -> RecordPage:
        self.kind(kind)
        filters = RecordFilters(kinds=[kind], source_id=target.source_id, schema=target.schema_name, table=target.table, limit=limit, window=window)
        return self.query(filters, context)

    def query(self, filters: RecordFilters, context: MetadataContext) -> RecordPage:
        with self._at_work(context):
            dropped = DroppedRecords.read(self._folder)
            found = list(islice(self._chosen(filters, dropped), filters.limit + 1))
        page = found[: filters.limit]
        more = len(found) > len(page)
        after = format_page(moment(page[-1].record.produced_at), page[-1].id.hex) if more else None
        return RecordPage(items=page, next=after, dropped=dropped.spans(filters))

    def aggregate(self, filters: RecordFilters, aggregation: Aggregation, context: MetadataContext) -> list[Aggregate]:
        with self._at_work(context):
            return aggregate(self._chosen(filters.model_copy(update={"page": None})), aggregation)

    def targets(self, context: MetadataContext, kind: str | None = None) -> list[MetadataTarget]:
        with self._at_work(context):
            newest = self._loaded_newest()
            self._follower.poll()
            dropped = DroppedRecords.read(self._folder)
            described = sorted(
                (target, latest) for (of_kind, target), latest in newest.pairs.items() if kind in (None, of_kind) and self._is_left(of_kind, target, latest, dropped)
            )
        extras = {target: latest.target_extras for target, latest in described}  # from the newest record
        return [MetadataTarget(source_id=target[0], schema=target[1], table=target[2], extras=found) for target, found in extras.items()]

    def tail(self, context: MetadataContext, offset: str | None = None, *, kinds: Sequence[str] = (), limit: int = 1000) -> TailPage:
        with self._at_work(context):
            position = parse_offset(self._log_id(), offset)
            if not self._log.between_lines(position):
                raise OffsetUnknown
            taken: list[Entry] = []
            dropped = DroppedRecords.read(self._folder)
            while len(taken) < limit and (chunk := self._log.read(position)).end != position:
                position = chunk.end
                for line in chunk.lines:
                    if (entry := Entry.of(line.fields)) is not None and (not kinds or entry.kind in kinds) and not dropped.gone(entry.kind, entry.id):
                        taken.append(entry)
                        if len(taken) == limit:
                            position = line.behind
                            break
            bodies = read_bodies(self._folder, self._cold, [(entry.id, entry.path) for entry in taken])
            items = [self._in_version(read_stored(body, entry.id), None) for entry, body in zip(taken, bodies, strict=True)]
            return TailPage(items=items, offset=format_offset(self._log_id(), position))  # read again: the log may have been created in between

    def rebuild(self) -> Rebuilt:
        """Rebuilds the index from the log and the record files, ignoring the snapshots, and repairs what a crash left."""
        with self._at_work(), self._log.turn():
            rebuilt = rebuild(self._folder, self._log, self.tenant)
            self._start_over()
            return rebuilt

    def compact(self, compacting: Compacting, *, older_than: timedelta | None = None, check_only: bool = False) -> Compacted:
        """Turns files of old records into Parquet files, by the retention of their kinds; reads return the same as before. Raises CompactionFailed.

        `check_only` returns what would be done and changes nothing.
        """
        with self._at_work():
            catalog = self._loaded_catalog()
            self._follower.poll()
            listed = [(pair, found) for pair, some in catalog.pairs.items() for found in some]
            retentions = {kind: self._kinds.get(kind).retention for kind in {pair[0] for pair in catalog.pairs}}
        compaction = FolderCompaction(self._folder, listed, compacting, self._watch, self._now())
        return compaction.preview(retentions, older_than) if check_only else compaction.run(retentions, older_than)

    def close(self) -> None:
        """Writes a snapshot for the next process, if this one has stored many records."""
        with self._lock:
            if self._stored and self._identities is not None and len(self._identities.fresh) >= _SNAPSHOT_AT_CLOSE:
                self._take_snapshot()
            self._stored = False
            self._log.close()

    # Internals
    @contextmanager
    def _at_work(self, context: MetadataContext | None = None) -> Generator[None]:
        with self._lock:
            if context is not None:
                same_tenant(context, self.tenant)
            name = self._log.name()
            if name is not None and name.tenant != self.tenant:
                raise TenantMismatch("The folder belongs to another tenant; use one folder for each tenant.")
            self._kinds.look_again()
            yield

    def _log_id(self) -> str | None:
        name = self._log.name()
        return name.log if name else None

    def _start_over(self) -> None:
        self._follower: Follower = Follower(self._log)
        self._newest: NewestRecords | None = None
        self._identities: Identities | None = None
        self._catalog: RecordCatalog | None = None

    def _loaded_newest(self) -> NewestRecords:
        if self._newest is None:
            newest, position = snapshots.read_newest(self._folder, self._log)
            self._follower.add(newest, position)
            self._newest = newest
        return self._newest

    def _loaded_identities(self) -> Identities:
        if self._identities is None:
            identities, position = snapshots.read_identities(self._folder, self._log)
            self._follower.add(identities, position)
            self._identities = identities
        return self._identities

    def _loaded_catalog(self) -> RecordCatalog:
        if self._catalog is None:
            catalog = RecordCatalog()
            self._follower.add(catalog, FIRST)
            self._catalog = catalog
        return self._catalog

    def _draft(self, record: MetadataRecord, fingerprints: Fingerprints, context: MetadataContext) -> Draft:
        """Raises the errors of `store`, except a conflict."""
        kind = self._kinds.get(record.kind, record.version)
        self._admission.judge(record, kind)
        content_json = fingerprints.content_json(record)
        if len(content_json) > _SURELY_SMALL:
            small_enough(canonical(record.model_dump(mode="json")))
        content = fingerprints.content_of(content_json)
        return Draft(record, context, kind.version, fingerprints.identity(record, kind, content).hex(), content.hex())

    def _bulk(self, records: Sequence[MetadataRecord], context: MetadataContext) -> list[StoreResult]:
        fingerprints = Fingerprints(context)
        drafts: list[Draft] = []
        refused: dict[int, StoreResult] = {}
        for position, record in enumerate(records):
            try:
                drafts.append(self._draft(record, fingerprints, context))
            except TracelakeError as error:
                refused[position] = StoreResult(result="refused", problem=error.problem())
        stored = iter(self._store(drafts))
        return [refused[position] if position in refused else next(stored) for position in range(len(records))]

    def _store(self, drafts: Sequence[Draft]) -> list[StoreResult]:
        """Writes the files first, then their lines in one write; a record exists once its line does."""
        identities = self._loaded_identities()
        self._follower.poll()
        self._snapshot_if_due(identities)
        first: dict[str, Draft] = {}
        for draft in drafts:
            if identities.find(draft.identity) is None:
                first.setdefault(draft.identity, draft)
        if first:
            files = [draft.write(self._ids.new(), self._now()) for draft in first.values()]
            self._folder.stage(files)
            self._log_them(list(first.values()), identities)
            logged = {id for identity in first if (found := identities.find(identity)) is not None for id in found[1:]}
            self._folder.keep([file for file in files if file.id in logged])
            self._folder.discard([file for file in files if file.id not in logged])
            self._stored = True
        return [draft.outcome(identities.find(draft.identity)) for draft in drafts]

    def _log_them(self, drafts: list[Draft], identities: Identities) -> None:
        """The drafts whose identities no other process has logged in between."""
        with self._log.turn():
            while True:
                self._follower.poll()
                left = [draft for draft in drafts if identities.find(draft.identity) is None]
                if not left:
                    return
                self._folder.stage([file for draft in left if (file := draft.file) is not None and not self._folder.staged(file)])
                entries = [draft.entry() for draft in left]
                end = self._log.append(self._follower.position, [json_line(entry.fields()) for entry in entries], self.tenant)
                if end is not None:
                    self._follower.advance(entries, end)
                    return

    def _snapshot_if_due(self, identities: Identities) -> None:
        # Before anything is stored: if it fails, nothing was stored.
        if len(identities.fresh) >= max(self._snapshot_records, len(identities) // _SNAPSHOT_SHARE):
            self._take_snapshot()

    def _take_snapshot(self) -> None:
        newest, identities = self._loaded_newest(), self._loaded_identities()
        with self._log.turn():
            snapshots.write(self._folder, self._log, newest, identities, self._follower.position)

    def _is_left(self, kind: str, target: tuple[str, str, str], latest: Latest, dropped: DroppedRecords) -> bool:
        """Whether a record of a kind about a target still exists."""
        if not dropped.gone(kind, latest.id):
            return True
        catalog = self._loaded_catalog()
        self._follower.poll()
        return any(not dropped.gone(kind, found.id) for found in catalog.pairs[kind, target])

    def _chosen(self, filters: RecordFilters, dropped: DroppedRecords | None = None) -> Iterator[StoredRecord]:
        """The records that match the filters, newest first, ignoring their limit."""
        catalog = self._loaded_catalog()
        self._follower.poll()
        before = None if filters.page is None else parse_page(filters.page)
        gone = (dropped or DroppedRecords.read(self._folder)).gone
        pairs = [pair for pair in catalog.pairs if _may_match(pair, filters)]
        listed = (found for pair, found in catalog.newest_first(pairs, before) if _may_hold(found, filters) and not gone(pair[0], found.id))
        while block := list(islice(listed, min(filters.limit + 1, _BLOCK))):
            bodies = read_bodies(self._folder, self._cold, [(found.id, found.path) for found in block])
            for found, body in zip(block, bodies, strict=True):
                stored = self._in_version(read_stored(body, found.id), filters.kind_version)
                if matches(stored, filters):
                    yield stored

    def _in_version(self, stored: StoredRecord, version: int | None) -> StoredRecord:
        return upcast(stored, self._kinds.versions(stored.record.kind), version)


def _may_match(pair: Pair, filters: RecordFilters) -> bool:
    kind, (source_id, schema, table) = pair
    return (
        (not filters.kinds or kind in filters.kinds)
        and filters.source_id in (None, source_id)
        and filters.schema_name in (None, schema)
        and filters.table in (None, table)
    )


def _may_hold(found: Listed, filters: RecordFilters) -> bool:
    """Filters by the fields of the index; the other filters need the record itself."""
    produced = filters.produced
    return (
        filters.producer_id in (None, found.producer_id)
        and filters.job_id in (None, found.job_id)
        and filters.run_id in (None, found.run_id)
        and (produced is None or produced.start is None or moment(produced.start) <= found.produced)
        and (produced is None or produced.end is None or found.produced < moment(produced.end))
    )
