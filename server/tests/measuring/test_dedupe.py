"""An append skips exactly the rows whose key already exists, at the cost of the append."""

import random
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.sizes import seed, seeded, size

from tracelake.worker.measuring import dedupe
from tracelake.worker.measuring.keys import hash_keys, read_keys, read_sidecar
from tracelake_sdk.datasets.measurements import OutputMeasured
from tracelake_sdk.rules import RuleScope, Unique
from tracelake_sdk.rules.trees import TypedColumn, ValueKind

from .benches import Bench, rule, table_files

INTEGER, TEXT = TypedColumn(ValueKind.INTEGER, 64), TypedColumn(ValueKind.TEXT)


@pytest.fixture
def appending(bench: Bench) -> Bench:
    bench.unique_key, bench.update_strategy = ["id"], "append"
    return bench


def rows(*ids: Any, value: str = "x", kind: pa.DataType | None = None) -> pa.Table:
    return pa.table({"id": pa.array(ids, kind or pa.int64()), "value": pa.array([f"{value}{place}" for place in range(len(ids))], pa.string())})


def ids(bench: Bench, found: OutputMeasured) -> list[Any]:
    return [row["id"] for row in bench.rows(found.files)]


@pytest.mark.proves("T8.2")
def test_the_first_of_a_batch_stays_by_path_and_row(appending: Bench):
    attempt = appending.attempt()
    later = appending.write(attempt, "b", rows(1, 2, 5, value="late"))
    first = appending.write(attempt, "a", rows(3, 1, 3, None, None, value="early"), row_group_size=2)
    found = appending.measured(appending.output(attempt, [later, first]))
    assert [(row["id"], row["value"]) for row in appending.rows(found.files)] == [
        (3, "early0"), (1, "early1"), (None, "early3"), (None, "early4"), (2, "late1"), (5, "late2")
    ]
    assert (found.rows, found.duplicates) == (6, 2)
    assert [file.path[: -len("-u0123456789abcdef.parquet")] for file in found.files] == [f"{attempt}/full/a", f"{attempt}/full/b"]


def test_a_file_that_is_written_again_never_takes_the_name_of_another(appending: Bench):
    """Two attempts may adopt one batch, and the slower one may have been decided."""
    attempt = appending.attempt()
    output = appending.output(attempt, [appending.write(attempt, "a", rows(1, 1, 2))])
    one, other = appending.measured(output), appending.measured(output)
    assert {file.path for file in one.files}.isdisjoint(file.path for file in other.files)
    assert ids(appending, one) == ids(appending, other) == [1, 2]


@pytest.mark.proves("T8.2")
def test_only_rows_with_existing_keys_are_skipped(appending: Bench):
    current = table_files(appending.stage(rows(*range(100)))) + table_files(appending.stage(rows(*range(1000, 1100), None)))
    found = appending.stage(rows(99, 100, 1050, 1100, None, -1), rows(100, 50), current=current)
    assert (ids(appending, found), found.duplicates) == ([100, 1100, None, -1], 4)
    assert [(file.key_min, file.key_max) for file in found.files] == [(-1, 1100)]
    nothing = appending.stage(rows(5, 6), rows(), current=current)
    assert (nothing.files, nothing.rows, nothing.duplicates) == ([], 0, 2)


@pytest.mark.parametrize(("kind", "old", "new"), [
    (pa.string(), ["a", "", "x" * 300, "naïve ☃", "a\0"], ["b", "a\0\0", "x" * 301, "aa"]),
    (pa.int8(), [-128, 127], [0]),
    (pa.date32(), [date(1, 1, 1), date(9999, 12, 31)], [date(2024, 1, 10)]),
    (pa.timestamp("us", "UTC"), [datetime(2024, 1, 10, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)], [datetime(2024, 1, 10, 0, 0, 0, 1, UTC)]),
    (pa.decimal128(38, 2), [Decimal("1.00"), Decimal("-99999999999999999999999999999999999.99")], [Decimal("1.01"), Decimal("18446744073709551617.00")]),
    (pa.decimal128(9, 0), [Decimal(5)], [Decimal(6)]),
    (pa.float64(), [0.0, float("nan"), 1.5], [1.25, float("inf")]),
    (pa.bool_(), [True], [False]),
    (pa.dictionary(pa.int32(), pa.string()), ["a", "b"], ["c"]),
    (pa.large_string(), ["a"], ["c"]),
])  # fmt: skip
def test_every_kind_of_key_is_found_again(appending: Bench, kind: pa.DataType, old: list[Any], new: list[Any]):
    current = table_files(appending.stage(rows(*old, None, kind=kind)))
    again = [-0.0 if value == 0.0 and isinstance(value, float) else value for value in old]
    found = appending.stage(rows(*again, *new, None, kind=kind), current=current)
    assert (ids(appending, found), found.duplicates) == ([*new, None], len(old))


