"""Where the rows of an output end up, and what the manifest says of them."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from support.orders import order_of

from tracelake_sdk.datasets.scopes import CursorScope, FullScope, PartitionScope, RangeScope, Scope, folder_of
from tracelake_sdk.tasks.operator_files import OrderOutput, OutputStaged
from tracelake_spark import staging
from tracelake_spark.failures import OperatorFailed
from tracelake_spark.progress import Progress
from tracelake_spark.staging import stage

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

Rows = Callable[[list[str]], list[Row]]
ODD_KEYS = ["*", "[x]", "{a,b}", "a=b", "a:b", "../x", "é漢字" * 60, " ", "__HIVE_DEFAULT_PARTITION__", "null", "%2A", "NULL", "none", "0" * 32]


def output_of(folder: Path, **more: Any) -> OrderOutput:
    return order_of(folder, "sql", {}, output=more).outputs[0]


def found(folder: Path) -> set[str]:
    return {path.relative_to(folder / "staging").as_posix() for path in (folder / "staging").rglob("*") if path.is_file()}


def by_scope(staged: OutputStaged, rows: Rows, column: str) -> dict[Scope, set[Any]]:
    folders = {folder_of(scope): scope for scope in staged.scopes}
    held: dict[Scope, set[Any]] = {scope: set() for scope in staged.scopes}
    for file in staged.files:
        held[folders[file.split("/")[0]]] |= {row[column] for row in rows([file])}
    return held


def numbers(spark: SparkSession, *values: int | None) -> DataFrame:
    return spark.createDataFrame([(value, "x") for value in values], "at BIGINT, note STRING")


def test_an_unpartitioned_output_is_one_folder_with_one_small_file_and_nothing_else(spark: SparkSession, tmp_path: Path, staged_rows: Rows) -> None:
    staged = stage(spark.range(100).repartition(20), output_of(tmp_path))
    assert staged.scopes == [FullScope()]
    assert len(staged.files) == 1
    assert re.fullmatch(r"full/[A-Za-z0-9_.-]+\.parquet", staged.files[0])
    assert [row.id for row in sorted(staged_rows(staged.files))] == list(range(100))
    assert found(tmp_path) == set(staged.files)


@pytest.mark.parametrize("partition_by", [None, {"column": "at", "cursor": "integer"}])
def test_without_rows_no_file_is_written(spark: SparkSession, tmp_path: Path, partition_by: dict[str, Any] | None) -> None:
    scope = RangeScope(start=0, end=10)
    staged = stage(numbers(spark), output_of(tmp_path, partition_by=partition_by, scopes=[scope.model_dump()] if partition_by else [], everything=False))
    assert staged.files == []
    assert staged.scopes == ([scope] if partition_by else [FullScope()])
    assert found(tmp_path) == set()


def test_a_large_result_has_several_files_and_none_of_them_is_empty(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "FILE_BYTES", 2000)
    frame = spark.range(0, 1000, 1, 8).where("id >= 500")  # the first half of its parts is empty
    staged = stage(frame, output_of(tmp_path))
    counts = [pyarrow.parquet.ParquetFile(tmp_path / "staging" / file).metadata.num_rows for file in staged.files]
    assert len(counts) > 1
    assert 0 not in counts
    assert sum(counts) == 500


def test_what_others_left_in_the_folder_is_not_named(spark: SparkSession, tmp_path: Path) -> None:
    for leftover in ["full/part-00000-left-over.parquet", "full/_temporary/0/part-00001.parquet", "_writing-1/part-00000.parquet"]:
        path = tmp_path / "staging" / leftover
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"half a file")
    first, second = stage(spark.range(3), output_of(tmp_path)), stage(spark.range(4), output_of(tmp_path))
    assert len(first.files) == len(second.files) == 1
    assert not set(first.files) & set(second.files)
    assert not [file for file in first.files + second.files if "left" in file or "_" in file.split("/")[-1]]


def test_files_of_a_spark_task_that_failed_once_are_not_named(tmp_path: Path) -> None:
    """With retries in the JVM: a part fails after it wrote rows, and its second try is the only one that counts."""
    program = f"""
import json, sys
sys.path.insert(0, {str(Path(__file__).parents[2] / 'tests')!r})
from pathlib import Path
from pyspark import TaskContext
from support.orders import order_of
from tracelake_spark.session import local_session
from tracelake_spark.staging import stage
spark = local_session("retries", memory="512m", **{{"spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem", "spark.master": "local[2,3]"}})
spark.sparkContext.setLogLevel("FATAL")
def rows(part):
    for number in part:
        if number.id == 40000 and TaskContext.get().attemptNumber() == 0:
            raise RuntimeError("once")
        yield number
