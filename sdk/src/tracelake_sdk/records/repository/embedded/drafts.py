"""A record between the call and its file and log line."""

from datetime import datetime
from uuid import UUID

from tracelake_sdk.errors.records import RecordConflict, RepositoryDamaged
from tracelake_sdk.records.record import MetadataContext, MetadataRecord, StoredRecord, StoreResult
from tracelake_sdk.records.repository.embedded.folders import RecordFile
from tracelake_sdk.records.repository.embedded.index import Entry
from tracelake_sdk.records.repository.embedded.layout import moment, record_path


class FiledRecord(StoredRecord):
    """A record as its file contains it, with its identity and content hash, so that the log can be rebuilt."""

    identity: str
    content: str


class Draft:
    """A valid record that is not stored yet."""

    def __init__(self, record: MetadataRecord, context: MetadataContext, kind_version: int, identity: str, content: str) -> None:
        self.record: MetadataRecord = record
        self.context: MetadataContext = context
        self.kind_version: int = kind_version
        self.identity: str = identity
        self.content: str = content
        self.file: RecordFile | None = None  # if it is the first of its identity

    def write(self, id: UUID, stored_at: datetime) -> RecordFile:
        stored = StoredRecord(id=id, record=self.record, context=self.context, stored_at=stored_at, kind_version=self.kind_version)
        body = f'{stored.model_dump_json()[:-1]},"identity":"{self.identity}","content":"{self.content}"}}\n'.encode()
        produced = moment(self.record.produced_at)
        self.file = RecordFile(id.hex, record_path(self.record.kind, self.record.target.key, produced, self.context.run_id), body)
        return self.file

    def entry(self) -> Entry:
        """The log entry, after its file has its final path."""
        if self.file is None:
            raise AssertionError("a draft without a file has no line")
        return _entry(self.record, self.context, self.file.id, self.identity, self.content, self.file.path)

    def outcome(self, logged: tuple[str, str] | None) -> StoreResult:
        """The result, from the content hash and id that are logged for its identity."""
        if logged is None:
            raise AssertionError("the identity of a logged record was not found")
        content, id = logged
        if self.file is not None and self.file.id == id:
            return StoreResult(result="stored", id=UUID(id))
        if content == self.content:
            return StoreResult(result="same", id=UUID(id))
        return StoreResult(result="conflict", id=UUID(id), problem=RecordConflict(stored_id=str(UUID(id))).problem())


def read_stored(body: bytes | None, id: str) -> StoredRecord:
    """The record in a file."""
    if body is None:
        raise RepositoryDamaged(f"The file of record {UUID(id)} is missing.")
    try:
        filed = FiledRecord.model_validate_json(body)
    except ValueError:
        raise RepositoryDamaged(f"The file of record {UUID(id)} cannot be read.") from None
    return StoredRecord.model_construct(
        id=filed.id, record=filed.record, context=filed.context, stored_at=filed.stored_at, kind_version=filed.kind_version
    )


def read_entry(body: bytes, path: str) -> Entry | None:
    """The log entry for a file; None if it is not the file of a record."""
    try:
        filed = FiledRecord.model_validate_json(body)
    except ValueError:
        return None
    return _entry(filed.record, filed.context, filed.id.hex, filed.identity, filed.content, path)


def _entry(record: MetadataRecord, context: MetadataContext, id: str, identity: str, content: str, path: str) -> Entry:
    return Entry(
        id, identity, content, record.kind, record.target.key, record.target.extras, moment(record.produced_at), record.producer_id,
        context.job_id, context.run_id, path,
    )  # fmt: skip
