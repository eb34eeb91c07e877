"""Tables: the content of output tables as of their decided places, updated as changes are allowed in one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from tracelake.control.dags.store import Output
from tracelake.control.database.transactions import Pending, Transaction
from tracelake.control.tasks.completions.reported import Reported
from tracelake.control.versions import store as versions
from tracelake.control.versions.bases import Since
from tracelake.control.versions.scope_mapping import widened
from tracelake.control.versions.store import FileAdded, FileRemoved, FileToRemove, Line, ScopeMoved, ScopeNow, TableState
from tracelake.storage.delta_schemas import Carried, carries, schema_hash
from tracelake_sdk.dags import UpdateStrategy
from tracelake_sdk.datasets.measurements import OutputMeasured, TableFile
from tracelake_sdk.datasets.scopes import Scope, covers, overlap
from tracelake_sdk.tasks.events import EventKind


@dataclass(frozen=True)
class Plan:
    """The change of one table by one report."""

    carried: Carried
    removed: tuple[FileToRemove, ...]
    row_count: int                                # rows of the table after the change
    written: tuple[tuple[Scope, EventKind], ...]  # the scopes to emit
    kept: tuple[Scope, ...]                       # the scopes after the change, which replace `dropped`
    dropped: tuple[Scope, ...]


@dataclass(frozen=True)
class After:
    """A table after a change."""

    table_schema: dict[str, Any]
    schema_hash: str
    row_count: int
    written: tuple[tuple[Scope, EventKind], ...]


@dataclass
class Tables:
    tx: Transaction
    lines: dict[UUID, Line]                       # by generation
    states: dict[UUID, TableState]                # by dataset version; tables without a change are absent
    _since: dict[tuple[UUID, int], Since] = field(default_factory=dict)
    _plans: dict[tuple[UUID, int], Plan] = field(default_factory=dict)
    _applied: dict[UUID, Since] = field(default_factory=dict)                   # changed by this transaction
    _looked: dict[UUID, set[Scope]] = field(default_factory=dict)               # every scope that touches these was read
    _stored_scopes: dict[UUID, dict[Scope, int]] = field(default_factory=dict)  # as stored in the database, as far as they were read
    _scopes: dict[UUID, dict[Scope, int]] = field(default_factory=dict)         # as of this transaction
    _added: list[FileAdded] = field(default_factory=list)
    _removed: list[FileRemoved] = field(default_factory=list)

    @staticmethod
    def load(tx: Transaction, lines: Pending[dict[UUID, Line]], tables: dict[UUID, set[Scope]]) -> Pending["Tables"]:
        """`tables`: by dataset version, the scopes that will probably be needed."""
        states = versions.send_table_states(tx, sorted(tables))
        scopes = {id: versions.send_scopes_now(tx, dataset_version=id, touching=list(touching)) for id, touching in tables.items() if touching}

        def made(found: dict[UUID, TableState]) -> Tables:
            loaded = Tables(tx, lines.result(), found)
            for id, there in scopes.items():
                loaded._learn(id, tables[id], there.result())
            return loaded

        return states.then(made)

    def since(self, output: Output, base: int) -> Since:
        """What changed in the table after the base, including earlier changes of this transaction."""
        id = output.dataset_version_id
        if (id, base) not in self._since:
            self._since[id, base] = self._read_since(id, base) if self.lines[output.generation_id].decided > base else Since()
        return self._since[id, base].and_then(self._applied[id]) if id in self._applied else self._since[id, base]

    def covers_whole_scopes(self, given: Reported, measured: dict[int, OutputMeasured]) -> bool:
        """Whether a replace removes whole scopes; one that would cut a scope is out of date."""
        if given.strategy is not UpdateStrategy.REPLACE:
            return True
        return all(
            any(covers(mine, there) for mine in written)
            for output in given.outputs
            for written in (given.rewritten(measured[output.output_index]),)
            for there in self._scopes_touching(output.dataset_version_id, written)
        )

    def plan(self, given: Reported, output: Output, measured: OutputMeasured) -> Plan:
        key = (given.task.id, output.output_index)
        if key not in self._plans:
            planned = self._plan_replace if given.strategy is UpdateStrategy.REPLACE else self._plan_append
            self._plans[key] = planned(given, output, measured)
        return self._plans[key]

    def apply(self, given: Reported, output: Output, measured: OutputMeasured, place: int) -> After:
        id, plan = output.dataset_version_id, self.plan(given, output, measured)
        schema = plan.carried.table_schema
        if schema is None:
            raise AssertionError("the gate allows nothing that the table cannot carry")
        hashed = schema_hash(schema)
        self._added += [FileAdded(id, place, file, measured.schema_hash) for file in measured.files]
        self._removed += [FileRemoved(id, place, file.path) for file in plan.removed]
        scopes = self._scopes[id]
        for scope in plan.dropped:
            scopes.pop(scope, None)
        scopes.update(dict.fromkeys(plan.kept, place))
        written = tuple(scope for scope, _ in plan.written)
        added: tuple[TableFile, ...] = tuple(measured.files)
        self._applied[id] = self._applied.get(id, Since()).and_then(Since(written, added, tuple(file.path for file in plan.removed)))
        self.states[id] = TableState(id, place, schema, hashed, plan.row_count)
        return After(schema, hashed, plan.row_count, plan.written)

    def state_of(self, dataset_version: UUID) -> dict[str, Any]:
        """The state of the table that a decision stores."""
        state = self.states.get(dataset_version)
        return {"place": state.place, "rows": state.row_count, "schema_hash": state.schema_hash} if state else {"place": 0, "rows": 0, "schema_hash": None}

    def write(self, tx: Transaction) -> None:
        if self._removed:
            versions.remove_files(tx, self._removed)
        if self._added:
            versions.add_files(tx, self._added)
        moved: list[ScopeMoved] = []
        for id in sorted(self._applied):
            before, after = self._stored_scopes[id], self._scopes[id]
            drops = tuple(scope for scope, place in before.items() if after.get(scope) != place)
            new = [(scope, place) for scope, place in after.items() if before.get(scope) != place]
            moved += [ScopeMoved(id, place, scope, drops if number == 0 else ()) for number, (scope, place) in enumerate(new)]
        if moved:
            versions.move_scopes(tx, moved)

    def _plan_replace(self, given: Reported, output: Output, measured: OutputMeasured) -> Plan:
        id = output.dataset_version_id
        rewrites = given.rewritten(measured)
        there = self._scopes_touching(id, rewrites)
        # An existing scope without new rows becomes empty and stays a scope.
        kept = tuple(dict.fromkeys([*measured.scopes, *(scope for scope in there if not any(overlap(scope, mine) for mine in measured.scopes))]))
        removed = tuple(versions.to_remove(self.tx, dataset_version=id, scopes=rewrites)) if id in self.states else ()
        written = tuple((scope, EventKind.REWRITTEN if any(overlap(scope, old) for old in there) else EventKind.MATERIALIZED) for scope in kept)
        rows = self._rows(id) - sum(file.rows for file in removed) + measured.rows
        return Plan(self._carried(id, measured), removed, rows, written, kept, there)

    def _plan_append(self, given: Reported, output: Output, measured: OutputMeasured) -> Plan:
        id = output.dataset_version_id
        written = tuple(dict.fromkeys(file.scope for file in measured.files))
        there = self._scopes_touching(id, written)
        kept = widened(written, there)
        return Plan(self._carried(id, measured), (), self._rows(id) + measured.rows, tuple((scope, EventKind.MATERIALIZED) for scope in written), kept, there)

    def _carried(self, id: UUID, measured: OutputMeasured) -> Carried:
        state = self.states.get(id)
        if state and not measured.table_schema.get("fields"):
            # Nothing was written, and the table did not exist when the attempt started: its columns are unknown.
            return carries(state.table_schema, state.table_schema)
        return carries(state.table_schema if state else None, measured.table_schema)

    def _rows(self, id: UUID) -> int:
        return self.states[id].row_count if id in self.states else 0

    def _scopes_touching(self, id: UUID, wanted: Sequence[Scope]) -> tuple[Scope, ...]:
        new = set(wanted) - self._looked.get(id, set())
        there = versions.scopes_now(self.tx, dataset_version=id, touching=list(new)) if new and id in self.states else ()
        self._learn(id, new, there)
        return tuple(scope for scope in self._scopes[id] if any(overlap(scope, mine) for mine in wanted))

    def _learn(self, id: UUID, touching: set[Scope], there: Sequence[ScopeNow]) -> None:
        """Adds scopes from the database; a scope that this transaction wrote or dropped keeps its newer state."""
        stored, now = self._stored_scopes.setdefault(id, {}), self._scopes.setdefault(id, {})
        for found in there:
            if found.scope not in stored:
                stored[found.scope] = now[found.scope] = found.place
        self._looked.setdefault(id, set()).update(touching)

    def _read_since(self, id: UUID, base: int) -> Since:
        scopes = versions.send_scopes_since(self.tx, dataset_version=id, base=base)
        added = versions.send_added_since(self.tx, dataset_version=id, base=base)
        removed = versions.send_removed_since(self.tx, dataset_version=id, base=base)
        return Since(tuple(scopes.result()), tuple(added.result()), tuple(removed.result()))
