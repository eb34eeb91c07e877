"""Our tables are real Delta: delta-rs, Polars, DuckDB's Delta extension and Spark's own connector read the same rows."""

import itertools
import json
import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from support.sizes import full, seeded

from tracelake.storage.delta_schemas import not_carried
from tracelake.storage.paths import log_folder, staging_folder
from tracelake.worker.measuring.footers import read_footer
from tracelake_sdk.datasets.scopes import CursorScope, FullScope, PartitionScope, RangeScope, Scope, folder_of

from .reading import Reader, canonical_rows
from .tables import WrittenTable

# One process of the run: the readers are started once, and Spark's JVM is heavy.
pytestmark = [pytest.mark.xdist_group("delta_connector"), pytest.mark.proves("G3.3")]

KINDS = pa.schema([
    ("tiny", pa.int8()), ("small", pa.int16()), ("whole", pa.int32()), ("big", pa.int64()), ("single", pa.float32()), ("double", pa.float64()),
    ("yes", pa.bool_()), ("text", pa.string()), ("bytes", pa.binary()), ("day", pa.date32()), ("at", pa.timestamp("us", "UTC")),
    ("price", pa.decimal128(10, 2)), ("wei", pa.decimal128(38, 18)), ("account", pa.decimal128(38, 0)),
    ("tags", pa.list_(pa.string())), ("counts", pa.map_(pa.string(), pa.int64())),
    ("person", pa.struct([("name", pa.string()), ("born", pa.date32()), ("places", pa.list_(pa.struct([("lat", pa.float64()), ("note", pa.string())])))])),
])
NOTHING: dict[str, Any] = dict.fromkeys(KINDS.names)
PLENTY: dict[str, Any] = {
    "tiny": -128, "small": 32767, "whole": -2147483648, "big": 9223372036854775807, "single": 0.5, "double": -0.0, "yes": False, "text": "Grüße 🎈 'x' \"y\" \\ \n",
    "bytes": b"\x00\xff", "day": date(1582, 10, 14), "at": datetime(1582, 10, 14, 12, tzinfo=UTC), "price": Decimal("-99999999.99"),
    "wei": Decimal("12345678901234567890.123456789012345678"), "account": Decimal("9" * 38), "tags": ["a", None, ""], "counts": {"a": 1, "b": None},
    "person": {"name": "Ada", "born": date(1815, 12, 10), "places": [{"lat": 51.5, "note": None}, None]},
}
FAR: dict[str, Any] = NOTHING | {
    "single": float("nan"), "double": float("nan"), "text": "", "bytes": b"", "day": date(1, 1, 1), "at": datetime(1, 1, 1, tzinfo=UTC), "wei": Decimal("0E-18"),
    "tags": [], "counts": {}, "person": {"name": None, "born": None, "places": []},
}
FARTHER: dict[str, Any] = NOTHING | {
    "single": float("inf"), "double": float("-inf"), "day": date(9999, 12, 31), "at": datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), "price": Decimal("0.01"),
    "big": -9223372036854775808, "text": "z" * 300,
}
# As Arrow wants maps.
ROWS = [row | {"counts": list(row["counts"].items()) if row["counts"] is not None else None} for row in (NOTHING, PLENTY, FAR, FARTHER)]


LAST = 250


def orders(*numbers: int, **more: Any) -> Any:
    return pa.table({"n": pa.array(numbers, pa.int64()), "text": [f"order {number}" for number in numbers], **more})


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> WrittenTable:
    """Rows of every kind, together and each in a separate file, and files without rows."""
    table = WrittenTable(tmp_path_factory.mktemp("kinds"))
    table.commit(table.stage(pa.Table.from_pylist(ROWS, KINDS)))
    table.commit(*(table.stage(pa.Table.from_pylist([row], KINDS)) for row in ROWS))
    table.commit(table.stage(KINDS.empty_table()))
    return table


@pytest.mark.parametrize("version", [0, 1, 2, None])
def test_rows_of_every_kind(reader: Reader, kinds: WrittenTable, version: int | None):
    assert len(kinds.expected(version)) == (4 if version == 0 else 8)
    assert reader.rows(kinds.path, kinds.schemas[0], version) == kinds.expected(version)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> WrittenTable:
    """No file; a file without rows; a row; nothing again; a version in which nothing changed."""
    table = WrittenTable(tmp_path_factory.mktemp("bare"))
    table.commit(schema=KINDS)
    table.commit(table.stage(KINDS.empty_table()))
    table.commit(table.stage(pa.Table.from_pylist(ROWS[:1], KINDS)))
    table.commit(replace=[FullScope()])
    table.commit()
    return table


