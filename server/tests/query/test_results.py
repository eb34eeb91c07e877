"""What comes out of an engine: typed JSON, CSV, Arrow, and a hash that goes by the rows and not by their order."""

import io
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tracelake.query.engine.contract import EngineLimits, Ran, RunRequest, TableToRead
from tracelake.query.engine.engine import Engine
from tracelake.storage.delta_schemas import delta_schema, schema_hash
from tracelake_sdk.errors import Purged, QueryOverLimit
from tracelake_sdk.queries import QueryAnswer, Receipt, ResultFormat
from tracelake_sdk.queries.results import QueryResult

LIMITS = EngineLimits(threads=2, memory_mib=128, spill_mib=16, max_seconds=10, max_bytes=2**20)
OLD = pa.schema([("id", pa.int64()), ("amount", pa.decimal128(10, 2))])
NEW = pa.schema([("id", pa.int64()), ("amount", pa.decimal128(10, 2)), ("note", pa.string()), ("parts", pa.list_(pa.int64()))])


@pytest.fixture
def engine(tmp_path: Path):
    engine = Engine(LIMITS, tmp_path)
    yield engine
    engine.close()


def ask(engine: Engine, sql: str, *tables: TableToRead, rows: int = 100, format: ResultFormat = ResultFormat.JSON) -> tuple[Ran, bytes]:
    engine.read(sql)
    ran, body = engine.run(RunRequest(tables=list(tables), row_limit=rows, format=format))
    return ran, body + b"}" if format is ResultFormat.JSON else body


def table(name: str, schema: pa.Schema, *files: tuple[Path, pa.Schema]) -> TableToRead:
    by_hash: dict[str, list[str]] = {}
    for path, written in files:
        by_hash.setdefault(schema_hash(delta_schema(written)), []).append(str(path))
    spelt = delta_schema(schema)
    return TableToRead(name=name, table_schema=spelt, schema_hash=schema_hash(spelt), unique_key=["id"], files=by_hash)


def test_values_on_the_wire_keep_what_they_are(engine: Engine):
    sql = """
        SELECT 9007199254740993::BIGINT AS big, 170141183460469231731687303715884105727::HUGEINT AS huge, 12.50::DECIMAL(10, 2) AS money, 1::TINYINT AS tiny,
               'NaN'::DOUBLE AS nan, '-inf'::DOUBLE AS low, 0.1::DOUBLE AS tenth, true AS yes, NULL AS nothing, 'ä"' AS text, DATE '2024-02-29' AS day,
               TIMESTAMP '2024-01-10 05:00:00.25' AS local, TIMESTAMPTZ '2024-01-10 05:00:00+02' AS at, TIME '10:11:12' AS clock, 'ab'::BLOB AS bytes,
               [1::BIGINT, NULL] AS list, {'a': 1.5::DECIMAL(3, 1)} AS struct, MAP {'k': 2::BIGINT} AS map, uuid '00000000-0000-0000-0000-000000000001' AS id,
               0.00000001::DECIMAL(18, 8) AS small, DATE '12024-01-01' AS far
    """
    ran, body = ask(engine, sql)
    [row] = orjson.loads(body)["rows"]
    found = dict(zip([column.name for column in ran.columns], row, strict=True))
    assert found == {
        "big": "9007199254740993", "huge": "170141183460469231731687303715884105727", "money": "12.50", "tiny": 1, "nan": "NaN", "low": "-Infinity",
        "tenth": 0.1, "yes": True, "nothing": None, "text": 'ä"', "day": "2024-02-29", "local": "2024-01-10T05:00:00.250000",
        "at": "2024-01-10T03:00:00.000000Z", "clock": "10:11:12", "bytes": "YWI=", "list": ["1", None], "struct": {"a": "1.5"}, "map": [["k", "2"]],
        "id": "00000000-0000-0000-0000-000000000001", "small": "0.00000001", "far": "12024-01-01",
    }  # fmt: skip
    receipt = Receipt.model_validate(
        {"id": "00000000-0000-0000-0000-000000000001", "at": datetime.now(UTC), "pins": [], "sql_sha256": "", "result_hash": "", "row_count": 1, "milliseconds": 1,
         "engine_version": "", "replayable": True}
    )  # fmt: skip
    result = QueryResult(QueryAnswer(**orjson.loads(body), receipt=receipt))
    python = dict(zip([column.name for column in result.columns], result.rows[0], strict=True))
    assert python["big"] == 9007199254740993 and python["money"] == Decimal("12.50") and math.isnan(python["nan"]) and python["day"] == date(2024, 2, 29)
    assert python["at"] == datetime(2024, 1, 10, 3, tzinfo=UTC) and python["bytes"] == b"ab" and python["far"] == "12024-01-01"
    arrow = result.arrow()
    assert arrow.schema.field("money").type == pa.decimal128(10, 2) and arrow.schema.field("at").type == pa.timestamp("us", tz="UTC")
    assert arrow.column("big").to_pylist() == [9007199254740993]


