# ruff: noqa: S608  # the SQL is made of checks; names and literals in it are quoted by compile_duckdb
"""Measures rules on some files: from footers where they prove it, all others that look at single rows in one scan, uniqueness by itself."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import structlog

from tracelake.worker.measuring.compile_duckdb import broken, files, names
from tracelake.worker.measuring.engine import CountingEngine, count_broken
from tracelake.worker.measuring.footers import ColumnFacts, proved
from tracelake.worker.measuring.uniqueness import count_repeated, sample_repeated
from tracelake_sdk.rules import MeasuringMethod, RowCount, RuleMeasurement, RuleToMeasure
from tracelake_sdk.rules.trees import IsNull, Repeated, RowCheck, RuleUnmeasurable, TypedColumn, ValueKind, check_of

_log = structlog.get_logger()
SAMPLES = 5
_LONGEST_SAMPLE = 200
_NULL = "null"
_REFERENCE = 1.5      # bytes a row; a text stored by itself takes at least four
_LIST = 65_536


@dataclass(frozen=True)
class Rows:
    """Some files, as rules see them."""

    local: tuple[Path, ...]
    facts: tuple[tuple[int, Mapping[str, ColumnFacts]], ...]  # for each file: its row count, and what its footer proves
    columns: Mapping[str, TypedColumn]                             # columns that a rule may name
    held: frozenset[str]                                      # columns that at least one of the files has

    @property
    def count(self) -> int:
        return sum(rows for rows, _ in self.facts)

    @property
    def few_values(self) -> frozenset[str]:
        """String columns that use so few bytes that they must be dictionary-encoded with few values."""
        texts = [column for column, of in self.columns.items() if of.kind is ValueKind.TEXT and column in self.held]
        return frozenset(
            column for column in texts if all(column in facts and facts[column].size <= _REFERENCE * rows + _LIST for rows, facts in self.facts)
        )  # fmt: skip


@dataclass(frozen=True)
class Counter:
    """Counts on one engine; `shown` are the columns of the job's unique key, which samples show."""

    engine: CountingEngine
    shown: tuple[str, ...] = ()
    unique: frozenset[str] = field(default_factory=frozenset[str])  # columns that are known to be unique in these rows

    def measure(self, rows: Rows, rules: Sequence[RuleToMeasure]) -> list[RuleMeasurement]:
        """In the order of the rules, without those that count the rows of a table."""
        checks: dict[int, RowCheck | Repeated] = {}
        found: dict[int, RuleMeasurement] = {}
        for number, rule in enumerate(rules):
            if isinstance(rule.tree, RowCount):
                continue
            try:
                checks[number] = check_of(rule.tree, rows.columns)
            except RuleUnmeasurable as error:
                # Without files and without a table, no column can be missing.
                nothing = not rows.columns and not rows.local
                found[number] = _measured(rule, 0, 0, MeasuringMethod.FOOTERS, 0) if nothing else unmeasured(rule, str(error))
        for number, check in checks.items():
            answer = self._without_scan(rows, check)
            if answer is not None:
                found[number] = _measured(rules[number], answer, rows.count, MeasuringMethod.FOOTERS, 0)
        found |= self._scan(rows, {number: (rules[number], check) for number, check in checks.items() if number not in found})
        return [self._with_samples(rows, checks.get(number), measurement) for number, measurement in sorted(found.items())]

    def _without_scan(self, rows: Rows, check: RowCheck | Repeated) -> int | None:
        if isinstance(check, Repeated):
            return 0 if (self.unique and self.unique <= set(check.columns)) or not rows.held.issuperset(check.columns) else None
        if check.column not in rows.held:  # null in every row
            return rows.count if isinstance(check, IsNull) or not check.null_passes else 0
        return proved(check, rows.facts)

    def _scan(self, rows: Rows, to_scan: Mapping[int, tuple[RuleToMeasure, RowCheck | Repeated]]) -> dict[int, RuleMeasurement]:
        found: dict[int, RuleMeasurement] = {}
        single = {number: check for number, (_, check) in to_scan.items() if not isinstance(check, Repeated)}
        started = time.perf_counter()
        counts = count_broken(self.engine, rows.local, list(single.values()), rows.few_values)
        share = _milliseconds(started) / max(len(single), 1)
        for number, count in zip(single, counts, strict=True):
            found[number] = _measured(to_scan[number][0], count, rows.count, MeasuringMethod.SCAN, share)
        keys = [(number, rule, check) for number, (rule, check) in to_scan.items() if isinstance(check, Repeated)]
        proved_keys: list[frozenset[str]] = []
        for number, rule, check in sorted(keys, key=lambda key: len(key[2].columns)):
            started = time.perf_counter()
            # Columns that contain a unique key are unique themselves.
            count = 0 if any(known.issubset(check.columns) for known in proved_keys) else self._count_repeated(rows, check)
            if count == 0:
                proved_keys.append(frozenset(check.columns))
            found[number] = _measured(rule, count, rows.count, MeasuringMethod.SCAN, _milliseconds(started))
        return found

    def _count_repeated(self, rows: Rows, check: Repeated) -> int | str:
        whole = all(rows.columns[column].kind is ValueKind.INTEGER for column in check.columns)
        try:
            return count_repeated(self.engine, rows.local, check.columns, rows=rows.count, whole=whole, limits=self.engine.limits)
        except duckdb.Error as error:
            return f"The engine could not count it ({type(error).__name__})."

    def _with_samples(self, rows: Rows, check: RowCheck | Repeated | None, measurement: RuleMeasurement) -> RuleMeasurement:
        if not measurement.violations or check is None or not self.shown or not rows.held.issuperset(self.shown):
            return measurement
        try:
            return measurement.model_copy(update={"samples": spell_samples(self.shown, self._samples(rows, check))})
        except (duckdb.Error, pa.ArrowException) as error:
            _log.warning("samples of a rule could not be read", rule_id=str(measurement.rule_id), error=type(error).__name__)  # its text may hold keys
            return measurement  # the count is valid without samples

    def _samples(self, rows: Rows, check: RowCheck | Repeated) -> Any:
        if isinstance(check, Repeated):
            return sample_repeated(self.engine, rows.local, check.columns, self.shown, SAMPLES)
        condition = broken(check) if check.column in rows.held else "true"
        return self.engine.read_table(f"SELECT DISTINCT {names(self.shown)} FROM {files(rows.local)} WHERE {condition} ORDER BY ALL LIMIT {SAMPLES}")