frame = spark.createDataFrame(spark.range(0, 60000, 1, 3).rdd.mapPartitions(rows), "id BIGINT")
folder = Path({str(tmp_path)!r})
staged = stage(frame, order_of(folder, "sql", {{}}).outputs[0])
print(json.dumps([staged.files, spark.read.parquet(*[f"file://{{folder}}/staging/{{file}}" for file in staged.files]).count()]))
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=240)
    assert said.returncode == 0, said.stderr
    files, rows = json.loads(said.stdout)
    assert rows == 60000
    assert found(tmp_path) == set(files)


@pytest.mark.proves("T4.2")
def test_every_key_has_a_folder_whose_name_is_safe_and_the_manifest_knows_it(spark: SparkSession, tmp_path: Path, staged_rows: Rows) -> None:
    frame = spark.createDataFrame([(key, number) for number, key in enumerate(ODD_KEYS)], "key STRING, n INT")
    staged = stage(frame, output_of(tmp_path, partition_by={"column": "key"}))
    assert {scope.key for scope in staged.scopes if isinstance(scope, PartitionScope)} == set(ODD_KEYS)
    assert all(re.fullmatch(r"p-[0-9a-f]{32}/[A-Za-z0-9_.-]+\.parquet", file) for file in staged.files)
    held = by_scope(staged, staged_rows, "key")
    assert held == {PartitionScope(key=key): {key} for key in ODD_KEYS}
    assert found(tmp_path) == set(staged.files)


@pytest.mark.parametrize(
    ("sql_type", "texts"),
    [("INT", ["-3", "7"]), ("DATE", ["2024-01-10", "1890-03-01"]), ("BOOLEAN", ["true", "false"]), ("DECIMAL(5,2)", ["1.50", "-0.01"])],
)
def test_the_key_of_a_value_is_its_text(spark: SparkSession, tmp_path: Path, sql_type: str, texts: list[str]) -> None:
    frame = spark.createDataFrame([(text,) for text in texts], "key STRING").select(F.col("key").cast(sql_type))
    staged = stage(frame, output_of(tmp_path, partition_by={"column": "key"}))
    assert {str(scope) for scope in staged.scopes} == {f"partition:{text}" for text in texts}


def test_announced_scopes_that_turned_out_empty_are_in_the_manifest(spark: SparkSession, tmp_path: Path, staged_rows: Rows) -> None:
    announced = [PartitionScope(key=key) for key in ("a", "b", "gone")]
    frame = spark.createDataFrame([("a", 1), ("b", 2)], "key STRING, n INT")
    staged = stage(frame, output_of(tmp_path, partition_by={"column": "key"}, everything=False, scopes=[scope.model_dump() for scope in announced]))
    assert by_scope(staged, staged_rows, "n") == dict(zip(announced, [{1}, {2}, set()], strict=True))


@pytest.mark.parametrize("announced", [["a"], ["a", "b"]])
def test_rows_that_are_not_welcome_are_staged_with_the_first_scope_and_not_lost(spark: SparkSession, tmp_path: Path, staged_rows: Rows, announced: list[str]) -> None:
    frame = spark.createDataFrame([("a", 1), ("z", 2)], "key STRING, n INT")
    scopes = [PartitionScope(key=key) for key in announced]
    staged = stage(frame, output_of(tmp_path, partition_by={"column": "key"}, everything=False, scopes=[scope.model_dump() for scope in scopes]))
    assert staged.scopes == scopes
    assert by_scope(staged, staged_rows, "n")[scopes[0]] == {1, 2}


def test_rows_beside_the_announced_spans_are_staged_with_the_first_one(spark: SparkSession, tmp_path: Path, staged_rows: Rows) -> None:
    first, second = RangeScope(start=10, end=20), CursorScope(value=25)
    declared = output_of(tmp_path, partition_by={"column": "at", "cursor": "integer"}, everything=False, scopes=[first.model_dump(), second.model_dump()])
    staged = stage(numbers(spark, 9, 10, 19, 20, 24, 25, 26, -(2**63), 2**63 - 1), declared)
    assert staged.scopes == [first, second]
    assert by_scope(staged, staged_rows, "at") == {first: {9, 10, 19, 20, 24, 26, -(2**63), 2**63 - 1}, second: {25}}


def test_new_cursors_are_cut_into_aligned_spans_that_reach_into_no_announced_one(spark: SparkSession, tmp_path: Path, staged_rows: Rows) -> None:
    announced = [RangeScope(start=4, end=6), RangeScope(start=13, end=22)]
    spec = {"column": "at", "cursor": "integer", "range_size": 10, "origin": 1}
    staged = stage(numbers(spark, -5, 3, 4, 5, 6, 11, 12, 13, 22, 31, 35), output_of(tmp_path, partition_by=spec, scopes=[scope.model_dump() for scope in announced]))
    assert by_scope(staged, staged_rows, "at") == {
        RangeScope(start=-9, end=1): {-5}, RangeScope(start=1, end=4): {3}, announced[0]: {4, 5}, RangeScope(start=6, end=11): {6},
        RangeScope(start=11, end=13): {11, 12}, announced[1]: {13}, RangeScope(start=22, end=31): {22}, RangeScope(start=31, end=41): {31, 35},
    }