def test_csv_and_arrow_hold_the_same_rows(engine: Engine):
    sql = "SELECT * FROM (VALUES (1, 'a,b', 1.5::DECIMAL(3, 1), true), (2, NULL, NULL, false)) v(n, text, money, yes)"
    assert ask(engine, sql, format=ResultFormat.CSV)[1].decode() == 'n,text,money,yes\r\n1,"a,b",1.5,true\r\n2,,,false\r\n'
    arrow = pa.ipc.open_stream(io.BytesIO(ask(engine, sql, format=ResultFormat.ARROW)[1])).read_all()
    assert arrow.to_pylist()[0] == {"n": 1, "text": "a,b", "money": Decimal("1.5"), "yes": True}


@pytest.mark.proves("T6.2")
def test_the_hash_goes_by_rows_and_counts_and_types_and_not_by_order(engine: Engine):
    def hashed(sql: str) -> str:
        return ask(engine, sql)[0].result_hash

    base = hashed("SELECT * FROM (VALUES (1, 'a'), (2, 'b'), (2, 'b')) v(n, t)")
    assert hashed("SELECT * FROM (VALUES (2, 'b'), (1, 'a'), (2, 'b')) v(n, t)") == base
    assert hashed("SELECT * FROM (VALUES (1, 'a'), (2, 'b')) v(n, t)") != base
    assert hashed("SELECT * FROM (VALUES (1, 'a'), (1, 'a'), (2, 'b')) v(n, t)") != base
    assert hashed("SELECT n::BIGINT AS n, t FROM (VALUES (1, 'a'), (2, 'b'), (2, 'b')) v(n, t)") != base
    assert hashed("SELECT n AS m, t FROM (VALUES (1, 'a'), (2, 'b'), (2, 'b')) v(n, t)") != base
    assert hashed("SELECT NULL::VARCHAR AS x") != hashed("SELECT 'null' AS x")


@pytest.mark.proves("T6.2")
def test_computed_floating_columns_are_left_out_and_named(engine: Engine, tmp_path: Path):
    schema = pa.schema([("id", pa.int64()), ("weight", pa.float64())])
    pq.write_table(pa.table([[1, 2], [0.1, 0.2]], schema), tmp_path / "a.parquet")
    weights = table("weights", schema, (tmp_path / "a.parquet", schema))
    assert ask(engine, "SELECT id, weight FROM weights", weights)[0].left_out == []
    engine.renew()
    summed = ask(engine, "SELECT count(*), sum(weight) AS total FROM weights", weights)[0]
    assert summed.left_out == ["total"]


def test_files_of_older_schemas_are_read_by_name(engine: Engine, tmp_path: Path):
    pq.write_table(pa.table([[1], [Decimal("1.25")]], OLD), tmp_path / "old.parquet")
    pq.write_table(pa.table([[2], [Decimal("2.50")], ["x"], [[1, 2]]], NEW), tmp_path / "new.parquet")
    both = table("t", NEW, (tmp_path / "old.parquet", OLD), (tmp_path / "new.parquet", NEW))
    rows = orjson.loads(ask(engine, "SELECT * FROM t ORDER BY id", both)[1])["rows"]
    assert rows == [["1", "1.25", None, None], ["2", "2.50", "x", ["1", "2"]]]


def test_a_column_that_no_file_has_yet_and_a_table_without_files(engine: Engine, tmp_path: Path):
    pq.write_table(pa.table([[1], [Decimal("1.25")]], OLD), tmp_path / "old.parquet")
    ran, body = ask(engine, "SELECT * FROM t", table("t", NEW, (tmp_path / "old.parquet", OLD)))
    assert [column.type for column in ran.columns] == ["BIGINT", "DECIMAL(10,2)", "VARCHAR", "BIGINT[]"]
    assert orjson.loads(body)["rows"] == [["1", "1.25", None, None]]
    engine.renew()
    ran, body = ask(engine, "SELECT * FROM t", table("t", NEW))
    assert (ran.row_count, [column.name for column in ran.columns]) == (0, ["id", "amount", "note", "parts"])


def test_a_missing_file_is_reported(engine: Engine, tmp_path: Path):
    with pytest.raises(Purged):
        ask(engine, "SELECT * FROM t", table("t", OLD, (tmp_path / "gone.parquet", OLD)))