@pytest.mark.parametrize(("version", "rows"), [(0, 0), (1, 0), (2, 1), (3, 0), (4, 0), (None, 0)])
def test_a_table_without_rows_is_a_table(reader: Reader, bare: WrittenTable, version: int | None, rows: int):
    found = reader.rows(bare.path, bare.schemas[0], version)
    assert len(found) == rows
    assert found == bare.expected(version)


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> WrittenTable:
    """Columns are added, at the top and inside; files of the old shape come before and after."""
    table = WrittenTable(tmp_path_factory.mktemp("grown"))
    old = pa.table({"n": [1], "who": pa.array([{"name": "a"}], pa.struct([("name", pa.string())]))})
    new = pa.table({
        "extra": ["x"], "n": [2], "who": pa.array([{"age": 7, "name": "b", "pets": ["c"]}], pa.struct([("age", pa.int32()), ("name", pa.string()), ("pets", pa.list_(pa.string()))])),
    })
    table.commit(table.stage(old))
    table.commit(table.stage(new))
    table.commit(table.stage(old))
    table.commit(table.stage(new), replace=[FullScope()])
    table.commit(table.stage(old))
    return table


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, None])
def test_a_table_whose_schema_grew(reader: Reader, grown: WrittenTable, version: int | None):
    assert reader.rows(grown.path, grown.schemas[-1 if version is None else version], version) == grown.expected(version)


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> WrittenTable:
    """250 commits over ten scopes, appended and (all but one) replaced, a schema that grows, and checkpoints."""
    chance = seeded()
    table = WrittenTable(tmp_path_factory.mktemp("long"))
    scopes = [RangeScope(start=number * 10, end=number * 10 + 10) for number in range(10)]
    numbers = itertools.count()
    long_ago = datetime(1, 1, 1, 0, 0, 0, 1001, tzinfo=UTC)
    for version in range(LAST + 1):
        scope = chance.choice(scopes)
        more = {"added": [version]} if version >= 130 else {}
        more |= {"day": [date(2024, 1, 1) + timedelta(days=version % 28)], "price": pa.array([Decimal(version).scaleb(-2)], pa.decimal128(10, 2)), "at": [long_ago + timedelta(days=version)]}
        table.commit(table.stage(orders(next(numbers), **more), scope), replace=[scope] if chance.random() < 0.3 and scope != scopes[0] else None)
    return table


def some_versions(last: int) -> list[int]:
    """Ten by seed, among them the ends and the neighbours of checkpoints, or all."""
    if full():
        return list(range(last + 1))
    known = [0, 99, 100, 101, 129, 130, 200, last]
    return sorted({*known, *random.Random(seeded().random()).sample(range(last + 1), 2)})


def test_every_version_of_a_long_history_with_checkpoints(reader: Reader, long: WrittenTable):
    checkpoints = [file.path for file in long.storage.list(log_folder(long.location)) if file.path.endswith(".checkpoint.parquet")]
    assert len(checkpoints) == 2
    assert reader.rows(long.path, long.schemas[-1]) == long.expected()
    for version in some_versions(long.last):
        assert reader.rows(long.path, long.schemas[version], version) == long.expected(version), f"version {version}"


QUESTIONS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "n < 0": lambda row: False,
    "n >= 245": lambda row: row["n"] >= 245,
    "n = {n}": lambda row: row["n"] == LAST,
    "text = 'order {n}'": lambda row: row["n"] == LAST,
    "day = DATE '2024-01-10'": lambda row: row["day"] == "2024-01-10",
    "price > 2.49": lambda row: Decimal(row["price"]) > Decimal("2.49"),
    "added IS NULL": lambda row: row["added"] is None,
    "added = {n}": lambda row: row["added"] == LAST,
}


@pytest.mark.parametrize("where", QUESTIONS)
def test_files_that_statistics_exclude_contain_no_matching_row(reader: Reader, long: WrittenTable, where: str):
    wanted = [row for row in long.expected() if QUESTIONS[where](json.loads(row))]
    assert bool(wanted) == (where != "n < 0")
    assert len(wanted) < len(long.expected())
    assert reader.rows(long.path, long.schemas[-1], where=where.format(n=LAST)) == wanted


def test_spark_travels_in_time_by_the_clock_of_decisions(readers: dict[str, Reader], long: WrittenTable):
    for version in (0, 5, 99, 100, 101, 199):
        at = long.decided_at(version).replace(microsecond=999000)  # within the same second
        found = readers["spark"].ask("read_at", path=str(long.path), at=at.strftime("%Y-%m-%d %H:%M:%S.%f"))
        assert canonical_rows(found, long.schemas[version]) == long.expected(version), f"version {version}"


KEYS = ["*", "[x]", "{a,b}", "a=b", "a:b", "../x", "/etc/passwd", "%2e%2e", "a b", "?", "~", "x" * 300, "é" * 150, "日本 🎈", "e\u0301", "é", "\\", "'", "\"", "a\nb", "null", "__HIVE_DEFAULT_PARTITION__"]


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> WrittenTable:
    """One file for each odd key, and one for each that a glob or a path of it would also reach; those are not committed."""
    table = WrittenTable(tmp_path_factory.mktemp("keyed"))
    scopes: list[Scope] = [PartitionScope(key=key) for key in KEYS]
    scopes += [CursorScope(value=-5), RangeScope(start=datetime(2024, 1, 10, 5, tzinfo=UTC), end=datetime(2024, 1, 10, 6, tzinfo=UTC))]
    staged = [table.stage(orders(number, key=[str(scope)]), scope) for number, scope in enumerate(scopes)]
    for scope in scopes:
        table.stage(orders(-1, key=[f"staged and never committed: {scope}"]), scope)
    table.commit(*staged)
    table.commit(table.stage(orders(100, key=["again"]), PartitionScope(key="*")), replace=[PartitionScope(key="*")])
    return table


