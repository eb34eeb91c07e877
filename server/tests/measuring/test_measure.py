"""What a measurement says of staged files, and what it refuses."""

import os
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tracelake_sdk.dags import PartitionSpec
from tracelake_sdk.datasets.cursors import CursorType
from tracelake_sdk.datasets.scopes import CursorScope, FullScope, PartitionScope, RangeScope
from tracelake_sdk.rules import Enumerated, MeasuringMethod, NotNull, Range, Regex, RowCount, RuleScope, Unique

from .benches import Bench, rule

ORDERS = pa.table({"id": [1, 2, 3, 4], "status": ["new", "paid", None, "lost"], "amount": pa.array([Decimal("1.50"), None, Decimal("-2.00"), Decimal("7.25")], pa.decimal128(12, 2))})


@pytest.mark.proves("G2.5")
def test_files_are_sealed_and_everything_the_gate_needs_is_reported(bench: Bench):
    bench.unique_key, bench.update_strategy = ["id"], "append"
    found = bench.stage(ORDERS, ORDERS.slice(0, 0), pa.table({"id": [5], "status": ["new"], "amount": pa.array([Decimal("0.00")], pa.decimal128(12, 2))}))
    assert [(file.rows, file.key_min, file.key_max) for file in found.files] == [(4, 1, 4), (1, 5, 5)]  # a file without rows is dropped
    assert (found.rows, found.bytes) == (5, sum(file.size for file in found.files))
    assert [(field["name"], field["type"], field["nullable"]) for field in found.table_schema["fields"]] == [
        ("id", "long", True), ("status", "string", True), ("amount", "decimal(12,2)", True)
    ]
    first = found.files[0]
    assert first.statistics.min == {"id": 1, "status": "lost", "amount": -2.0}
    assert first.statistics.max == {"id": 4, "status": "paid", "amount": 7.25}
    assert first.statistics.nulls == {"id": 0, "status": 1, "amount": 1}
    state = (bench.table / first.path).stat()
    assert state.st_mode & 0o777 == 0o444
    assert first.seal == f"{state.st_size}-{state.st_ino}-{state.st_mtime_ns}"
    assert found.scopes == [FullScope()]


@pytest.mark.proves("G2.8")
def test_rules_are_proved_from_footers_if_exact_and_scanned_if_not(bench: Bench):
    bench.unique_key = ["id"]
    found = bench.stage(ORDERS, rules=[
        rule(NotNull(column="id"), 1), rule(NotNull(column="status"), 2), rule(Range(column="amount", low="-2", high=8), 3), rule(Range(column="amount", low=0), 4),
        rule(Enumerated(column="status", values=("new", "paid")), 5), rule(Regex(column="status", pattern="[a-z]{3,4}"), 6), rule(Unique(columns=("id",)), 7),
        rule(RowCount(least=1), 8), rule(Enumerated(column="status", values=("new", "paid", "lost"), null_passes=False), 9),
    ])
    by_rule = {measurement.rule_id.int: measurement for measurement in found.rules}
    assert {number: (measurement.violations, measurement.method) for number, measurement in by_rule.items()} == {
        1: (0, MeasuringMethod.FOOTERS), 2: (1, MeasuringMethod.FOOTERS), 3: (0, MeasuringMethod.FOOTERS), 4: (1, MeasuringMethod.SCAN),
        5: (1, MeasuringMethod.SCAN), 6: (0, MeasuringMethod.SCAN), 7: (0, MeasuringMethod.SCAN), 9: (1, MeasuringMethod.SCAN),
    }
    assert {measurement.examined for measurement in by_rule.values()} == {4}
    assert (by_rule[2].samples, by_rule[4].samples, by_rule[5].samples, by_rule[1].samples) == (["id=3"], ["id=3"], ["id=4"], [])


def test_samples_are_at_most_five_keys_and_only_keys(bench: Bench):
    bench.unique_key = ["id"]
    found = bench.stage(pa.table({"id": list(range(20)), "secret": [None] * 10 + ["x"] * 10}), rules=[
        rule(NotNull(column="secret"), 1), rule(Unique(columns=("secret",)), 2),
    ])
    assert [(measurement.violations, measurement.samples) for measurement in found.rules] == [
        (10, [f"id={number}" for number in range(5)]), (9, [f"id={number}" for number in range(10, 15)])
    ]
    bench.unique_key = []
    assert bench.stage(pa.table({"secret": [None, "x"]}).cast(pa.schema([("secret", pa.string())])), rules=[rule(NotNull(column="secret"))]).rules[0].samples == []


