"""What makes two records the same: an identity for what they are about, and a hash of what they say."""

import hashlib
import json
from typing import Any

from tracelake_sdk.kinds import Kind
from tracelake_sdk.records import MetadataContext, MetadataRecord

NOWHERE = object()  # a path that leads to nothing, which is not the same as null
_NOT_SAID = {"produced_at", "version"}
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical(value: Any) -> bytes:
    """The same value is always the same bytes."""
    return _CANONICAL.encode(value).encode()


def at_path(document: Any, steps: list[str]) -> Any:
    """What a path leads to, or NOWHERE; a number among the steps counts items of a list."""
    for step in steps:
        if isinstance(document, dict) and step in document:
            document = document[step]
        elif isinstance(document, list) and step.isascii() and step.isdigit() and int(step) < len(document):
            document = document[int(step)]
        else:
            return NOWHERE
    return document


class Fingerprints:
    """What tells records of one context apart, and whether two say the same."""

    def __init__(self, context: MetadataContext) -> None:
        self._tenant: str = context.tenant
        self._run_id: str | None = context.run_id
        self._context: bytes = canonical(context.model_dump(mode="json"))

    def content(self, record: MetadataRecord) -> bytes:
        """Over all that was said but for `produced_at` and the schema's version, which a repetition may have otherwise."""
        said = canonical(record.model_dump(mode="json", exclude=_NOT_SAID))
        return hashlib.sha256(b"[" + said + b"," + self._context + b"]").digest()

    def identity(self, record: MetadataRecord, kind: Kind, content: bytes) -> bytes:
        """Over tenant, kind, target, producer, run, window, slice filter and the kind's own paths.

        Without a run id nothing tells tries apart: then the moment and the content are part of it, so that snapshots of
        one target accumulate.
        """
        payload = record.payload
        document = {"payload": payload, "extras": record.extras}
        window = [payload.get("window_start"), payload.get("window_end")]
        own = [None if (found := at_path(document, path.split("."))) is NOWHERE else [found] for path in kind.identity]
        parts: list[Any] = [self._tenant, record.kind, record.target.key, record.producer_id, self._run_id, window, payload.get("slice_filter"), own]
        if self._run_id is None:
            parts += [record.produced_at.isoformat(), content.hex()]
        return hashlib.sha256(canonical(parts)).digest()


def content_hash(record: MetadataRecord, context: MetadataContext) -> str:
    return Fingerprints(context).content(record).hex()


def identity_of(record: MetadataRecord, context: MetadataContext, kind: Kind) -> str:
    fingerprints = Fingerprints(context)
    return fingerprints.identity(record, kind, fingerprints.content(record)).hex()
