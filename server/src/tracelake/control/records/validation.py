"""Validates records before they are stored: each is refused, or accepted with its identity and its COPY line. Pure except for the clock."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from tracelake.control.records.canonical_json import canonical_json
from tracelake.control.records.catalogs import TenantKinds
from tracelake.control.records.copy_lines import CopyLines, RecordIdentity, array_literal, retention_class, subjects_of
from tracelake_sdk.errors import TracelakeError
from tracelake_sdk.records import LARGEST_RECORD, MetadataContext, MetadataRecord, StoreResult
from tracelake_sdk.records.identity import Fingerprints, canonical
from tracelake_sdk.records.ids import RecordIds
from tracelake_sdk.records.kinds import Kind
from tracelake_sdk.records.repository.admission import RecordAdmission, small_enough

_SURELY_SMALL = LARGEST_RECORD // 2  # bytes of content; below this the exact size need not be checked


class AcceptedRecord(NamedTuple):
    """A valid record, ready to store."""

    position: int  # among the given records
    record: MetadataRecord
    identity: RecordIdentity
    line: str
    dataset_ids: str | None


@dataclass(frozen=True)
class RecordValidation:
    admission: RecordAdmission
    ids: RecordIds

    def validate(
        self, org: UUID, catalog: TenantKinds, records: Sequence[MetadataRecord], context: MetadataContext, refusing: Callable[[MetadataRecord], None],
        at: datetime,
    ) -> tuple[list[StoreResult], list[AcceptedRecord]]:  # fmt: skip
        """One result per record; those of accepted records are placeholders until they are stored."""
        lines, fingerprints = CopyLines(org, context, at), Fingerprints(context, spell=canonical_json)
        kinds: dict[tuple[str, int | None], tuple[Kind, str]] = {}
        results: list[StoreResult] = []
        good: list[AcceptedRecord] = []
        for index, record in enumerate(records):
            try:
                versioned_kind = (record.kind, record.version)
                if versioned_kind not in kinds:
                    kinds[versioned_kind] = catalog.kind(*versioned_kind), retention_class(catalog.kind(record.kind))
                kind, kept = kinds[versioned_kind]
                self.admission.judge(record, kind)
                refusing(record)
                content_json = fingerprints.content_json(record)
                if len(content_json) > _SURELY_SMALL:
                    small_enough(canonical(record.model_dump(mode="json")))
            except TracelakeError as error:
                results.append(StoreResult(result="refused", problem=error.problem()))
                continue
            content = fingerprints.content_of(content_json)
            identity = RecordIdentity(fingerprints.identity(record, kind, content), content, self.ids.new(), kept)
            about = array_literal(subjects_of(record))
            good.append(AcceptedRecord(index, record, identity, lines.line(record, content_json.decode(), kind, kept, identity.id, about), about))
            results.append(_TO_STORE)
        return results, good


_TO_STORE = StoreResult(result="refused")