@pytest.mark.proves("T6.4")
def test_a_connection_that_has_run_reaches_nothing_but_its_files(engine: Engine, tmp_path: Path):
    """The gate is not all there is: the engine itself is locked."""
    pq.write_table(pa.table([[1], [Decimal("1.25")]], OLD), tmp_path / "mine.parquet")
    pq.write_table(pa.table([[7], [Decimal("1.25")]], OLD), tmp_path / "other.parquet")
    ask(engine, "SELECT * FROM t", table("t", OLD, (tmp_path / "mine.parquet", OLD)))
    connection = engine._connection
    assert connection is not None
    assert connection.execute("SELECT id FROM t").fetchall() == [(1,)]
    for sql in (
        f"SELECT * FROM read_parquet('{tmp_path}/other.parquet')",
        f"SELECT * FROM '{tmp_path}/other.parquet'",
        "SELECT * FROM read_text('/etc/passwd')",
        f"COPY (SELECT 1) TO '{tmp_path}/new.csv'",
        f"ATTACH '{tmp_path}/x.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET memory_limit = '10GB'",
        "SET allowed_directories = ['/']",
        "SET max_execution_time = 0",
    ):
        with pytest.raises(Exception, match=r"(?i)permission|disabled|locked|does not exist|cannot"):
            connection.execute(sql).fetchall()


@pytest.mark.proves("T6.4")
def test_an_engine_that_expects_the_same_again_reaches_nothing_else_when_it_is_wrong(engine: Engine, tmp_path: Path):
    """Twice the same tables: the next connection is made ready for them, and is made over for others."""
    pq.write_table(pa.table([[1], [Decimal("1.25")]], OLD), tmp_path / "mine.parquet")
    pq.write_table(pa.table([[7], [Decimal("1.25")]], OLD), tmp_path / "other.parquet")
    mine, other = (table("t", OLD, (tmp_path / f"{name}.parquet", OLD)) for name in ("mine", "other"))
    for _ in range(3):
        assert orjson.loads(ask(engine, "SELECT id FROM t", mine)[1])["rows"] == [["1"]]
        engine.make_ready()
    assert engine._reachable == [mine]
    assert orjson.loads(ask(engine, "SELECT id FROM t", other)[1])["rows"] == [["7"]]
    connection = engine._connection
    assert connection is not None
    with pytest.raises(Exception, match="Permission"):
        connection.execute(f"SELECT * FROM read_parquet('{tmp_path}/mine.parquet')")
    engine.make_ready()
    ask(engine, "SELECT 1")
    assert connection is not engine._connection
    assert engine._connection is not None
    assert engine._connection.execute("SELECT current_setting('allowed_paths'), getvariable('files_0_0')").fetchall() == [([], None)]


def test_an_engine_expects_nothing_of_files_that_are_gone(engine: Engine, tmp_path: Path):
    pq.write_table(pa.table([[1], [Decimal("1.25")]], OLD), tmp_path / "mine.parquet")
    mine = table("t", OLD, (tmp_path / "mine.parquet", OLD))
    for _ in range(2):
        ask(engine, "SELECT id FROM t", mine)
        engine.renew()
    (tmp_path / "mine.parquet").unlink()
    engine.make_ready()
    with pytest.raises(Purged):
        ask(engine, "SELECT id FROM t", mine)


@pytest.mark.proves("T6.5")
@pytest.mark.parametrize("sql", ["SELECT repeat('x', 100000) AS wide FROM range(50)", "SELECT repeat('x', 100000) AS wide FROM range(5000)"])
def test_the_byte_limit_counts_every_batch_from_the_first_on(engine: Engine, sql: str):
    ran, body = ask(engine, sql, rows=5000)
    assert (ran.row_count, ran.more) == (10, True)
    assert len(body) <= LIMITS.max_bytes


def test_a_row_that_is_larger_than_an_answer_may_be_is_an_error(engine: Engine):
    with pytest.raises(QueryOverLimit, match="The first row of the answer is larger than 1,048,576 bytes"):
        ask(engine, "SELECT repeat('x', 2000000) AS wide FROM range(3)")
    engine.renew()
    ran, _ = ask(engine, "SELECT repeat('x', n::BIGINT) AS wide FROM (VALUES (10), (2000000)) t(n)")
    assert (ran.row_count, ran.more) == (1, True)


@pytest.mark.proves("T6.2")
@pytest.mark.parametrize(("ids", "replayable"), [([1, 2, 3], True), ([1, None, None], False)])
def test_an_order_by_the_unique_key_is_total_only_without_nulls(engine: Engine, tmp_path: Path, ids: list[int | None], replayable: bool):
    schema = pa.schema([("id", pa.int64()), ("note", pa.string())])
    pq.write_table(pa.table([ids, ["a", "b", "c"]], schema), tmp_path / "a.parquet")
    notes = table("notes", schema, (tmp_path / "a.parquet", schema))
    ran, _ = ask(engine, "SELECT note FROM notes ORDER BY id LIMIT 2", notes)
    assert ran.replayable is replayable
    assert replayable or "if no row has a null in it" in (ran.why_not or "")
    engine.renew()
    # The answer is cut, and which rows come first is the same question.
    assert ask(engine, "SELECT note FROM notes ORDER BY id", notes, rows=2)[0].replayable is replayable
    engine.renew()
    assert ask(engine, "SELECT id, note FROM notes ORDER BY ALL LIMIT 2", notes)[0].replayable
