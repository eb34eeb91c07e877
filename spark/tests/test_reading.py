"""What an operator sees of a pinned input."""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tracelake_sdk.tasks.operator_files import OrderInput
from tracelake_spark.failures import OperatorFailed
from tracelake_spark.reading import input_frame

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def struct(**columns: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns.items()]}


def pinned(schema: dict[str, Any], files: list[str], scopes: list[dict[str, Any]] | None = None, partition_by: dict[str, Any] | None = None) -> OrderInput:
    values = {"index": 0, "name": None, "version": 1, "table_schema": schema, "files": files, "scopes": scopes, "partition_by": partition_by}
    return OrderInput.model_validate(values)


def one_file(spark: SparkSession, folder: Path, query: str) -> str:
    """The one Parquet file of a query's rows."""
    spark.sql(query).coalesce(1).write.parquet(f"file://{folder}")
    return next(f"file://{path}" for path in folder.glob("part-*.parquet"))


def test_exactly_the_named_files_are_read(spark: SparkSession, tmp_path: Path) -> None:
    files = [one_file(spark, tmp_path / str(number), f"SELECT {number} AS n") for number in range(3)]
    assert sorted(row.n for row in input_frame(spark, pinned(struct(n="integer"), files[:2])).collect()) == [0, 1]


@pytest.mark.parametrize("name", ["*.parquet", "[ab].parquet", "{a,b}.parquet", "a:b.parquet", "a b%20.parquet", "n=7/part.parquet"])
def test_a_name_is_never_a_pattern_and_a_folder_never_a_column(spark: SparkSession, tmp_path: Path, name: str) -> None:
    good, other = one_file(spark, tmp_path / "good", "SELECT 1 AS n"), one_file(spark, tmp_path / "other", "SELECT 2 AS n")
    odd = tmp_path / "odd" / name
    odd.parent.mkdir(parents=True)
    for blocked in ["a.parquet", "b.parquet", "part-0.parquet"]:
        shutil.copy(other.removeprefix("file://"), tmp_path / "odd" / blocked)
    shutil.copy(good.removeprefix("file://"), odd)
    frame = input_frame(spark, pinned(struct(n="integer"), [f"file://{odd}"]))
    assert [row.asDict() for row in frame.collect()] == [{"n": 1}]


def test_columns_that_older_files_lack_are_null_and_others_are_not_shown(spark: SparkSession, tmp_path: Path) -> None:
    old, new = one_file(spark, tmp_path / "old", "SELECT 1 AS n"), one_file(spark, tmp_path / "new", "SELECT 2 AS n, named_struct('x', 5L) AS more, 9 AS dropped")
    schema = struct(n="integer", more=struct(x="long", y="string"), later="timestamp")
    frame = input_frame(spark, pinned(schema, [old, new]))
    assert frame.columns == ["n", "more", "later"]
    rows = sorted(frame.collect(), key=lambda row: row.n)
    assert [rows[0].more, rows[0].later] == [None, None]
    assert rows[1].more.asDict() == {"x": 5, "y": None}


def test_the_recorded_types_are_read_also_nested_and_decimal(spark: SparkSession, tmp_path: Path) -> None:
    file = one_file(spark, tmp_path / "f", "SELECT array(1.50BD) AS prices, map('a', date'1890-01-02') AS days")
    prices = {"type": "array", "elementType": "decimal(3,2)", "containsNull": False}
    days = {"type": "map", "keyType": "string", "valueType": "date", "valueContainsNull": True}
    frame = input_frame(spark, pinned(struct(prices=prices, days=days), [file]))
    assert frame.schema.simpleString() == "struct<prices:array<decimal(3,2)>,days:map<string,date>>"
    assert str(frame.collect()[0].prices[0]) == "1.50"


def test_without_files_there_are_columns_and_no_rows(spark: SparkSession) -> None:
    frame = input_frame(spark, pinned(struct(n="integer", at="timestamp"), [], scopes=[{"kind": "full"}]))
    assert (frame.columns, frame.count()) == (["n", "at"], 0)