@pytest.mark.proves("T4.2")
@pytest.mark.parametrize("version", [0, None])
def test_partition_keys_are_stored_and_read_back_and_never_a_path(reader: Reader, keyed: WrittenTable, version: int | None):
    found = reader.rows(keyed.path, keyed.schemas[0], version)
    assert len(found) == len(KEYS) + 2
    assert found == keyed.expected(version)


@pytest.mark.proves("T4.2")
def test_every_path_of_every_key_is_plain_and_its_own(keyed: WrittenTable):
    names = [file.path.removeprefix(keyed.location + "/") for file in keyed.storage.list(keyed.location)]
    allowed = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-")
    assert all(set(name) <= allowed and ".." not in name and len(name) < 200 for name in names)
    assert len({folder_of(PartitionScope(key=key)) for key in KEYS}) == len(KEYS)


@pytest.mark.proves("G3.1")
def test_staged_files_are_invisible_to_readers(reader: Reader, table: WrittenTable):
    table.commit(table.stage(orders(1)))
    table.stage(orders(2))
    table.stage(orders(3), PartitionScope(key="*"))
    (table.path / "_delta_log" / ".00000000000000000001.json.77-abc.tmp").write_text('{"half')  # a committer died here
    assert reader.rows(table.path, table.schemas[0]) == table.expected()


SPARK_QUERY = """
    SELECT id AS n, CAST(id AS TINYINT) AS tiny, CAST(id AS DECIMAL(38, 18)) AS wei, IF(id = 1, double('NaN'), double(id)) AS x,
           IF(id = 2, NULL, timestamp'0001-01-01 00:00:00Z') AS at, date'9999-12-31' AS day, named_struct('a', id, 'b', array(id, NULL)) AS nested,
           map('k', id) AS counts, X'00FF' AS bytes, repeat('é', 200) AS text
    FROM range(4)
"""


@pytest.fixture(scope="module")
def by_spark(tmp_path_factory: pytest.TempPathFactory, readers: dict[str, Reader]) -> WrittenTable:
    table = WrittenTable(tmp_path_factory.mktemp("spark"))
    folder = f"{staging_folder(uuid4(), 1)}/{folder_of(FullScope())}"
    readers["spark"].ask("write", query=SPARK_QUERY, path=str(table.path / folder))
    files: list[Path] = sorted((table.path / folder).glob("*.parquet"))
    rows = [_row_of_spark(number) for number in range(4)]
    staged = []
    for file in files:  # which rows went into which file is Spark's business; together they are all
        held = {row["n"] for row in pa.parquet.ParquetFile(file).read(columns=["n"]).to_pylist()}
        staged.append(table.found(f"{folder}/{file.name}", FullScope(), [row for row in rows if row["n"] in held]))
    table.commit(*staged)
    return table


def _row_of_spark(number: int) -> dict[str, Any]:
    return {
        "n": number, "tiny": number, "wei": Decimal(number).quantize(Decimal("1E-18")), "x": float("nan") if number == 1 else float(number),
        "at": None if number == 2 else datetime(1, 1, 1, tzinfo=UTC), "day": date(9999, 12, 31), "nested": {"a": number, "b": [number, None]},
        "counts": {"k": number}, "bytes": b"\x00\xff", "text": "é" * 200,
    }


def test_files_that_spark_wrote(reader: Reader, by_spark: WrittenTable):
    assert len(by_spark.expected()) == 4
    assert reader.rows(by_spark.path, by_spark.schemas[0]) == by_spark.expected()


@pytest.mark.parametrize("column", [
    "INTERVAL '1' DAY", "INTERVAL '1-2' YEAR TO MONTH", "timestamp_ntz'2024-01-10 05:00:00'", "parse_json('{\"a\": 1}')",
    "array(INTERVAL '1' DAY)", "named_struct('x', timestamp_ntz'2024-01-10 05:00:00')", "map('k', parse_json('1'))",
])
def test_what_spark_writes_and_our_tables_cannot_carry_is_seen_in_the_file(readers: dict[str, Reader], tmp_path: Path, column: str):
    readers["spark"].ask("write", query=f"SELECT 1 AS fine, {column} AS bad", path=str(tmp_path / "staged"))
    [file] = (tmp_path / "staged").glob("*.parquet")
    said = not_carried(read_footer(file).schema)
    assert len(said) == 1
    assert "`bad" in said[0]
