"""The Spark program of compaction: every line is a row, sorted, apart where that is asked for, and nothing is changed on the way."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tracelake_sdk.records.compaction_program import CompactionOrder
from tracelake_spark.compacting import compact

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

TEXTS = ["", "a\nb", "é\u2028🐢", '{"n":1e16,"m":1.0}', "\\u0041", "x" * 70_000]


def order(folder: Path, lines: list[dict[str, Any]], **changes: Any) -> CompactionOrder:
    (folder / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    columns = {"org": "string", "kind": "string", "at": "timestamp", "n": "long", "v": "integer", "some": "strings", "text": "string"}
    return CompactionOrder(**{"source": str(folder / "rows.jsonl"), "target": str(folder / "out"), "columns": columns, "sort": ["kind", "at"], **changes})


def lines(number: int) -> list[dict[str, Any]]:
    return [
        {
            "org": f"o{place % 2}", "kind": f"k{place * 7 % 5}", "at": 1_700_000_000_123_456 - place * 1_000_003, "n": 2**62 + place, "v": place,
            "some": None if place % 3 else ["x", TEXTS[place % 6]], "text": TEXTS[place % 6] if place % 4 else None,
        }
        for place in range(number)
    ]  # fmt: skip


def rows(path: Path) -> list[dict[str, Any]]:
    found = pq.ParquetFile(path).read().to_pylist()
    return [row | {"at": round(row["at"].timestamp() * 1_000_000)} for row in found]


@pytest.mark.proves("M2.6")
@pytest.mark.parametrize("apart", [None, "org"])
def test_every_line_becomes_a_row_of_a_sorted_file(spark: SparkSession, tmp_path: Path, apart: str | None) -> None:
    home = tmp_path / "my récords %"  # Hadoop reads no escapes
    home.mkdir()
    given = lines(60)
    asked = order(home, given, apart=apart, rows_per_file=20)
    outcome = compact(spark, asked)
    files = [rows(home / "out" / name) for name in outcome.files]
    assert sorted((row for file in files for row in file), key=lambda row: row["n"]) == given
    for file in files:
        assert 0 < len(file) <= 20
        assert file == sorted(file, key=lambda row: (row["kind"], row["at"]))
        assert apart is None or len({row["org"] for row in file}) == 1


def test_a_line_that_does_not_read_is_an_error_and_no_row_of_nulls(spark: SparkSession, tmp_path: Path) -> None:
    asked = order(tmp_path, lines(3))
    with (tmp_path / "rows.jsonl").open("a") as file:
        file.write('{"org": "o0", "kind": 3,\n')
    with pytest.raises((PySparkException, Py4JJavaError)):
        compact(spark, asked)