def test_a_missing_file_is_an_error_and_no_shorter_answer(spark: SparkSession, tmp_path: Path) -> None:
    file = one_file(spark, tmp_path / "f", "SELECT 1 AS n")
    with pytest.raises(Exception, match="PATH_NOT_FOUND"):
        input_frame(spark, pinned(struct(n="integer"), [file, f"file://{tmp_path}/gone.parquet"])).collect()


def test_only_the_rows_of_the_keys_are_seen(spark: SparkSession, tmp_path: Path) -> None:
    file = one_file(spark, tmp_path / "f", "SELECT explode(array('*', 'a', '', NULL, 'é')) AS key")
    scopes = [{"kind": "partition", "key": key} for key in ("*", "é")]
    assert sorted(row.key for row in input_frame(spark, pinned(struct(key="string"), [file], scopes, {"column": "key"})).collect()) == ["*", "é"]


def test_keys_of_another_type_are_its_text(spark: SparkSession, tmp_path: Path) -> None:
    file = one_file(spark, tmp_path / "f", "SELECT explode(array(date'2024-01-10', date'2024-01-11')) AS day")
    frame = input_frame(spark, pinned(struct(day="date"), [file], [{"kind": "partition", "key": "2024-01-10"}], {"column": "day"}))
    assert [str(row.day) for row in frame.collect()] == ["2024-01-10"]


def test_cursors_compare_as_numbers_and_ranges_are_half_open(spark: SparkSession, tmp_path: Path) -> None:
    file = one_file(spark, tmp_path / "f", "SELECT explode(array(9, 10, 11, 99, 100, 200, -5)) AS at")
    scopes = [{"kind": "range", "start": 10, "end": 100}, {"kind": "cursor", "value": 200}, {"kind": "range", "start": 50, "end": 60}]
    frame = input_frame(spark, pinned(struct(at="integer"), [file], scopes, {"column": "at", "cursor": "integer"}))
    assert sorted(row.at for row in frame.collect()) == [10, 11, 99, 200]


def test_times_compare_as_instants_whatever_the_zone_of_the_session(spark: SparkSession, tmp_path: Path) -> None:
    file = one_file(spark, tmp_path / "f", "SELECT explode(array(timestamp'1890-01-02 03:00:00', timestamp'1890-01-02 04:00:00', timestamp'0001-06-01 00:00:00')) AS at")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    spec = {"column": "at", "cursor": "timestamp"}
    hour = [{"kind": "range", "start": "1890-01-02T03:00:00Z", "end": "1890-01-02T04:00:00Z"}]
    old = [{"kind": "cursor", "value": datetime(1, 6, 1, tzinfo=UTC)}]
    for scopes, microseconds in ((hour, -2524424400000000), (old, -62122550400000000)):
        frame = input_frame(spark, pinned(struct(at="timestamp"), [file], scopes, spec))
        assert [row.m for row in frame.selectExpr("unix_micros(at) AS m").collect()] == [microseconds]


def test_many_scopes_are_one_shallow_condition(spark: SparkSession, tmp_path: Path) -> None:
    file = one_file(spark, tmp_path / "f", "SELECT id AS at FROM range(1000)")
    scopes = [{"kind": "cursor", "value": value} for value in range(0, 1000, 3)]
    assert input_frame(spark, pinned(struct(at="long"), [file], scopes, {"column": "at", "cursor": "integer"})).count() == 334


def test_without_scopes_no_row_is_read(spark: SparkSession, tmp_path: Path) -> None:
    file = one_file(spark, tmp_path / "f", "SELECT 1 AS at")
    assert input_frame(spark, pinned(struct(at="integer"), [file], [], {"column": "at", "cursor": "integer"})).count() == 0


@pytest.mark.parametrize(
    ("scope", "partition_by"),
    [({"kind": "partition", "key": "a"}, {"column": "at", "cursor": "integer"}), ({"kind": "cursor", "value": 1}, {"column": "at"}), ({"kind": "cursor", "value": 1}, None)],
)
def test_a_scope_that_does_not_fit_the_dataset_is_refused(spark: SparkSession, tmp_path: Path, scope: dict[str, Any], partition_by: dict[str, Any] | None) -> None:
    file = one_file(spark, tmp_path / "f", "SELECT 1 AS at")
    with pytest.raises(OperatorFailed):
        input_frame(spark, pinned(struct(at="integer"), [file], [scope], partition_by))
