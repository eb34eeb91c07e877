"""What makes two records the same: an identity for their subject, and a hash of their content."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

from tracelake_sdk.records.kinds import Kind
from tracelake_sdk.records.record import MetadataContext, MetadataRecord

NOWHERE = object()  # the path does not exist, which differs from null
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical(value: Any) -> bytes:
    """Canonical JSON: equal values have equal bytes."""
    return _CANONICAL.encode(value).encode()


def at_path(document: Any, steps: list[str]) -> Any:
    """The value at a path, or NOWHERE; a number in a path is an index of a list."""
    for step in steps:
        if isinstance(document, dict) and step in document:
            document = document[step]
        elif isinstance(document, list) and step.isascii() and step.isdigit() and int(step) < len(document):
            document = document[int(step)]
        else:
            return NOWHERE
    return document


class Fingerprints:
    """Identity and content hash of records of one context; `spell` must return the same bytes as `canonical`."""

    def __init__(self, context: MetadataContext, *, spell: Callable[[Any], bytes] = canonical) -> None:
        self._spell: Callable[[Any], bytes] = spell
        self._tenant: str = context.tenant
        self._run_id: str | None = context.run_id
        self._context: bytes = canonical(context.model_dump(mode="json"))
        self._beginnings: dict[tuple[str, tuple[str, str, str], str], bytes] = {}

    def content_json(self, record: MetadataRecord) -> bytes:
        """The record as JSON, without `produced_at` and the schema's version, which may differ if it is emitted again."""
        source, schema, table = record.target.key
        return self._spell({
            "target": {"source_id": source, "schema": schema, "table": table, "extras": record.target.extras},
            "kind": record.kind,
            "payload": record.payload,
            "producer_id": record.producer_id,
            "quality": record.quality,
            "extras": record.extras,
        })  # fmt: skip

    def content(self, record: MetadataRecord) -> bytes:
        return self.content_of(self.content_json(record))

    def content_of(self, content_json: bytes) -> bytes:
        return hashlib.sha256(b"[" + content_json + b"," + self._context + b"]").digest()

    def identity(self, record: MetadataRecord, kind: Kind, content: bytes) -> bytes:
        """Over tenant, kind, target, producer, run, window, slice filter and the kind's own paths.

        Without a run id attempts cannot be distinguished: then the time and the content are part of it, so that snapshots of
        one target accumulate.
        """
        payload = record.payload
        own: list[Any] = []
        if kind.identity:
            document = {"payload": payload, "extras": record.extras}
            own = [None if (found := at_path(document, path.split("."))) is NOWHERE else [found] for path in kind.identity]
        rest: list[Any] = [[payload.get("window_start"), payload.get("window_end")], payload.get("slice_filter"), own]
        if self._run_id is None:
            rest += [record.produced_at.isoformat(), content.hex()]
        return hashlib.sha256(self._beginning(record) + self._spell(rest)[1:]).digest()

    def _beginning(self, record: MetadataRecord) -> bytes:
        """The part of the identity that many records share."""
        key = (record.kind, record.target.key, record.producer_id)
        beginning = self._beginnings.get(key)
        if beginning is None:
            beginning = self._beginnings[key] = canonical([self._tenant, *key, self._run_id])[:-1] + b","
        return beginning


def content_hash(record: MetadataRecord, context: MetadataContext) -> str:
    return Fingerprints(context).content(record).hex()


def identity_of(record: MetadataRecord, context: MetadataContext, kind: Kind) -> str:
    fingerprints = Fingerprints(context)
    return fingerprints.identity(record, kind, fingerprints.content(record)).hex()