@pytest.mark.proves("G2.5")
@pytest.mark.parametrize(("tree", "words"), [
    (NotNull(column="gone"), "The column gone does not exist"),
    (Range(column="status", low=1), "no order"),
    (Range(column="amount", low="much"), "not a number"),
    (Regex(column="id", pattern="x"), "is not text"),
    (Regex(column="status", pattern=r"(a)\1"), "pattern"),
    (Enumerated(column="id", values=("x",)), "another type"),
    (Unique(columns=("id", "gone")), "The column gone does not exist"),
])  # fmt: skip
def test_a_rule_that_cannot_be_measured_says_why_and_harms_no_other(bench: Bench, tree: object, words: str):
    found = bench.stage(ORDERS, rules=[rule(tree, 1), rule(Enumerated(column="id", values=(1, 2)), 2)])  # pyright: ignore[reportArgumentType]
    assert found.rules[0].violations is None
    assert words in (found.rules[0].error or "")
    assert found.rules[1].violations == 2


@pytest.mark.proves("T2.2")
@pytest.mark.parametrize("scope", RuleScope)
def test_an_output_without_files_and_without_a_table_misses_no_column(bench: Bench, scope: RuleScope):
    found = bench.stage(rules=[rule(NotNull(column="name"), 1, scope)])
    assert [(measurement.violations, measurement.examined, measurement.error) for measurement in found.rules] == [(0, 0, None)]


def test_an_output_without_files_keeps_the_tables_schema_and_breaks_nothing(bench: Bench):
    schema = {"type": "struct", "fields": [{"metadata": {}, "name": "id", "nullable": True, "type": "long"}]}
    found = bench.stage(table_schema=schema, rules=[rule(NotNull(column="id"), 1), rule(Unique(columns=("id",)), 2, RuleScope.TABLE), rule(Unique(columns=("id",)), 3)])
    assert (found.files, found.rows, found.table_schema) == ([], 0, schema)
    assert [(measurement.violations, measurement.examined) for measurement in found.rules] == [(0, 0)] * 3


@pytest.mark.proves("T8.3")
def test_rows_outside_their_scope_are_counted(bench: Bench):
    bench.partition_by = PartitionSpec(column="day", cursor=CursorType.INTEGER)
    scope = RangeScope(start=10, end=20)
    attempt = bench.attempt()
    good = bench.write(attempt, "a", pa.table({"day": [10, 19]}), scope)
    bad = bench.write(attempt, "b", pa.table({"day": [9, 10, 20, None]}), scope)
    found = bench.measured(bench.output(attempt, [good, bad], scopes=[scope], announced=[scope], everything=False))
    assert (found.outside_scope, [file.scope for file in found.files]) == (3, [scope, scope])
    elsewhere = RangeScope(start=0, end=10)
    assert bench.measured(bench.output(attempt, [good], scopes=[scope], announced=[elsewhere], everything=False)).outside_scope == 2


@pytest.mark.parametrize(("values", "kind", "key"), [
    (["*", "*"], pa.string(), "*"), (["../x", "../x"], pa.string(), "../x"), ([7, 7], pa.int32(), "7"), ([True, True], pa.bool_(), "true"),
    ([date(2024, 1, 10)] * 2, pa.date32(), "2024-01-10"), ([Decimal("1.50")] * 2, pa.decimal128(5, 2), "1.50"),
    ([datetime(2024, 1, 10, 5, tzinfo=UTC)] * 2, pa.timestamp("us", "UTC"), "2024-01-10 05:00:00"), (["x" * 300] * 2, pa.string(), "x" * 300),
    (["naïve ☃"] * 2, pa.string(), "naïve ☃"),
])  # fmt: skip
@pytest.mark.proves("T8.3")
def test_a_batch_finds_its_partition_in_the_rows_and_counts_strangers(bench: Bench, values: list[object], kind: pa.DataType, key: str):
    bench.partition_by = PartitionSpec(column="part")
    attempt, scope = bench.attempt(), PartitionScope(key=key)
    path = bench.write(attempt, "a", pa.table({"part": pa.array(values, kind)}), scope)
    found = bench.measured(bench.output(attempt, [f"{attempt}/{path}"], scopes=None, adopted=True))
    assert (found.scopes, found.outside_scope) == ([scope], 0)
    stranger = bench.write(attempt, "b", pa.table({"part": pa.array([*values, None], kind)}), scope)
    assert bench.measured(bench.output(attempt, [stranger], scopes=[scope])).outside_scope == 1


@pytest.mark.proves("T8.3")
def test_days_belong_to_spans_of_time_by_their_first_instant(bench: Bench):
    bench.partition_by = PartitionSpec(column="day", cursor=CursorType.TIMESTAMP)
    attempt, scope = bench.attempt(), RangeScope(start=datetime(2024, 1, 9, 12, tzinfo=UTC), end=datetime(2024, 1, 11, tzinfo=UTC))
    path = bench.write(attempt, "a", pa.table({"day": [date(2024, 1, 9), date(2024, 1, 10), date(2024, 1, 11), None]}), scope)
    assert bench.measured(bench.output(attempt, [path], scopes=[scope])).outside_scope == 3


