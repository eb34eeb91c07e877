"""Pins: the versions that a query reads, resolved for all its datasets in one snapshot and committed before it opens the first file."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import orjson
import structlog

from tracelake import wire_json
from tracelake.control.access.callers import Caller, Permission
from tracelake.control.database.ids import new_id
from tracelake.control.database.transactions import Database, Transaction
from tracelake.control.queries import resolving, store
from tracelake.control.queries.store import Author, TableRow
from tracelake.storage.paths import table_location
from tracelake_sdk.bounded_cache import BoundedCache
from tracelake_sdk.errors import Malformed, NotReplayable, Unavailable
from tracelake_sdk.queries import Expected, QueryPin, Released, ReleaseRequest, Renewed, RequestedName

_log = structlog.get_logger()

_MOST_FILES = 500_000  # cache size: files of all cached tables


class _Table(NamedTuple):
    spelt: orjson.Fragment  # ready for the wire
    files: int


def _no_tables() -> BoundedCache[tuple[UUID, int], _Table]:
    return BoundedCache(_MOST_FILES, weigh=lambda table: table.files + 1)


@dataclass
class Pins:
    database: Database
    lease: timedelta
    _spelt_tables: BoundedCache[tuple[UUID, int], _Table] = field(default_factory=_no_tables)  # by dataset and version; nothing of it ever changes

    def take(self, caller: Caller, names: Sequence[RequestedName], *, replay_of: UUID | None = None) -> dict[str, Any]:
        """The form is that of `Pinned`; raises NotFound with the nearest name for a dataset that the caller may not read."""
        caller.require(Permission.READ)
        id = new_id()
        with self.database.transaction("pin") as tx:
            expected = None
            if replay_of is None:
                pins = resolving.resolve(tx, caller, names)
            else:
                pins, expected = self._pins_of(tx, caller, names, replay_of)
            tables = self._tables(tx, pins)
            store.take_pin(tx, caller, id=id, lease=self.lease, pins=pins)
        return {
            "id": id,
            "lease_seconds": self.lease.total_seconds(),
            "tables": [{"pin": pin.model_dump(), "table": table} for pin, table in zip(pins, tables, strict=True)],
            "expected": expected.model_dump() if expected else None,
        }

    def renew(self, pins: list[UUID], *, now: datetime | None = None) -> Renewed:
        with self.database.transaction("renew_pins") as tx:
            kept = store.renew(tx, pins, lease=self.lease, now=now)
        return Renewed(lost=[pin for pin in pins if pin not in kept])

    def release(self, request: ReleaseRequest, caller: Caller | None, *, now: datetime | None = None) -> Released:
        """Writes the query's log entry and releases its pin; a repeat changes nothing. Raises Unavailable if the pin expired before the end."""
        id = request.pin or new_id()
        with self.database.transaction("release_pin") as tx:
            if request.pin is not None:
                by = store.release(tx, request.pin, now=now)
            elif caller is not None:
                by = Author(caller.org_id, caller.name, caller.user_id, caller.token_id)
            else:
                raise Malformed("A query without a pin needs its caller: `caller` is missing.")
            if by is None:
                at = store.run_at(tx, id)
                if at is None:
                    raise Unavailable("The query ran longer than its pins, so the files that it read were not protected; run it again.", retry_after=1)
                return Released(id=id, at=at)
            sha256 = sql_sha256(request.run.sql)
            return Released(id=id, at=store.add_run(tx, request.run, id=id, by=by, sql_sha256=sha256))

    def run_once(self, *, now: datetime | None = None) -> int:
        """Drops expired pins."""
        with self.database.transaction("drop_pins") as tx:
            dropped = store.drop_pins(tx, now=now)
        if any(dropped):
            _log.warning("pins expired without a release", number=sum(dropped))
        return len(dropped)

    def _pins_of(self, tx: Transaction, caller: Caller, names: Sequence[RequestedName], replay_of: UUID) -> tuple[list[QueryPin], Expected]:
        """The pins of an earlier query; the caller must still have permission to read their datasets."""
        run = resolving.get_run(tx, caller, replay_of)
        if not run.replayable:
            raise NotReplayable(run.why_not or "The query has no result to compare with.")
        had = {pin.name: pin for pin in (QueryPin.model_validate(pin) for pin in run.pins)}
        if {name.called for name in names} != set(had):
            raise NotReplayable("The statement reads other datasets than the query to replay.")
        resolving.require_readable(tx, caller, {pin.dataset_uuid: pin.name for pin in had.values()})
        expected = Expected(result_hash=run.result_hash, row_count=run.row_count or 0, row_limit=run.row_limit)
        return [had[name.called] for name in names], expected

    def _tables(self, tx: Transaction, pins: Sequence[QueryPin]) -> list[orjson.Fragment]:
        keys = [(pin.dataset_uuid, pin.version) for pin in pins]
        known = {key: self._spelt_tables.find(key) for key in keys}
        missing = [key for key, table in known.items() if table is None]
        for key, row in store.tables(tx, missing).items() if missing else ():
            table = _spelt(tx, row)
            self._spelt_tables.put(key, table)
            known[key] = table
        return [table.spelt for key in keys if (table := known[key]) is not None]


def sql_sha256(sql: str) -> str:
    return hashlib.sha256(sql.encode()).hexdigest()


def _spelt(tx: Transaction, row: TableRow) -> _Table:
    files = store.files(tx, dataset_version=row.dataset_version_id, version=row.version)
    facts = {
        "location": table_location(row.org_id, row.dataset_id, row.dataset_version_id),
        "table_schema": row.table_schema,
        "schema_hash": row.schema_hash,
        "unique_key": row.unique_key,
        "files": files,
    }
    return _Table(orjson.Fragment(wire_json.encode(facts)), len(files))