@pytest.mark.parametrize(("kind", "zero"), [(pa.int64(), 0), (pa.string(), ""), (pa.float64(), 0.0), (pa.bool_(), False), (pa.decimal128(5, 2), Decimal(0)), (pa.date32(), date(1970, 1, 1))])
def test_a_null_never_equals_a_key_even_with_the_same_hash(appending: Bench, kind: pa.DataType, zero: Any):
    found = appending.stage(rows(zero, None, zero, None, None, kind=kind))
    assert (ids(appending, found), found.duplicates) == ([zero, None, None, None], 1)


def test_a_key_of_several_columns_counts_as_one(appending: Bench):
    appending.unique_key = ["id", "part"]

    def pairs(*given: tuple[Any, Any]) -> pa.Table:
        return pa.table({"part": pa.array([part for _, part in given], pa.string()), "id": pa.array([id for id, _ in given], pa.int64()), "more": [1.0] * len(given)})

    current = table_files(appending.stage(pairs((1, "a"), (1, "b"), (2, None), (None, "a"))))
    found = appending.stage(pairs((1, "a"), (1, "c"), (2, None), (2, "a"), (None, "a"), (2, "a")), current=current)
    assert [(row["id"], row["part"]) for row in appending.rows(found.files)] == [(1, "c"), (2, None), (2, "a"), (None, "a")]
    assert found.duplicates == 2


