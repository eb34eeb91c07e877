"""Staged writes: the rows of an output as plain Parquet in the folders of their scopes, and the list of complete files.

Spark writes into a temporary folder; files that its committer committed there are moved to their folders and listed. On an
object store, where a move is a copy, the rows of one scope are written to their final folder. Files that a killed process or a failed Spark task leaves behind are never listed.
"""

from collections import defaultdict
from math import ceil
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812

from tracelake_sdk.datasets.scopes import Scope, folder_of
from tracelake_sdk.tasks.operator_files import OrderOutput, OutputStaged
from tracelake_spark.cutting import NO_LABEL, Cut, cut_of
from tracelake_spark.failures import OperatorFailed
from tracelake_spark.jvm import estimated_bytes
from tracelake_spark.progress import QUIET, Progress
from tracelake_spark.storage import Storage, parquet_rows, storage_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE_BYTES = 128 << 20
SMALL_BYTES = 8 << 20   # below this size one file; above it every core writes one

_MOST_FILES = 10_000    # Spark estimates the size of rows from Python as infinite

_SETTINGS = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",  # else small results become one file per core
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": str(FILE_BYTES),
}
_OPTIONS = {
    "compression": "zstd",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "mapreduce.fileoutputcommitter.algorithm.version": "1",  # files of a failed Spark task never reach the folder
}


def stage(frame: "DataFrame", output: OrderOutput, progress: Progress = QUIET) -> OutputStaged:
    """Writes every row of the frame, and returns the files and the scopes that they cover; without rows there is no file."""
    spark = frame.sparkSession
    for name, value in _SETTINGS.items():
        spark.conf.set(name, value)
    cut = cut_of(output, frame.schema)
    staging = output.staging.rstrip("/")
    storage = storage_of(spark, staging)
    in_place = not storage.moves and cut.label is None
    writing = f"{staging}/{folder_of(cut.scopes([''], {})[''])}/{uuid4().hex}" if in_place else f"{staging}/_writing-{uuid4().hex}"
    observed = _write(frame, cut, writing)
    labelled = _written(spark, storage, writing, cut, rows=observed.get("rows"))
    if NO_LABEL in labelled or observed.get("nulls"):
        raise OperatorFailed("partition_null", f"The column {cut.column!r} partitions the output and is null or empty in some rows; filter these rows, or give them a value.")
    scopes = cut.scopes(labelled, observed)
    placed = [(scopes[label], path) for label in sorted(labelled) for path in labelled[label]]
    if in_place and placed:
        files = [f"{writing.removeprefix(f'{staging}/')}/{path}" for _, path in placed]
    else:
        files = _move(storage, writing, staging, placed, progress)
        storage.remove(writing)
    progress.moment("all_files")
    covered = dict.fromkeys([*cut.announced, *(scopes[label] for label in sorted(labelled))])
    return OutputStaged(index=output.index, files=files, scopes=list(covered))


def _write(frame: "DataFrame", cut: Cut, folder: str) -> dict[str, Any]:
    """Writes the frame below a folder, in one folder per label if there are labels, and returns the observed metrics."""
    observation = Observation() if cut.metrics else None
    rows = frame.observe(observation, *cut.metrics) if observation else frame
    size = estimated_bytes(frame)
    if cut.label is not None:
        rows = rows.withColumn(cut.label_name, cut.label)
        # More than one task should write: parts that are neither tiny nor huge, with the rows of one label together.
        rows = rows.coalesce(1) if size <= SMALL_BYTES else rows.hint("rebalance", F.col(cut.label_name))
        writer = rows.write.partitionBy(cut.label_name)
    else:
        writer = rows.coalesce(_few(size, frame.sparkSession.sparkContext.defaultParallelism)).write
    writer.options(**_OPTIONS).parquet(folder)
    return observation.get if observation else {}


def _few(size: int, cores: int) -> int:
    """As few files as their size allows."""
    files = max(1, ceil(size / FILE_BYTES), cores if size > SMALL_BYTES else 1)
    return min(files, _MOST_FILES)


def _written(spark: "SparkSession", storage: Storage, folder: str, cut: Cut, rows: int | None) -> dict[str, list[str]]:
    """The committed files by label, relative to the folder."""
    labelled: dict[str, list[str]] = defaultdict(list)
    if rows == 0:
        return labelled
    for path in sorted(found.path for found in storage.list_files(folder)):
        name = path.rsplit("/", 1)[-1]
        if name.endswith(".parquet") and not name.startswith((".", "_")):
            labelled[path.split("/", 1)[0].split("=", 1)[1] if cut.label is not None else ""].append(path)
    # Spark's first task writes a file even if it has no rows and others have some.
    for label, paths in labelled.items():
        if cut.label is None and len(paths) > 1 and parquet_rows(spark, f"{folder}/{paths[0]}") == 0:
            labelled[label] = paths[1:]
    return labelled


def _move(storage: Storage, source: str, staging: str, placed: list[tuple[Scope, str]], progress: Progress) -> list[str]:
    for folder in dict.fromkeys(folder_of(scope) for scope, _ in placed):
        storage.make_folder(f"{staging}/{folder}")
    files = [f"{folder_of(scope)}/{path.rsplit('/', 1)[-1]}" for scope, path in placed]
    moves = [(f"{source}/{path}", f"{staging}/{file}") for (_, path), file in zip(placed, files, strict=True)]
    half = len(moves) // 2
    storage.move(moves[:half])
    if moves:
        progress.moment("half_the_files")
    storage.move(moves[half:])
    return files
