"""A read-only view of a repository: newest, history, window, baseline, and lineage of a result."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from tracelake_sdk.errors import NotFound
from tracelake_sdk.records.identity import at_path
from tracelake_sdk.records.record import Comparison, MetadataContext, MetadataTarget, PathFilter, RecordFilters, RecordPage, StoredRecord, Window
from tracelake_sdk.tasks.runs import RunDetail

INCIDENT = "extras.incident"  # a record with it is labelled as an incident and is not part of a baseline
_A_PAGE = 1000


class RecordReader(Protocol):
    """The part of a repository that a view needs."""

    def latest(self, target: MetadataTarget, kind: str, context: MetadataContext) -> StoredRecord | None: ...

    def query(self, filters: RecordFilters, context: MetadataContext) -> RecordPage: ...


@dataclass(frozen=True)
class BaselineValue:
    """The value that one earlier run measured."""

    run_id: str
    produced_at: datetime
    value: float


@dataclass(frozen=True)
class DatasetAt:
    """A version of a dataset."""

    dataset: UUID
    version: int


@dataclass(frozen=True)
class Lineage:
    """The runs behind a record and the dataset versions that they read and made."""

    runs: tuple[RunDetail, ...]
    read: tuple[DatasetAt, ...]
    made: tuple[DatasetAt, ...]
    unknown_runs: tuple[str, ...]  # runs that do not exist, or that the caller may not see
    hidden_inputs: int             # inputs that the caller may not read


def _no_system(run_id: str) -> RunDetail:
    raise NotFound(f"The view has no client to look up the run {run_id}; pass `Client().runs.get`.")


class RecordView:
    """Reads in one context; it cannot write."""

    def __init__(self, repository: RecordReader, context: MetadataContext, *, run_detail: Callable[[str], RunDetail] = _no_system) -> None:
        """`run_detail` returns `GET /v1/runs/{run_id}`, as `Client().runs.get` does."""
        self._latest: Callable[[MetadataTarget, str, MetadataContext], StoredRecord | None] = repository.latest
        self._query: Callable[[RecordFilters, MetadataContext], RecordPage] = repository.query
        self._run_detail: Callable[[str], RunDetail] = run_detail
        self.context: MetadataContext = context

    def newest(self, target: MetadataTarget, kind: str) -> StoredRecord | None:
        return self._latest(target, kind, self.context)

    def history(self, target: MetadataTarget, kind: str, limit: int = 100) -> RecordPage:
        """Newest first."""
        return self._query(_filters(target, kind, limit=limit), self.context)

    def window(self, target: MetadataTarget, kind: str, start: datetime | None, end: datetime | None) -> list[StoredRecord]:
        """All records whose own window overlaps this one, newest first."""
        return list(self._each(_filters(target, kind, window=Window(start=start, end=end))))

    def baseline(
        self, target: MetadataTarget, kind: str, path: str, *,
        last: int = 7, where: Sequence[PathFilter] = (), before: datetime | None = None, excluding_runs: Collection[str] = (),
    ) -> list[BaselineValue]:
        """The last values of a path, newest first and one per run, without the given runs and without labelled incidents.

        `where` selects records, for example by success, check, level and group. `before` excludes the point
        under test and records emitted after it.
        """
        conditions = [*where, PathFilter(path=INCIDENT, op=Comparison.EXISTS, value=False)]
        filters = _filters(target, kind, where=conditions, produced=Window(end=before) if before else None)
        found: dict[str, BaselineValue] = {}
        for stored in self._each(filters):
            run = stored.context.run_id
            value = at_path({"payload": stored.record.payload, "extras": stored.record.extras}, path.split("."))
            if run is None or run in excluding_runs or run in found or isinstance(value, bool) or not isinstance(value, (int, float)):
                continue
            found[run] = BaselineValue(run, stored.record.produced_at, value)
            if len(found) == last:
                break
        return list(found.values())

    def lineage(self, stored: StoredRecord) -> Lineage:
        """The runs of a result, its own and those of its baseline, and the dataset versions that they read and wrote."""
        named = [stored.context.run_id, *stored.record.payload.get("baseline_run_ids", [])]
        runs: list[RunDetail] = []
        unknown: list[str] = []
        for run_id in dict.fromkeys(run for run in named if isinstance(run, str)):
            try:
                runs.append(self._run_detail(run_id))
            except NotFound:
                unknown.append(run_id)
        read = dict.fromkeys(DatasetAt(pin.dataset_uuid, pin.version) for run in runs for pin in run.inputs)
        made = dict.fromkeys(DatasetAt(run.dataset_id, run.version) for run in runs if run.dataset_id is not None and run.version is not None)
        return Lineage(tuple(runs), tuple(read), tuple(made), tuple(unknown), sum(run.hidden_inputs for run in runs))

    def _each(self, filters: RecordFilters) -> Iterator[StoredRecord]:
        page = self._query(filters, self.context)
        yield from page.items
        while page.next is not None:
            page = self._query(filters.model_copy(update={"page": page.next}), self.context)
            yield from page.items


def _filters(target: MetadataTarget, kind: str, *, limit: int = _A_PAGE, **more: Any) -> RecordFilters:
    return RecordFilters(kinds=[kind], source_id=target.source_id, schema=target.schema_name, table=target.table, limit=limit, **more)
