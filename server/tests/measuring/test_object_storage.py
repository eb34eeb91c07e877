"""Files of an object store are measured, deduped and noticed as local ones are."""

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.s3_servers import S3Server

from tracelake.storage.contract import Storage
from tracelake.worker.measuring.contract import MeasureOrder, MeasureResult, OutputToMeasure
from tracelake.worker.measuring.measure import measure
from tracelake_sdk.rules import NotNull, RuleScope, Unique

from .benches import LOCATION, Bench, rule, table_files

pytestmark = pytest.mark.xdist_group("s3")


def put(storage: Storage, path: str, table: pa.Table) -> None:
    body = io.BytesIO()
    pq.write_table(table, body)
    storage.replace(path, body.getvalue())


@pytest.mark.proves("T8.2")
def test_an_append_to_an_object_store_is_measured_and_deduped(s3_server: S3Server, tmp_path: Path):
    url = s3_server.fresh_url()
    storage = s3_server.open(url)
    bench = Bench(tmp_path, ["id"], "append")

    def answer(output: OutputToMeasure) -> MeasureResult:
        return measure(MeasureOrder(id="1", storage=s3_server.section(url), scratch=str(tmp_path / "scratch"), outputs=[output]))

    put(storage, f"{LOCATION}/one/full/a.parquet", pa.table({"id": [1, 2, 3]}))
    first = answer(bench.output("one", ["full/a.parquet"])).outputs[0]
    assert first.files[0].seal.startswith(f"{first.files[0].size}-")
    put(storage, f"{LOCATION}/two/full/a.parquet", pa.table({"id": [3, 4, 4, None]}))
    output = bench.output("two", ["full/a.parquet"], current=table_files(first), rules=[rule(NotNull(column="id"), 1, RuleScope.TABLE), rule(Unique(columns=("id",)), 2)])
    second = answer(output).outputs[0]
    assert (second.rows, second.duplicates, [measurement.violations for measurement in second.rules]) == (2, 2, [1, 0])
    body = storage.read(f"{LOCATION}/{second.files[0].path}")
    assert body is not None
    assert pq.read_table(io.BytesIO(body))["id"].to_pylist() == [4, None]
    assert storage.size(f"{LOCATION}/{second.files[0].hashes}") == 8

    put(storage, f"{LOCATION}/three/full/a.parquet", pa.table({"id": [4, 5]}))
    since = answer(bench.output("three", ["full/a.parquet"])).outputs[0]
    third = answer(bench.again(output, second, table_files(since))).outputs[0]
    assert (third.rows, third.duplicates) == (1, 3)

    put(storage, f"{LOCATION}/{third.files[0].path}", pa.table({"id": [7]}))
    refusal = answer(bench.again(output, third, [])).refusal
    assert refusal is not None
    assert refusal.error_class == "seal_broken"
    missing = answer(bench.output("two", ["full/gone.parquet"])).refusal
    assert missing is not None
    assert missing.error_class == "file_missing"
