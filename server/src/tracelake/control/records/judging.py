"""What is to become of records before the tables are asked: refused, or a candidate with its sameness and its line. Pure but for its clock."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from tracelake.control.records.catalogs import Catalog
from tracelake.control.records.lines import Lines, Sameness, array_literal, datasets_of, retention_class
from tracelake_sdk.errors import TracelakeError
from tracelake_sdk.kinds import Kind
from tracelake_sdk.record_identity import Fingerprints, canonical
from tracelake_sdk.record_ids import RecordIds
from tracelake_sdk.records import LARGEST_RECORD, MetadataContext, MetadataRecord, StoreResult
from tracelake_sdk.repository.admission import Admission, small_enough

_SURELY_SMALL = LARGEST_RECORD // 2  # characters of its JSON: below, nobody has to count its bytes


class Candidate(NamedTuple):
    """A record that nothing is wrong with."""

    place: int  # among those that were handed in
    record: MetadataRecord
    sameness: Sameness
    line: str
    dataset_ids: str | None


@dataclass(frozen=True)
class Judging:
    admission: Admission
    ids: RecordIds

    def judge(
        self, org: UUID, catalog: Catalog, records: Sequence[MetadataRecord], context: MetadataContext, refusing: Callable[[MetadataRecord], None],
        at: datetime,
    ) -> tuple[list[StoreResult], list[Candidate]]:  # fmt: skip
        """A result each, of which those of candidates are still to be said."""
        lines, fingerprints = Lines(org, context, at), Fingerprints(context)
        classes: dict[str, str] = {}
        results: list[StoreResult] = []
        good: list[Candidate] = []
        for place, record in enumerate(records):
            try:
                kind = catalog.kind(record.kind, record.version)
                self.admission.judge(record, kind)
                refusing(record)
                spelt = _spelt(record)
            except TracelakeError as error:
                results.append(StoreResult(result="refused", problem=error.problem()))
                continue
            kept = classes.get(record.kind) or classes.setdefault(record.kind, retention_class(catalog.kind(record.kind)))
            good.append(self._candidate(place, record, spelt, kind, kept, lines, fingerprints))
            results.append(_UNSAID)
        return results, good

    def _candidate(self, place: int, record: MetadataRecord, spelt: str, kind: Kind, kept: str, lines: Lines, fingerprints: Fingerprints) -> Candidate:
        content = fingerprints.content(record)
        sameness = Sameness(fingerprints.identity(record, kind, content), content, self.ids.new(), kept)
        about = array_literal(datasets_of(record))
        return Candidate(place, record, sameness, lines.line(record, spelt, kind, kept, sameness.id, about), about)


_UNSAID = StoreResult(result="refused")


def _spelt(record: MetadataRecord) -> str:
    """Its JSON; raises RecordRefused where it is too large."""
    spelt = record.model_dump_json()
    if len(spelt) * 4 > _SURELY_SMALL:
        small_enough(canonical(record.model_dump(mode="json")))
    return spelt