def unmeasured(rule: RuleToMeasure, why: str) -> RuleMeasurement:
    return RuleMeasurement(rule_id=rule.id, revision=rule.revision, violations=None, error=why)


def _measured(rule: RuleToMeasure, answer: int | str, examined: int, method: MeasuringMethod, milliseconds: float) -> RuleMeasurement:
    if isinstance(answer, str):
        return unmeasured(rule, answer)
    return RuleMeasurement(
        rule_id=rule.id, revision=rule.revision, violations=answer, examined=examined, method=method, milliseconds=round(milliseconds, 3)
    )  # fmt: skip


def _milliseconds(started: float) -> float:
    return (time.perf_counter() - started) * 1000


def spell_samples(columns: Sequence[str], rows: Any) -> list[str]:
    """One text for each row of an Arrow table. Values are not converted to Python, which cannot represent years before 1 or after 9999."""
    spelled = zip(*(_texts(rows.column(column)) for column in columns), strict=True)
    return [", ".join(f"{column}={text}" for column, text in zip(columns, row, strict=True))[:_LONGEST_SAMPLE] for row in spelled]


def _texts(values: Any) -> list[str]:
    if pa.types.is_timestamp(values.type) and values.type.tz:
        return [text if text == _NULL else f"{text}Z" for text in _texts(values.cast(pa.timestamp(values.type.unit)))]  # in UTC
    return values.cast(pa.string()).fill_null(_NULL).to_pylist()