@pytest.mark.proves("T8.2")
def test_keys_that_only_share_a_hash_are_both_kept(appending: Bench, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tracelake.worker.measuring.keys._mix", lambda state: state.__iand__(np.uint64(3)))  # four hashes for all keys
    table = rows(*range(100))
    assert len(np.unique(hash_keys(table, [("id", INTEGER)])[0])) <= 4
    current = table_files(appending.stage(table))
    found = appending.stage(rows(*range(90, 200), 150), current=current)
    assert (ids(appending, found), found.duplicates) == (list(range(100, 200)), 11)


def test_against_any_table_it_leaves_out_what_a_set_would(appending: Bench):
    chance = seeded()
    for _ in range(size(4, 60)):
        current, known = [], set[int]()
        for _ in range(chance.randint(0, 4)):
            low = chance.randint(0, 400)
            found = appending.stage(*(_chosen(chance, low) for _ in range(chance.randint(1, 3))), current=current)
            assert known.isdisjoint(ids(appending, found)), seed()
            known.update(ids(appending, found))
            current += table_files(found)
            assert len(known) == sum(file.rows for file in current), seed()


def _chosen(chance: random.Random, low: int) -> pa.Table:
    return rows(*(chance.randint(low, low + 200) for _ in range(chance.randint(0, 120))))


@pytest.mark.proves("T8.2")
def test_files_that_cannot_share_a_key_are_not_opened(appending: Bench):
    far = table_files(appending.stage(rows(*range(1000, 2000))))
    near = table_files(appending.stage(rows(*range(0, 100, 2))))
    for file in far:  # by their bounds
        (appending.table / file.path).unlink()
        (appending.table / str(file.hashes)).unlink()
    for file in near:  # by their hashes
        (appending.table / file.path).unlink()
    found = appending.stage(rows(*range(1, 99, 2)), current=[*far, *near])
    assert (found.rows, found.duplicates) == (49, 0)
    assert appending.refused(appending.output("task-3", ["full/part-0.parquet"], current=[file.model_copy(update={"key_min": 50}) for file in far])) == "file_missing"


def test_keys_of_files_without_hashes_are_read(appending: Bench):
    current = [file.model_copy(update={"hashes": None, "key_min": None, "key_max": None}) for file in table_files(appending.stage(rows(1, 2, 3)))]
    found = appending.stage(rows(3, 4), current=current)
    assert (ids(appending, found), found.duplicates) == ([4], 1)


def test_hashes_are_the_same_for_ever(appending: Bench):
    """Files that were written by earlier releases keep their hashes."""
    table = pa.table({
        "i": pa.array([1, -1, None], pa.int32()), "t": ["a", "naïve ☃ and more than eight bytes", "x" * 300],
        "d": pa.array([Decimal("1.50"), None, Decimal("-2.25")], pa.decimal128(10, 2)), "f": [0.5, float("nan"), -0.0], "b": [True, False, None],
    })  # fmt: skip
    kinds = {"i": TypedColumn(ValueKind.INTEGER, 32), "t": TEXT, "d": TypedColumn(ValueKind.DECIMAL, 10, 2), "f": TypedColumn(ValueKind.FLOAT), "b": TypedColumn(ValueKind.BOOLEAN)}
    found = {name: [f"{number:016x}" for number in hash_keys(table, [(name, kind)])[0]] for name, kind in kinds.items()}
    assert found == KNOWN
    assert [f"{number:016x}" for number in hash_keys(table, list(kinds.items()))[0][:1]] == KNOWN_TOGETHER
    _, present = hash_keys(table, list(kinds.items()))
    assert present.tolist() == [True, False, False]
    sliced = hash_keys(table.slice(1, 2), [("t", TEXT)])[0]
    assert [f"{number:016x}" for number in sliced] == KNOWN["t"][1:]


KNOWN: dict[str, list[str]] = {
    "i": ["25b775faeca8f520", "3cd617bbbcc39640", "9ca066f1a4ab2eea"],
    "t": ["3f8805a87949ecb3", "f24094d4ab56e82b", "cc2d80d641766b41"],
    "d": ["692aeda89f33078d", "6393d51c06c618dc", "82b56aa32f1bf71c"],
    "f": ["b42afde3e6c3d53c", "7f9a866907b600aa", "9ca066f1a4ab2eea"],
    "b": ["25b775faeca8f520", "9ca066f1a4ab2eea", "9ca066f1a4ab2eea"],
}
KNOWN_TOGETHER = ["db795cf29ed20f74"]


def test_the_sidecar_holds_the_sorted_hashes_of_what_stayed(appending: Bench):
    found = appending.stage(rows(5, 3, 5, None, 1))
    [file] = found.files
    assert file.hashes == f"{file.path}.keys"
    stored = read_sidecar(appending.table / file.hashes)
    keys = read_keys(appending.table / file.path, [("id", INTEGER)])
    assert stored.tolist() == sorted(keys.hashes[keys.present].tolist())
    assert len(stored) == 3
    assert (appending.table / file.hashes).stat().st_mode & 0o777 == 0o444


def test_a_file_that_is_written_again_keeps_its_types_and_values(appending: Bench, tmp_path: Path):
    table = pa.table({
        "id": pa.array([1, 1, 2], pa.int32()), "at": pa.array([0, 1, -62135596800000000], pa.timestamp("us", "UTC")), "price": pa.array([Decimal("1.50")] * 3, pa.decimal128(9, 2)),
        "wide": pa.array([Decimal("1.50")] * 3, pa.decimal128(38, 2)), "nested": [{"a": [1, None], "b": None}, None, {"a": [], "b": "x"}], "raw": [b"\x00", None, b"\xff"],
        "day": pa.array([0, 1, 3_000_000], pa.date32()), "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())), "ratio": pa.array([1.5, None, float("nan")], pa.float32()),
    })  # fmt: skip
    table = table.replace_schema_metadata({"org.apache.spark.version": "4.2.1"})
    [file] = appending.stage(table).files
    read = pq.read_table(appending.table / file.path, partitioning=None)
    assert read.schema.remove_metadata() == pq.read_table(appending.table / "task-1/full/part-0.parquet", partitioning=None).schema.remove_metadata()
    assert (read.schema.metadata or {})[b"org.apache.spark.version"] == b"4.2.1"
    assert read.drop_columns(["ratio"]).equals(table.take([0, 2]).drop_columns(["ratio"]))


def test_bounds_of_keys_are_those_of_the_rows_that_stayed(appending: Bench):
    current = table_files(appending.stage(rows(1, 9)))
    [file] = appending.stage(rows(1, 5, 9, 7), current=current).files
    assert (file.key_min, file.key_max) == (5, 7)


def test_a_key_that_is_missing_or_nested_is_refused(appending: Bench):
    attempt = appending.attempt()
    assert appending.refused(appending.output(attempt, [appending.write(attempt, "a", pa.table({"other": [1]}))])) == "key_missing"
    assert appending.refused(appending.output(attempt, [appending.write(attempt, "b", pa.table({"id": [[1]]}))])) == "key_missing"
    both = [appending.write(attempt, "c", rows(1)), appending.write(attempt, "d", pa.table({"value": ["x"]}))]
    assert appending.refused(appending.output(attempt, both)) == "key_missing"


@pytest.mark.proves("T8.2")
def test_a_moved_base_is_deduped_against_the_files_since_alone(appending: Bench):
    attempt = appending.attempt()
    unique = [rule(Unique(columns=("id",)), 1), rule(Unique(columns=("value",)), 2)]
    output = appending.output(attempt, [appending.write(attempt, "a", rows(*range(10), value="a")), appending.write(attempt, "b", rows(20, 21))], rules=unique)
    first = appending.measured(output)
    since = table_files(appending.stage(rows(3, 4, 100)))
    moved = appending.again(output, first, since)
    second = appending.measured(moved)
    assert (ids(appending, second), second.duplicates) == ([0, 1, 2, 5, 6, 7, 8, 9, 20, 21], 2)
    assert [measurement.examined for measurement in second.rules] == [10, 10]
    assert [file.path for file in second.files][1] == [file.path for file in first.files][1]
    more = table_files(appending.stage(rows(5, 20, 21)))
    third = appending.measured(appending.again(moved, second, more))
    assert (ids(appending, third), third.duplicates) == ([0, 1, 2, 6, 7, 8, 9], 5)
    again = appending.measured(output.model_copy(update={"staged": output.staged.model_copy(update={"current": [*since, *more]})}))
    assert (ids(appending, again), again.duplicates) == (ids(appending, third), third.duplicates)


def test_a_replace_counts_what_an_append_would_leave_out(appending: Bench):
    appending.update_strategy = "replace"
    current = table_files(appending.stage(rows(1, 2, 3), rules=[rule(Unique(columns=("id",)), 1, RuleScope.TABLE)]))
    found = appending.stage(rows(3, 4, 4, None, None), current=current, rules=[rule(Unique(columns=("id",)), 1, RuleScope.TABLE), rule(Unique(columns=("id",)), 2)])
    assert [(measurement.violations, measurement.examined, measurement.samples) for measurement in found.rules] == [(2, 8, ["id=3", "id=4"]), (1, 5, ["id=4"])]
    assert found.duplicates == 0


def test_names_of_our_own_cannot_be_columns():
    assert " " in dedupe._ROW  # such a column is refused before
    assert " " in dedupe._FILE


@pytest.mark.proves("T8.2")
def test_rows_with_a_null_in_their_key_are_counted(bench: Bench):
    bench.unique_key, bench.update_strategy = ["a", "b"], "append"
    table = pa.table({"a": pa.array([1, None, 3, None], pa.int64()), "b": pa.array(["x", "y", None, None], pa.string())})
    attempt = bench.attempt()
    output = bench.output(attempt, [bench.write(attempt, "one", table)])
    found = bench.measured(output)
    assert (found.rows, found.null_keys, found.duplicates) == (4, 3, 0)
    # Again after others were decided first, which took one row out.
    again = bench.measured(bench.again(output, found, table_files(bench.stage(table.slice(0, 1)))))
    assert (again.rows, again.null_keys, again.duplicates) == (3, 3, 1)
    bench.update_strategy, bench.unique_key = "replace", []
    assert bench.stage(table).null_keys == 0