@pytest.mark.parametrize(("kind", "values", "key"), [(pa.float64(), [1e10, 1e10, 0.1], "1.0E10"), (pa.float32(), [0.1, 0.1, 0.2], "0.1"), (pa.decimal128(20, 10), [Decimal("1E-10")] * 2 + [Decimal(1)], "1E-10")])
def test_numbers_with_a_point_are_keys_however_they_are_spelled(bench: Bench, kind: pa.DataType, values: list[object], key: str):
    bench.partition_by = PartitionSpec(column="part")
    attempt, scope = bench.attempt(), PartitionScope(key=key)
    path = bench.write(attempt, "a", pa.table({"part": pa.array(values, kind)}), scope)
    assert bench.measured(bench.output(attempt, [path], scopes=[scope])).outside_scope == 1


@pytest.mark.parametrize("scope", [CursorScope(value=-5), RangeScope(start=-5, end=3), CursorScope(value=datetime(2024, 1, 10, 5, 0, 0, 7, UTC)),
                                   RangeScope(start=datetime(9, 1, 1, tzinfo=UTC), end=datetime(2024, 1, 1, tzinfo=UTC))])  # fmt: skip
def test_a_batch_reads_cursors_from_its_folder(bench: Bench, scope: CursorScope | RangeScope):
    value = scope.value if isinstance(scope, CursorScope) else scope.start
    kind, cursor = (pa.int64(), CursorType.INTEGER) if isinstance(value, int) else (pa.timestamp("us", "UTC"), CursorType.TIMESTAMP)
    bench.partition_by = PartitionSpec(column="at", cursor=cursor)
    attempt = bench.attempt()
    path = bench.write(attempt, "a", pa.table({"at": pa.array([value], kind)}), scope)
    found = bench.measured(bench.output(attempt, [f"{attempt}/{path}"], scopes=None, adopted=True))
    assert (found.scopes, found.outside_scope) == ([scope], 0)


@pytest.mark.proves("T2.2")
def test_a_batch_of_a_table_that_is_not_cut_is_of_everything(bench: Bench):
    attempt = bench.attempt()
    path = bench.write(attempt, "a", ORDERS)
    # As for an append: no scope is declared, and a batch reports none.
    output = bench.output(attempt, [f"{attempt}/{path}"], scopes=None, adopted=True)
    found = bench.measured(output.model_copy(update={"staged": output.staged.model_copy(update={"scopes": []})}))
    assert (found.scopes, found.outside_scope, found.rows) == ([FullScope()], 0, ORDERS.num_rows)


def test_a_file_in_a_folder_of_no_scope_is_refused(bench: Bench):
    attempt = bench.attempt()
    path = bench.write(attempt, "a", ORDERS, PartitionScope(key="x"))
    assert bench.refused(bench.output(attempt, [path])) == "scope_unknown"
    assert bench.refused(bench.output(attempt, [path], scopes=None, adopted=False)) == "scope_unknown"


@pytest.mark.proves("G2.5")
@pytest.mark.parametrize("path", ["../other/a.parquet", "/etc/passwd", "full/*.parquet", "full/a b.parquet", "full//a.parquet", "./full/a.parquet", "full/a\n.parquet", ""])
def test_a_path_that_may_mean_another_file_is_refused(bench: Bench, path: str):
    attempt = bench.attempt()
    bench.write(attempt, "a", ORDERS)
    bench.write("other", "a", ORDERS)
    assert bench.refused(bench.output(attempt, [path])) == "unsafe_path"


@pytest.mark.proves("G2.5")
def test_links_of_any_kind_are_refused(bench: Bench, tmp_path: Path):
    attempt = bench.attempt()
    bench.write(attempt, "a", ORDERS)
    elsewhere = tmp_path / "elsewhere.parquet"
    pq.write_table(ORDERS, elsewhere)
    folder = bench.table / attempt / "full"
    (folder / "soft.parquet").symlink_to(elsewhere)
    os.link(elsewhere, folder / "hard.parquet")
    (bench.table / attempt / "out").symlink_to(tmp_path)
    for path in ("full/soft.parquet", "full/hard.parquet", "out/elsewhere.parquet"):
        assert bench.refused(bench.output(attempt, [path])) == "unsafe_path"
    assert elsewhere.stat().st_mode & 0o222  # and nothing was done to it
    assert bench.refused(bench.output(attempt, ["_delta_log/x.parquet"], adopted=True)) == "unsafe_path"


