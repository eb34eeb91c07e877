"""What a repository means, a second time and as simply as can be: a list that is looked through from end to end."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from tracelake_sdk.records import Aggregation, MetadataContext, MetadataRecord, PathFilter, RecordFilters, StoredRecord, Window
from tracelake_sdk.records.kinds import Kind

TALLY_1 = Kind(
    name="tally", owner="tests", description="Something was counted.", identity=["payload.check", "payload.group"],
    schema={
        "type": "object", "additionalProperties": False, "required": ["rows"],
        "properties": {
            "rows": {"type": ["number", "string", "boolean", "null"]}, "check": {"type": "string"}, "group": {"type": ["string", "null"]},
            "window_start": {"type": "string", "format": "date-time"}, "window_end": {"type": "string", "format": "date-time"},
            "slice_filter": {"type": "array"}, "nested": {"type": "object"}, "label": {"type": "string"},
        },
    },
)  # fmt: skip
TALLY_2 = TALLY_1.model_copy(update={
    "version": 2, "renames": {"label": "title"},
    "json_schema": {
        **TALLY_1.json_schema,
        "properties": {name: emitted for name, emitted in TALLY_1.json_schema["properties"].items() if name != "label"}
        | {"title": {"type": "string"}, "unit": {"type": "string", "default": "rows"}},
    },
})  # fmt: skip
NOTE = Kind(name="note", owner="tests", description="Something was noted.", schema={"type": "object"})


@dataclass(frozen=True)
class EmittedRecord:
    id: UUID
    record: MetadataRecord
    context: MetadataContext
    version: int

    @property
    def order(self) -> tuple[datetime, int]:
        return self.record.produced_at, self.id.int


@dataclass
class RecordModel:
    """Knows the kinds above."""

    emitted: list[EmittedRecord] = field(default_factory=list)  # as accepted
    newest: dict[str, int] = field(default_factory=lambda: {"tally": 1, "note": 1})

    def expected(self, record: MetadataRecord, context: MetadataContext) -> tuple[str, UUID | None]:
        """What storing it should say, and the id of the record that is in its way."""
        version = record.version or self.newest.get(record.kind, 0)
        if not 1 <= version <= self.newest.get(record.kind, 0) or not _valid(record.kind, record.payload, version):
            return "refused", None
        for known in self.emitted:
            if _about(known.record, known.context) == _about(record, context):
                return ("same" if _said(known.record, known.context) == _said(record, context) else "conflict"), known.id
        return "stored", None

    def accept(self, id: UUID, record: MetadataRecord, context: MetadataContext) -> None:
        self.emitted.append(EmittedRecord(id, record, context, record.version or self.newest[record.kind]))

    def latest(self, key: tuple[str, str, str], kind: str) -> EmittedRecord | None:
        return max((known for known in self.emitted if known.record.kind == kind and known.record.target.key == key), key=lambda known: known.order, default=None)

    def query(self, filters: RecordFilters) -> list[EmittedRecord]:
        return sorted((known for known in self.emitted if self._chosen(known, filters)), key=lambda known: known.order, reverse=True)

    def payload(self, known: EmittedRecord, version: int | None) -> dict[str, Any]:
        """As it is read in a version."""
        payload = dict(known.record.payload)
        if known.record.kind == "tally" and known.version == 1 and (version or self.newest["tally"]) == 2 and self.newest["tally"] == 2:
            if "label" in payload:
                payload["title"] = payload.pop("label")
            payload.setdefault("unit", "rows")
        return payload

    def version(self, known: EmittedRecord, version: int | None) -> int:
        return max(known.version, min(version or self.newest[known.record.kind], self.newest[known.record.kind]))

    def aggregate(self, filters: RecordFilters, wanted: Aggregation) -> list[tuple[dict[str, Any], Any, int]]:
        groups: dict[str, tuple[dict[str, Any], list[Any]]] = {}
        for known in self.query(filters):
            document = self._document(known, filters.kind_version)
            group = {name: self._group(known, document, name) for name in wanted.group_by}
            found = _walk(document, wanted.path.split(".")) if wanted.path else []
            groups.setdefault(_text(group), (group, []))[1].append(found[0] if found else None)
        if not groups and not wanted.group_by:
            groups[""] = ({}, [])
        return [(group, _computed(str(wanted.metric), values), len(values)) for _, (group, values) in sorted(groups.items(), key=lambda item: item[0].encode())]

    def _group(self, known: EmittedRecord, document: dict[str, Any], name: str) -> Any:
        plain = {
            "kind": known.record.kind, "target": list(known.record.target.key), "producer_id": known.record.producer_id,
            "day": known.record.produced_at.strftime("%Y-%m-%d"),
        }
        return plain[name] if name in plain else (_walk(document, name.split(".")) or [None])[0]

    def _document(self, known: EmittedRecord, version: int | None) -> dict[str, Any]:
        return {
            "payload": self.payload(known, version), "extras": known.record.extras,
            "target": json.loads(known.record.target.model_dump_json()),
            "context": {name: value for name, value in json.loads(known.context.model_dump_json()).items() if value is not None},
        }

    def _chosen(self, known: EmittedRecord, filters: RecordFilters) -> bool:
        source_id, schema, table = known.record.target.key
        plain = {
            "source_id": source_id, "schema_name": schema, "table": table, "producer_id": known.record.producer_id, "quality": known.record.quality,
            **{name: getattr(known.context, name) for name in ("job_id", "run_id", "namespace", "workspace", "cluster")},
        }
        if filters.kinds and known.record.kind not in filters.kinds:
            return False
        if any(getattr(filters, name) is not None and getattr(filters, name) != value for name, value in plain.items()):
            return False
        if filters.produced and not _holds(filters.produced, known.record.produced_at):
            return False
        payload = self.payload(known, filters.kind_version)
        if filters.window and not _overlap(filters.window, payload, known.record.produced_at):
            return False
        document = self._document(known, filters.kind_version)
        return all(_meets(condition, _walk(document, condition.path.split("."))) for condition in filters.where)


def same_record(found: StoredRecord, known: EmittedRecord, model: RecordModel, version: int | None = None) -> None:
    """Fails if a repository returns anything else than what was stored."""
    assert found.id == known.id
    assert _text(found.record.payload) == _text(model.payload(known, version))
    assert found.kind_version == model.version(known, version)
    assert found.record.target.key == known.record.target.key
    assert found.record.target.extras == known.record.target.extras
    assert found.record.produced_at == known.record.produced_at
    assert (found.record.kind, found.record.producer_id, found.record.quality) == (known.record.kind, known.record.producer_id, known.record.quality)
    assert _text(found.record.extras) == _text(known.record.extras)
    assert found.context == known.context


def _valid(kind: str, payload: dict[str, Any], version: int) -> bool:
    if kind == "note":
        return True
    known = {"rows", "check", "group", "window_start", "window_end", "slice_filter", "nested"} | ({"label"} if version == 1 else {"title", "unit"})
    return "rows" in payload and set(payload) <= known


def _about(record: MetadataRecord, context: MetadataContext) -> str:
    emitted = [record.kind, record.target.key, record.producer_id, context.run_id, *(record.payload.get(name) for name in ("window_start", "window_end", "slice_filter"))]
    if record.kind == "tally":
        emitted += [[record.payload[name]] if name in record.payload else [] for name in ("check", "group")]
    if context.run_id is None:
        emitted += [record.produced_at.isoformat(), _said(record, context)]
    return _text(emitted)


def _said(record: MetadataRecord, context: MetadataContext) -> str:
    said = json.loads(record.model_dump_json())
    del said["produced_at"], said["version"]
    return _text([said, json.loads(context.model_dump_json())])


def _text(value: Any) -> str:
    """1 and 1.0 differ."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _walk(document: Any, steps: Sequence[str]) -> list[Any]:
    """What is there, as a list of one or none."""
    for step in steps:
        if isinstance(document, list) and step.isdecimal() and step.isascii():
            if int(step) >= len(document):
                return []
            document = document[int(step)]
        elif isinstance(document, dict) and step in document:
            document = document[step]
        else:
            return []
    return [document]