def test_times_are_cut_as_times_also_before_1970(spark: SparkSession, tmp_path: Path, staged_rows: Rows) -> None:
    frame = spark.sql("SELECT explode(array(timestamp'2024-01-10 05:59:59.999999', timestamp'2024-01-10 06:00:00', timestamp'1890-01-02 03:04:05')) AS at, 1 AS n")
    staged = stage(frame, output_of(tmp_path, partition_by={"column": "at", "cursor": "timestamp", "range_size": "1h"}))
    assert sorted(map(str, staged.scopes)) == [
        "range:1890-01-02T03:00:00Z_1890-01-02T04:00:00Z", "range:2024-01-10T05:00:00Z_2024-01-10T06:00:00Z", "range:2024-01-10T06:00:00Z_2024-01-10T07:00:00Z",
    ]
    assert "20240110T050000Z_20240110T060000Z" in {file.split("/")[0] for file in staged.files}


def test_cursors_without_a_size_of_spans_are_one_span_of_what_is_there(spark: SparkSession, tmp_path: Path, staged_rows: Rows) -> None:
    staged = stage(numbers(spark, 7, 3, 99), output_of(tmp_path, partition_by={"column": "at", "cursor": "integer"}))
    assert by_scope(staged, staged_rows, "at") == {RangeScope(start=3, end=100): {3, 7, 99}}


def test_many_announced_spans_are_no_deep_expression(spark: SparkSession, tmp_path: Path) -> None:
    scopes = [{"kind": "range", "start": start, "end": start + 5} for start in range(0, 10_000, 5)]
    staged = stage(numbers(spark, 3, 4998), output_of(tmp_path, partition_by={"column": "at", "cursor": "integer"}, scopes=scopes))
    assert {file.split("/")[0] for file in staged.files} == {"0_5", "4995_5000"}
    assert len(staged.scopes) == 2000


@pytest.mark.parametrize("scopes", [[], [{"kind": "range", "start": 0, "end": 10}], [{"kind": "range", "start": 0, "end": 10}, {"kind": "cursor", "value": 20}]])
def test_a_row_without_a_partition_value_fails_the_task(spark: SparkSession, tmp_path: Path, scopes: list[dict[str, Any]]) -> None:
    declared = output_of(tmp_path, partition_by={"column": "at", "cursor": "integer"}, scopes=scopes, everything=not scopes)
    with pytest.raises(OperatorFailed, match="'at' partitions the output and is null"):
        stage(numbers(spark, 1, None), declared)


def test_an_empty_string_is_not_a_partition_key(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(OperatorFailed, match="null or empty"):
        stage(spark.createDataFrame([("",)], "key STRING"), output_of(tmp_path, partition_by={"column": "key"}))


def test_an_output_without_its_partition_column_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(OperatorFailed, match="no column 'day'"):
        stage(spark.range(3), output_of(tmp_path, partition_by={"column": "day"}))


def test_a_column_may_be_named_like_anything(spark: SparkSession, tmp_path: Path, staged_rows: Rows) -> None:
    frame = spark.createDataFrame([("k", 1)], "`scope` STRING, `a.b` INT")
    staged = stage(frame, output_of(tmp_path, partition_by={"column": "scope"}))
    assert [row.asDict() for row in staged_rows(staged.files)] == [{"scope": "k", "a.b": 1}]


def test_times_are_written_in_microseconds_of_utc(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    moment = datetime(1890, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    staged = stage(spark.sql("SELECT timestamp'1890-01-02 03:04:05.000006' AS at"), output_of(tmp_path))
    file = pyarrow.parquet.ParquetFile(tmp_path / "staging" / staged.files[0])
    assert str(file.schema_arrow.field("at").type) == "timestamp[us, tz=UTC]"
    assert file.read().to_pylist() == [{"at": moment}]
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"


def test_moments_are_reported_with_half_of_the_files_moved(spark: SparkSession, tmp_path: Path) -> None:
    there: dict[str, int] = {}

    def moment(name: str) -> None:
        there[name] = len(list((tmp_path / "staging").glob("p-*/*.parquet")))

    stage(spark.range(4).selectExpr("cast(id AS STRING) AS key"), output_of(tmp_path, partition_by={"column": "key"}), Progress(moment=moment))
    assert there == {"half_the_files": 2, "all_files": 4}


def test_nothing_is_left_in_the_working_directory(spark: SparkSession, tmp_path: Path) -> None:
    others = {Path(name) for name in (".hypothesis", ".pytest_cache", ".ruff_cache", ".tools")}  # of other tests that run beside it
    before = set(Path().iterdir()) | others
    stage(spark.range(3), output_of(tmp_path))
    assert set(Path().iterdir()) <= before