def test_what_is_missing_or_no_parquet_is_refused(bench: Bench):
    attempt = bench.attempt()
    path = bench.write(attempt, "a", ORDERS)
    assert bench.refused(bench.output(attempt, [path, "full/gone.parquet"])) == "file_missing"
    file = bench.table / attempt / path
    whole = file.read_bytes()
    for body in (b"", b"PAR1", whole[:-20], b"id,name\n1,a\n", whole[:-8] + b"\xff\xff\xff\xff" + whole[-4:]):
        file.chmod(0o644)
        file.write_bytes(body)
        assert bench.refused(bench.output(attempt, [path])) == "not_parquet"


def test_what_delta_cannot_carry_is_refused_with_a_sentence(bench: Bench):
    attempt = bench.attempt()
    path = bench.write(attempt, "a", pa.table({"at": pa.array([0], pa.timestamp("us"))}))
    answer = bench.answer(bench.output(attempt, [path]))
    assert answer.refusal is not None
    assert answer.refusal.error_class == "schema_not_carried"
    assert "timestamp without a zone" in answer.refusal.message
    assert not answer.refusal.retry
    old = bench.write(attempt, "b", pa.table({"at": pa.array([0], pa.timestamp("us", "UTC"))}), use_deprecated_int96_timestamps=True)
    assert bench.refused(bench.output(attempt, [old])) == "schema_not_carried"


def test_files_that_disagree_are_refused_and_files_that_lack_a_column_are_not(bench: Bench):
    attempt = bench.attempt()
    one = bench.write(attempt, "a", pa.table({"id": [1], "note": ["x"]}))
    fewer = bench.write(attempt, "b", pa.table({"id": [2]}))
    found = bench.measured(bench.output(attempt, [one, fewer], rules=[rule(NotNull(column="note"), 1), rule(Regex(column="note", pattern="x", null_passes=False), 2)]))
    assert [measurement.violations for measurement in found.rules] == [1, 1]
    other = bench.write(attempt, "c", pa.table({"id": ["2"]}))
    assert bench.refused(bench.output(attempt, [one, other])) == "schemas_differ"
    cased = bench.write(attempt, "d", pa.table({"ID": [2]}))
    assert bench.refused(bench.output(attempt, [one, cased])) == "schemas_differ"


@pytest.mark.proves("G2.5")
@pytest.mark.parametrize("moment", ["measuring:sealed", "measuring:measured"])
def test_a_file_that_changes_after_it_was_sealed_is_noticed(bench: Bench, moment: str):
    attempt = bench.attempt()
    path = bench.write(attempt, "a", ORDERS)
    file = bench.table / attempt / path

    def meddle(now: str) -> None:
        if now == moment == "measuring:sealed":
            other = file.with_name("other")
            pq.write_table(ORDERS.slice(0, 1), other)
            other.replace(file)

    if moment == "measuring:sealed":
        assert bench.refused(bench.output(attempt, [path]), watch=meddle) == "seal_broken"
        return
    output = bench.output(attempt, [path])
    found = bench.measured(output)
    file.chmod(0o644)
    os.utime(file, ns=(0, 0))
    assert bench.refused(bench.again(output, found, [])) == "seal_broken"
    assert bench.refused(output.model_copy(update={"previous": found, "rules": [rule(NotNull(column="id"))]})) == "seal_broken"
    file.unlink()
    assert bench.refused(bench.again(output, found, [])) == "seal_broken"


def test_a_rule_that_came_later_joins_what_was_measured(bench: Bench):
    attempt = bench.attempt()
    output = bench.output(attempt, [bench.write(attempt, "a", ORDERS)], rules=[rule(NotNull(column="id"), 1), rule(NotNull(column="status"), 2)])
    first = bench.measured(output)
    newer = rule(NotNull(column="amount"), 2).model_copy(update={"revision": 2})
    later = bench.measured(output.model_copy(update={"previous": first, "rules": [newer, rule(Enumerated(column="id", values=(1,)), 3)]}))
    assert [(measurement.rule_id, measurement.revision, measurement.violations) for measurement in later.rules] == [(UUID(int=1), 1, 0), (UUID(int=2), 2, 1), (UUID(int=3), 1, 3)]
    assert later.model_copy(update={"rules": []}) == first.model_copy(update={"rules": []})


def test_a_root_with_characters_that_engines_expand_is_read_as_it_is_written(tmp_path: Path):
    bench = Bench(tmp_path / "a[*]b?{x,y}'q")
    bench.unique_key, bench.update_strategy = ["id"], "append"
    found = bench.stage(ORDERS, ORDERS, rules=[rule(Enumerated(column="id", values=(1,)), 1), rule(Unique(columns=("status",)), 2)])
    assert (found.rows, found.duplicates, [measurement.violations for measurement in found.rules]) == (4, 4, [3, 0])
