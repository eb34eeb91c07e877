"""Resolving: from the names in a query to versions that the caller may read."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from tracelake.control.access.callers import Caller
from tracelake.control.database.transactions import Transaction
from tracelake.control.queries import store
from tracelake.control.queries.store import QueryRunRow
from tracelake.control.registry import reading
from tracelake.control.registry import store as registry
from tracelake.control.registry.store import Resolved
from tracelake_sdk.errors import NotFound, QueryRefused
from tracelake_sdk.queries import QueryPin, RequestedName


def resolve(tx: Transaction, caller: Caller, names: Sequence[RequestedName]) -> list[QueryPin]:
    """In the order of the names. One statement reads all of them, so that all are of one snapshot."""
    found = {row.name: row for row in registry.resolve(tx, caller.org_id, sorted({reference.name for reference in names}))} if names else {}
    may = reading.readable(tx, caller, {row.dataset_id for row in found.values()})
    for reference in names:
        if reference.name not in found or found[reference.name].dataset_id not in may:
            raise NotFound(f"No dataset {reference.name[:128]!r} that {caller.name} may read was found; {_advice(tx, caller, reference.name)}")
    numbered = {(found[reference.name].dataset_id, reference.version) for reference in names if reference.version is not None}
    recorded = store.tables(tx, sorted(numbered)) if numbered else {}
    pins: list[QueryPin] = []
    for reference in names:
        row = found[reference.name]
        if reference.version is None:
            pins.append(_current(row))
            continue
        table = recorded.get((row.dataset_id, reference.version))
        if table is None or (row.pinned and row.version != reference.version):
            raise NotFound(f"The dataset {reference.name} has no version {reference.version}{'' if row.version is None else f'; its newest is {row.version}'}.")
        pins.append(QueryPin(name=reference.called, dataset_uuid=row.dataset_id, dataset_version=table.dataset_version_id, version=reference.version))
    return pins


def require_readable(tx: Transaction, caller: Caller, datasets: Mapping[UUID, str]) -> None:
    """Raises NotFound; the values are the names of the datasets."""
    for dataset in set(datasets) - reading.readable(tx, caller, datasets):
        raise NotFound(f"No dataset {datasets[dataset]!r} that {caller.name} may read was found; {_advice(tx, caller, datasets[dataset])}")


def get_run(tx: Transaction, caller: Caller, id: UUID) -> QueryRunRow:
    """A query of the org, of any user; raises NotFound."""
    rows = store.runs(tx, caller, everybody=True, id=id)
    if not rows:
        raise NotFound("The query was not found in this org.")
    return rows[0]


def _current(row: Resolved) -> QueryPin:
    if not row.has_files:
        raise QueryRefused(f"The dataset {row.name} has events and ranges only, and no rows to query.")
    if row.version is None or row.dataset_version_id is None:
        raise NotFound(f"The dataset {row.name} has no version yet; `tracelake explain {row.name}` says why.")
    return QueryPin(name=row.name, dataset_uuid=row.dataset_id, dataset_version=row.dataset_version_id, version=row.version)


def _advice(tx: Transaction, caller: Caller, name: str) -> str:
    # Auditors see every dataset and read none: a suggested name would fail the same way.
    if caller.sees_all and not caller.is_admin:
        return "`tracelake dataset list` lists them."
    return reading.advice(tx, caller, name)
