"""Rules about the whole table as it would be after the commit: the files that stay, and the batch.

Counts of single rows add up, so that after a moved base only newer files are measured. So does uniqueness if it is known how many
rows of the table already repeat a key: then only the rows of the batch are compared with it. Otherwise the whole table is read, once.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import duckdb
import numpy as np
import pyarrow as pa

from tracelake.worker.measuring.batch import BatchFile, StagedBatch, open_file, rows_of
from tracelake.worker.measuring.contract import OutputToMeasure
from tracelake.worker.measuring.dedupe import Key, KeyedFile, find_repeats
from tracelake.worker.measuring.keys import Mask, key_columns, read_keys
from tracelake.worker.measuring.rule_measuring import SAMPLES, Counter, spell_samples, unmeasured
from tracelake.worker.measuring.workplace import Workplace
from tracelake_sdk.dags import UpdateStrategy
from tracelake_sdk.datasets.measurements import TableFile
from tracelake_sdk.rules import RuleMeasurement, RuleToMeasure, Unique
from tracelake_sdk.rules.trees import RuleUnmeasurable, TypedColumn, check_of, columns_of

Known = Mapping[tuple[UUID, int], RuleMeasurement]


def current_files(output: OutputToMeasure) -> list[TableFile]:
    """The files of the table that stay, as far as known by now."""
    files = {file.path: file for file in output.staged.current}
    for moved in output.moved:
        files.update({file.path: file for file in moved.added})
        for path in moved.removed:
            files.pop(path, None)
    return list(files.values())


def measure_table_rules(
    counter: Counter, work: Workplace, rules: Sequence[RuleToMeasure], batch: StagedBatch, current: Sequence[TableFile], output: OutputToMeasure, key: Key | None
) -> list[RuleMeasurement]:
    """Measures the table as it would be."""
    before = _repeated_before(output)
    found = [
        _repeats(counter, work, rule, rule.tree, batch, current, key, output, before[rule.id, rule.revision])
        for rule in rules
        if isinstance(rule.tree, Unique) and (rule.id, rule.revision) in before
    ]
    whole = [rule for rule in rules if (rule.id, rule.revision) not in before or not isinstance(rule.tree, Unique)]
    if not whole:
        return found
    opened = [open_file(work, file.path, "") for file in current if file.rows]
    files = [*opened, *batch.files]
    return [*found, *_without_key(counter).measure(rows_of(files, _columns(batch, files, output)), whole)]


def _repeated_before(output: OutputToMeasure) -> dict[tuple[UUID, int], int]:
    """By rule and revision: how many of the rows that stay repeat a key, if that is known.

    A replace removes rows: if the table repeats no key, neither do the rows that stay; otherwise it is unknown.
    """
    known = output.moved[-1].known if output.moved else output.staged.known
    appends = output.update_strategy == UpdateStrategy.APPEND.value
    return {(state.rule_id, state.revision): state.violations for state in known if appends or state.violations == 0}


def rebase_table_rules(
    counter: Counter, work: Workplace, output: OutputToMeasure, rules: Sequence[RuleToMeasure], known: Known, *, before: StagedBatch | None, batch: StagedBatch, key: Key | None
) -> list[RuleMeasurement]:
    """The same result as a new measurement, from the earlier one and the newer files; `before` is the batch before it lost rows, if it did."""
    current = current_files(output)
    since = output.moved[-1] if output.moved else None
    if since is None or since.removed:
        return measure_table_rules(counter, work, rules, batch, current, output, key)
    carried = [rule for rule in rules if not isinstance(rule.tree, Unique) and _violations(known, rule) is not None]
    remaining = [rule for rule in rules if rule not in carried]
    found = measure_table_rules(counter, work, remaining, batch, current, output, key)
    if carried:
        added = [open_file(work, file.path, "") for file in since.added if file.rows]
        columns = _columns(batch, added, output)
        parts = [_without_key(counter).measure(rows_of(files, columns), carried) for files in (added, before.files if before else (), batch.files if before else ())]
        examined = sum(file.rows for file in [*current, *batch.files])
        found += [_sum(known[rule.id, rule.revision], *changes, examined=examined) for rule, *changes in zip(carried, *parts, strict=True)]
    return found


def _sum(old: RuleMeasurement, added: RuleMeasurement, before: RuleMeasurement, after: RuleMeasurement, *, examined: int) -> RuleMeasurement:
    counts = [old.violations, added.violations, before.violations, after.violations]
    error = added.error or before.error or after.error
    if error is not None or any(count is None for count in counts):
        return old.model_copy(update={"violations": None, "error": error, "samples": []})
    there, more, gone, now = (count or 0 for count in counts)
    total = there + more - gone + now
    samples = list(dict.fromkeys([*old.samples, *added.samples]))[:5] if total else []
    return old.model_copy(update={"violations": total, "examined": examined, "samples": samples, "method": added.method, "milliseconds": added.milliseconds})


def _violations(known: Known, rule: RuleToMeasure) -> int | None:
    found = known.get((rule.id, rule.revision))
    return found.violations if found else None


def _without_key(counter: Counter) -> Counter:
    """That columns are unique in the batch says nothing about older files."""
    return replace(counter, unique=frozenset())


def _columns(batch: StagedBatch, files: Sequence[BatchFile], output: OutputToMeasure) -> dict[str, TypedColumn]:
    columns = dict(columns_of(output.staged.table_schema)) if output.staged.table_schema else {}
    for file in files:
        columns.update(file.columns)
    return columns | dict(batch.columns)


def _repeats(
    counter: Counter, work: Workplace, rule: RuleToMeasure, tree: Unique, batch: StagedBatch, current: Sequence[TableFile], key: Key | None,
    output: OutputToMeasure, before: int,
) -> RuleMeasurement:  # fmt: skip
    """Counts the repeats of the batch and adds those of the table."""
    started = time.perf_counter()
    measured = RuleMeasurement(rule_id=rule.id, revision=rule.revision, violations=before, examined=sum(file.rows for file in batch.files))
    if not batch.files:
        return measured
    columns = _columns(batch, (), output)
    try:
        check_of(tree, columns)
        if counter.unique == frozenset(tree.columns):
            return measured  # dedupe removed the repeats
        if key is None or set(key.names) != set(tree.columns):
            key = Key(tuple((name, columns[name]) for name in tree.columns), in_sidecars=False)
        violations, samples = _count(counter, work, batch, key, current)
    except RuleUnmeasurable as error:
        return unmeasured(rule, str(error))
    except duckdb.Error as error:
        return unmeasured(rule, f"The engine could not count it ({type(error).__name__}).")
    took = round((time.perf_counter() - started) * 1000, 3)
    return measured.model_copy(update={"violations": before + violations, "samples": samples, "milliseconds": took})


def _count(counter: Counter, work: Workplace, batch: StagedBatch, key: Key, current: Sequence[TableFile]) -> tuple[int, list[str]]:
    """How many rows repeat a key, and some of them."""
    keyed = [
        KeyedFile(file.path, file.local, file.keys if key.in_sidecars and file.keys is not None else read_keys(file.local, key.columns))
        for file in batch.files
        if set(key.names) <= set(file.columns)
    ]
    masks = find_repeats(counter.engine, work, keyed, key, current, inside=True)
    samples: list[str] = []
    for file, mask in zip(keyed, masks, strict=True):
        if counter.shown and mask.any() and len(samples) < SAMPLES and set(counter.shown) <= set(batch.columns):
            samples += spell_samples(counter.shown, _first_rows(file, mask, counter.shown, SAMPLES - len(samples)))
    return sum(int(mask.sum()) for mask in masks), samples


def _first_rows(file: KeyedFile, mask: Mask, columns: Sequence[str], most: int) -> Any:
    found: list[Any] = []
    start = 0
    for table in key_columns(file.local, columns):
        rows = np.flatnonzero(mask[start : start + table.num_rows])[:most]
        start += table.num_rows
        most -= len(rows)
        found.append(table.take(pa.array(rows, pa.int64())))
    return pa.concat_tables(found)
