"""Records as table rows: subjects, retention, and the line of COPY. Pure."""

import hashlib
import re
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from tracelake_sdk.records import MetadataContext, MetadataRecord
from tracelake_sdk.records.identity import canonical
from tracelake_sdk.records.kinds import Kind
from tracelake_sdk.records.matching import own_window

LAKE = "lake"  # the source of targets that are datasets
# The cells of a line, in their order.
COLUMNS = (
    "retention_class", "id", "org_id", "kind", "kind_version", "target_key", "source_id", "schema_name", "table_name", "producer_id", "produced_at",
    "quality", "window_start", "window_end", "dataset_ids", "record", "job_id", "run_id", "namespace", "cluster", "workspace", "context", "stored_at",
)  # fmt: skip
_NOTHING = r"\N"
_ESCAPED = re.compile(r"\\(.)")
_MEANT = {"t": "\t", "n": "\n", "r": "\r"}


class RecordIdentity(NamedTuple):
    """The identity of a record, by which a repeated one is recognized."""

    key: bytes
    content: bytes
    id: UUID
    retention_class: str


class LatestEntry(NamedTuple):
    """A record that may be the newest of its kind about its target."""

    kind: str
    target_key: UUID
    produced_at: datetime
    id: UUID
    retention_class: str
    target: str             # as JSON
    dataset_ids: str | None  # as a literal


def retention_class(kind: Kind) -> str:
    """The partitions that contain its records."""
    retention = kind.retention
    return "full" if retention.keep == "full" else f"{retention.then}_{retention.days}"


@lru_cache(maxsize=10_000)
def target_key(target: tuple[str, str, str]) -> UUID:
    """Short enough for an index."""
    return UUID(bytes=hashlib.sha256(canonical(target)).digest()[:16])


def subjects_of(record: MetadataRecord) -> list[UUID]:
    """What a caller must be allowed to see in order to see the record: the target dataset, and those that `extras.dataset` and `extras.dag` name."""
    target = record.target.table if record.target.source_id == LAKE else None
    named = [record.extras.get("dataset"), record.extras.get("dag")]
    if target is None and not any(named):
        return []
    found = {_uuid(target), *(_uuid(one.get("uuid")) for one in named if isinstance(one, dict))}
    return sorted(id for id in found if id is not None)


class CopyLines:
    """Lines of COPY for records of one org that are stored in one context at one moment."""

    def __init__(self, org: UUID, context: MetadataContext, at: datetime) -> None:
        self._org: str = str(org)
        cells = (context.job_id, context.run_id, context.namespace, context.cluster, context.workspace)
        self._rest: str = "\t".join([*(_cell(cell) for cell in cells), _json_cell(context.model_dump_json()), at.isoformat()]) + "\n"

    def line(self, record: MetadataRecord, content: str, kind: Kind, retention_class: str, id: UUID, dataset_ids: str | None) -> str:
        """`content` is the record's JSON without its time and version."""
        target, produced_at = record.target.key, record.produced_at.isoformat()
        source, schema, table = target
        spelt = f'{{"produced_at":"{produced_at}","version":{record.version or "null"},{content[1:]}'
        return (
            f"{retention_class}\t{id.int:032x}\t{self._org}\t{record.kind}\t{kind.version}\t{_target_cell(target)}\t{_cell(source)}\t{_cell(schema)}\t{_cell(table)}"
            f"\t{record.producer_id}\t{produced_at}\t{record.quality.value if record.quality else _NOTHING}"
            f"\t{_window(record.payload)}\t{dataset_ids or _NOTHING}\t{_json_cell(spelt)}\t{self._rest}"
        )


def cells_of(line: str) -> dict[str, str | None]:
    """A line of COPY as values by column, for a statement that takes one record."""
    return {column: _value(cell) for column, cell in zip(COLUMNS, line[:-1].split("\t"), strict=True)}


def _value(cell: str) -> str | None:
    if "\\" not in cell:
        return cell
    return None if cell == _NOTHING else _ESCAPED.sub(lambda found: _MEANT.get(found[1], found[1]), cell)


@lru_cache(maxsize=10_000)
def _target_cell(target: tuple[str, str, str]) -> str:
    return str(target_key(target))


def _window(payload: dict[str, Any]) -> str:
    """Both sides, as cells."""
    start, end = own_window(payload)
    return f"{start.isoformat() if start else _NOTHING}\t{end.isoformat() if end else _NOTHING}"


def array_literal(ids: list[UUID]) -> str | None:
    return f"{{{','.join(map(str, ids))}}}" if ids else None


def _uuid(text: Any) -> UUID | None:
    """In any spelling: another spelling of a uuid must not make a record visible."""
    try:
        return UUID(text) if isinstance(text, str) else None
    except ValueError:
        return None


@lru_cache(maxsize=10_000)
def _cell(text: str | None) -> str:
    if text is None:
        return _NOTHING
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def _json_cell(text: str) -> str:
    # JSON escapes tabs and newlines itself.
    return text.replace("\\", "\\\\")