def _meets(condition: PathFilter, found: list[Any]) -> bool:
    def equal(value: Any) -> bool:
        return bool(found) and (type(found[0]) is bool) == (type(value) is bool) and found[0] == value

    match str(condition.op):
        case "exists":
            return bool(found) is condition.value
        case "eq":
            return equal(condition.value)
        case "ne":
            return not equal(condition.value)
        case "in":
            return any(equal(value) for value in condition.value)
    comparable = bool(found) and ((_number(found[0]) and _number(condition.value)) or (isinstance(found[0], str) and isinstance(condition.value, str)))
    if not comparable:
        return False
    less, same = found[0] < condition.value, found[0] == condition.value
    return {"lt": less, "le": less or same, "gt": not less and not same, "ge": not less}[str(condition.op)]


def _number(value: Any) -> bool:
    return type(value) in (int, float)


def _holds(window: Window, moment: datetime) -> bool:
    return not ((window.start and moment < window.start) or (window.end and moment >= window.end))


def _overlap(window: Window, payload: dict[str, Any], produced_at: datetime) -> bool:
    start, end = (datetime.fromisoformat(payload[name]) if name in payload else None for name in ("window_start", "window_end"))
    if start is None and end is None:
        return _holds(window, produced_at)
    return not ((window.end and start and start >= window.end) or (window.start and end and end <= window.start))


def _computed(metric: str, values: list[Any]) -> Any:
    numbers = [value for value in values if _number(value)]
    match metric:
        case "count":
            return len(values)
        case "avg":
            return sum(numbers) / len(numbers) if numbers else None
        case _:
            return {"sum": sum, "min": min, "max": max}[metric](numbers) if numbers else None
