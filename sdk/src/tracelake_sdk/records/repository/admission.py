"""Checks before a record is stored: its tenant, its clock, its kind and its payload. Every repository uses them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice

import jsonschema_rs

from tracelake_sdk.bounded_cache import BoundedCache
from tracelake_sdk.errors.records import ClockAhead, RecordRefused, TenantMismatch
from tracelake_sdk.records.kinds import Kind
from tracelake_sdk.records.record import LARGEST_RECORD, MetadataContext, MetadataRecord

AHEAD = timedelta(minutes=5)  # allowed clock skew
SYSTEM = "tracelake."          # prefix of the system's own producers
_MOST_FINDINGS = 3
_MOST_KEPT = 1000  # schemas
_MASK = "the value"  # values of a payload never appear in an error


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass
class RecordAdmission:
    """Validates records against their kinds; caches compiled schemas."""

    now: Callable[[], datetime] = _now
    _validators: BoundedCache[int, tuple[Kind, jsonschema_rs.Draft202012Validator]] = field(default_factory=lambda: BoundedCache(_MOST_KEPT))

    def judge(self, record: MetadataRecord, kind: Kind) -> None:
        """Raises ClockAhead or RecordRefused."""
        # The system's own records have times of its database's clock, so the local clock must not refuse them.
        if record.produced_at > self.now() + AHEAD and not record.producer_id.startswith(SYSTEM):
            raise ClockAhead
        validator = self._validator(kind)
        if not validator.is_valid(record.payload):
            found = [f"{_place(error.instance_path)}: {error.message}" for error in islice(validator.iter_errors(record.payload), _MOST_FINDINGS)]
            raise RecordRefused(f"The payload does not match {kind.name} version {kind.version}: {'; '.join(found)}.", kind=kind.name, kind_version=kind.version)

    def _validator(self, kind: Kind) -> jsonschema_rs.Draft202012Validator:
        # Keyed by the object's id: repositories cache their kinds, and comparing schemas would cost more than validating. The entry holds the object, so that its id is not reused.
        return self._validators.find_or_make(id(kind), lambda: (kind, _compiled(kind)))[1]


def _compiled(kind: Kind) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(kind.json_schema, validate_formats=True, mask=_MASK)


def small_enough(spelt: bytes) -> None:
    """Raises RecordRefused for a record whose JSON is too large."""
    if len(spelt) > LARGEST_RECORD:
        raise RecordRefused(f"The record is larger than {LARGEST_RECORD // 1024} KiB; make it smaller, or store it as a dataset.")


def same_tenant(context: MetadataContext, tenant: str) -> None:
    """Raises TenantMismatch."""
    if context.tenant != tenant:
        raise TenantMismatch


def _place(path: list[str | int]) -> str:
    return ".".join(["payload", *(str(step) for step in path)])
