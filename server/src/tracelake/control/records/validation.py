"""What is to become of records before the tables are asked: refused, or a candidate with its sameness and its line. Pure but for its clock."""

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

_SURELY_SMALL = LARGEST_RECORD // 2  # bytes of what it says: below, nobody has to count all of it


class AcceptedRecord(NamedTuple):
    """A record that nothing is wrong with."""

    place: int  # among those that were handed in
    record: MetadataRecord
    sameness: RecordIdentity
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
        """A result each, of which those of candidates are still to be said."""
        lines, fingerprints = CopyLines(org, context, at), Fingerprints(context, spell=canonical_json)
        kinds: dict[tuple[str, int | None], tuple[Kind, str]] = {}
        results: list[StoreResult] = []
        good: list[AcceptedRecord] = []
        for place, record in enumerate(records):
            try:
                asked = (record.kind, record.version)
                if asked not in kinds:
                    kinds[asked] = catalog.kind(*asked), retention_class(catalog.kind(record.kind))
                kind, kept = kinds[asked]
                self.admission.judge(record, kind)
                refusing(record)
                said = fingerprints.content_json(record)
                if len(said) > _SURELY_SMALL:
                    small_enough(canonical(record.model_dump(mode="json")))
            except TracelakeError as error:
                results.append(StoreResult(result="refused", problem=error.problem()))
                continue
            content = fingerprints.content_of(said)
            sameness = RecordIdentity(fingerprints.identity(record, kind, content), content, self.ids.new(), kept)
            about = array_literal(subjects_of(record))
            good.append(AcceptedRecord(place, record, sameness, lines.line(record, said.decode(), kind, kept, sameness.id, about), about))
            results.append(_UNSAID)
        return results, good


_UNSAID = StoreResult(result="refused")
