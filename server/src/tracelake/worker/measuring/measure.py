"""Measures the outputs of an attempt: for the first time, again after the base moved, or for rules that were added later."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tracelake.settings import Settings, StorageSettings
from tracelake.storage.contract import Storage
from tracelake.storage.opening import open_storage
from tracelake.worker.measuring.batch import (
    StagedBatch,
    hash_of,
    key_of,
    keyed,
    null_keys,
    open_batch,
    outside_scope,
    scoped,
    staged_file,
    without_repeats,
)
from tracelake.worker.measuring.contract import MeasureOrder, MeasureResult, OutputToMeasure, Refused
from tracelake.worker.measuring.dedupe import Key
from tracelake.worker.measuring.engine import CountingEngine
from tracelake.worker.measuring.rule_measuring import Counter
from tracelake.worker.measuring.sealing import check_seals
from tracelake.worker.measuring.table_rules import current_files, measure_table_rules, rebase_table_rules
from tracelake.worker.measuring.workplace import Workplace
from tracelake_sdk.datasets.measurements import OutputMeasured, StagedFile
from tracelake_sdk.datasets.scopes import Scope
from tracelake_sdk.errors import StorageOutcomeUnknown, StorageUnavailable
from tracelake_sdk.rules import RuleMeasurement, RuleScope, RuleToMeasure, Unique

Watch = Callable[[str], None]


def measure(order: MeasureOrder, watch: Watch = lambda moment: None) -> MeasureResult:
    """Every output, or one refusal."""
    started = time.perf_counter()
    try:
        storage = open_storage(Settings.model_construct(home=Path(order.scratch), storage=StorageSettings(**order.storage)), watch)
        outputs = [measure_output(storage, order, output, watch) for output in order.outputs]
    except Refused as refused:
        return MeasureResult(id=order.id, refusal=refused.refusal, milliseconds=_milliseconds(started))
    except (StorageUnavailable, StorageOutcomeUnknown) as error:
        refusal = Refused("storage_unavailable", error.detail, retry=True).refusal
        return MeasureResult(id=order.id, refusal=refusal, milliseconds=_milliseconds(started))
    return MeasureResult(id=order.id, outputs=outputs, milliseconds=_milliseconds(started))


def measure_output(storage: Storage, order: MeasureOrder, output: OutputToMeasure, watch: Watch) -> OutputMeasured:
    scratch = Path(order.scratch)
    scratch.mkdir(parents=True, exist_ok=True)
    work = Workplace(storage, output.staged.location, scratch)
    with CountingEngine(order.limits, work.folders, scratch) as engine:
        counter = Counter(engine, tuple(output.unique_key))
        measuring = _Measuring(work, counter, output, watch)
        if output.previous is None:
            return measuring.first()
        if output.rules is not None:
            return measuring.more_rules(output.previous, output.rules)
        return measuring.again(output.previous)


@dataclass(frozen=True)
class _Measuring:
    work: Workplace
    counter: Counter
    output: OutputToMeasure
    watch: Watch

    @property
    def appends(self) -> bool:
        return self.output.update_strategy == "append" and bool(self.output.unique_key)

    def first(self) -> OutputMeasured:
        batch = open_batch(self.work, self._paths(), self.output.staged.table_schema)
        self.watch("measuring:sealed")
        batch = scoped(self.counter.engine, self.work, self.output, batch)
        key = self._key(batch, self.output.staged.rules)
        if key is not None:
            batch = keyed(batch, key, self.counter.engine.limits.threads)
        if key is not None and self.appends:
            batch = without_repeats(self.counter.engine, self.work, batch, key, self.output.staged.current, inside=True)
        return self._measurement(batch, self._measured(batch, self.output.staged.rules, key))

    def more_rules(self, previous: OutputMeasured, rules: Sequence[RuleToMeasure]) -> OutputMeasured:
        """Measures only these rules, over the files that were measured before."""
        batch = self._reopened(previous)
        key = self._key(batch, rules)
        if key is not None and any(_about_key(rule, key) for rule in rules):
            batch = keyed(batch, key, self.counter.engine.limits.threads)
        found = {measurement.rule_id: measurement for measurement in self._measured(batch, rules, key)}
        check_seals(self.work.storage, batch.seals(self.work))
        self.watch("measuring:measured")
        kept = [measurement for measurement in previous.rules if measurement.rule_id not in found]
        return previous.model_copy(update={"rules": [*kept, *found.values()]})

    def again(self, previous: OutputMeasured) -> OutputMeasured:
        """After a moved base: compares only with files that were added since."""
        before = self._reopened(previous)
        key = self._key(before, self.output.staged.rules)
        batch = keyed(before, key, self.counter.engine.limits.threads) if key is not None else before
        if key is not None and self.appends:
            added = self.output.moved[-1].added if self.output.moved else []
            batch = without_repeats(self.counter.engine, self.work, batch, key, added, inside=False)
        shrunk = batch.duplicates > 0
        batch = replace(batch, duplicates=batch.duplicates + previous.duplicates)
        of_batch, of_table = _by_scope(self.output.staged.rules)
        known = {(measurement.rule_id, measurement.revision): measurement for measurement in previous.rules}
        unknown = [rule for rule in of_batch if shrunk or (rule.id, rule.revision) not in known]
        found = {measurement.rule_id: measurement for measurement in self._counter().measure(batch.rows, unknown)}
        kept = [found.get(rule.id) or known.get((rule.id, rule.revision)) for rule in of_batch]
        table = rebase_table_rules(self._counter(), self.work, self.output, of_table, known, before=before if shrunk else None, batch=batch, key=key)
        return self._measurement(batch, [*(measurement for measurement in kept if measurement), *table], before=previous)

    def _paths(self) -> list[str]:
        """Paths relative to the table."""
        staged = self.output.staged
        if self.output.adopted:
            return self.output.files
        folder = staged.staging.removeprefix(f"{staged.location}/")
        return [f"{folder}/{file}" for file in self.output.files]

    def _reopened(self, previous: OutputMeasured) -> StagedBatch:
        """The files of an earlier measurement, if they are unchanged."""
        sealed = {self.work.stored(file.path): file.seal for file in previous.files}
        check_seals(self.work.storage, sealed)
        batch = open_batch(self.work, [file.path for file in previous.files], previous.table_schema, sealed=sealed)
        scopes = {file.path: file.scope for file in previous.files}
        return replace(batch, files=tuple(replace(file, scope=scopes[file.path]) for file in batch.files))

    def _key(self, batch: StagedBatch, rules: Sequence[RuleToMeasure]) -> Key | None:
        """The job's key, if anything needs it."""
        if not self.output.unique_key or not batch.files:
            return None
        if self.appends:
            return key_of(self.output.unique_key, batch)
        if any(isinstance(rule.tree, Unique) and rule.scope is RuleScope.TABLE and set(rule.tree.columns) == set(self.output.unique_key) for rule in rules):
            return key_of(self.output.unique_key, batch)
        return None

    def _counter(self) -> Counter:
        """A key that dedupe has made unique needs no counting."""
        return replace(self.counter, unique=frozenset(self.output.unique_key)) if self.appends else self.counter

    def _measured(self, batch: StagedBatch, rules: Sequence[RuleToMeasure], key: Key | None) -> list[RuleMeasurement]:
        of_batch, of_table = _by_scope(rules)
        found = self._counter().measure(batch.rows, of_batch)
        current = current_files(self.output)
        return [*found, *measure_table_rules(self._counter(), self.work, of_table, batch, current, self.output, key)]

    def _measurement(self, batch: StagedBatch, rules: Sequence[RuleMeasurement], before: OutputMeasured | None = None) -> OutputMeasured:
        files = [staged_file(self.work, file) for file in batch.files]
        outside = outside_scope(self.counter.engine, self.output, batch)
        check_seals(self.work.storage, batch.seals(self.work))
        self.watch("measuring:measured")
        order = {rule.id: place for place, rule in enumerate(self.output.staged.rules)}
        return OutputMeasured(
            index=self.output.index,
            files=files,
            scopes=before.scopes if before else self._scopes(files),
            table_schema=batch.table_schema,
            schema_hash=hash_of(batch),
            rows=sum(file.rows for file in files),
            bytes=sum(file.size for file in files),
            duplicates=batch.duplicates,
            null_keys=null_keys(batch) if self.appends else 0,
            outside_scope=outside,
            rules=sorted(rules, key=lambda measurement: order.get(measurement.rule_id, len(order))),
        )

    def _scopes(self, files: Sequence[StagedFile]) -> list[Scope]:
        return list(dict.fromkeys([*(self.output.scopes or []), *(file.scope for file in files)]))


def _by_scope(rules: Sequence[RuleToMeasure]) -> tuple[list[RuleToMeasure], list[RuleToMeasure]]:
    return [rule for rule in rules if rule.scope is RuleScope.BATCH], [rule for rule in rules if rule.scope is RuleScope.TABLE]


def _about_key(rule: RuleToMeasure, key: Key) -> bool:
    return rule.scope is RuleScope.TABLE and isinstance(rule.tree, Unique) and set(rule.tree.columns) == set(key.names)


def _milliseconds(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 3)
