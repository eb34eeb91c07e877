"""The operator `ingest_files`, run after run over real files."""

import gzip
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import StructType
from support.orders import order_of

from tracelake_sdk.dags.spark_schemas import check_types
from tracelake_sdk.tasks.operator_files import BatchReady, OperatorOutcome
from tracelake_spark.operators.ingest_files import run
from tracelake_spark.progress import Progress

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


class Landing:
    """A folder that files arrive in, and the operator that takes them."""

    def __init__(self, spark: SparkSession, folder: Path, staged: Callable[[list[str]], list[Row]]) -> None:
        self.spark, self.folder, self.staged = spark, folder, staged
        self.path = folder / "landing"
        self.path.mkdir()

    def put(self, name: str, text: str | bytes) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    def take(self, config: dict[str, Any] | None = None, **more: Any) -> OperatorOutcome:
        order = order_of(self.folder, "ingest_files", {"path": "landing", "format": "csv"} | (config or {}), **more)
        return run(self.spark, order, more.pop("progress", Progress()))

    def rows(self, outcome: OperatorOutcome) -> list[dict[str, Any]]:
        assert outcome.error is None, outcome.error
        return [row.asDict(recursive=True) for row in self.staged(outcome.outputs[0].files)]

    def batches(self) -> dict[str, BatchReady]:
        return {path.stem: BatchReady.model_validate_json(path.read_text()) for path in (self.folder / "batches").iterdir()}


@pytest.fixture
def landing(spark: SparkSession, tmp_path: Path, staged_rows: Callable[[list[str]], list[Row]]) -> Landing:
    return Landing(spark, tmp_path, staged_rows)


def test_each_run_takes_what_is_new_or_changed(landing: Landing) -> None:
    landing.put("a.csv", "id,name\n1,one\n2,two\n")
    first = landing.take()
    assert landing.rows(first) == [{"id": 1, "name": "one"}, {"id": 2, "name": "two"}]
    assert {"rows_read": 2, "rows_taken": 2, "files": 1, "bytes": 20}.items() <= first.custom.items()

    landing.put("deep/b.csv", "id,name\n3,three\n")
    second = landing.take(state=first.state)
    assert landing.rows(second) == [{"id": 3, "name": "three"}]

    landing.put("a.csv", "id,name\n1,uno\n")
    third = landing.take(state=second.state)
    assert landing.rows(third) == [{"id": 1, "name": "uno"}]
    assert third.state is not None
    assert sorted(third.state["files"]) == ["a.csv", "deep/b.csv"]


def test_without_new_files_nothing_is_written_and_the_state_stays(landing: Landing) -> None:
    assert landing.take().state is None
    landing.put("a.csv", "id\n1\n")
    first = landing.take()
    again = landing.take(state=first.state)
    assert (again.error, again.outputs[0].files, again.state) == (None, [], first.state)
    assert again.custom["files"] == 0


def test_a_file_changed_within_its_size_is_seen_by_its_time(landing: Landing) -> None:
    landing.put("a.csv", "id\n1\n")
    first = landing.take()
    landing.put("a.csv", "id\n2\n")
    os.utime(landing.path / "a.csv", ns=(10**18, 10**18 + 1))
    assert landing.rows(landing.take(state=first.state)) == [{"id": 2}]


def test_hidden_files_are_not_data(landing: Landing) -> None:
    for name in ["_SUCCESS", ".a.csv.crc", "_temporary/x.csv", "ok.csv"]:
        landing.put(name, "id\n1\n")
    outcome = landing.take()
    assert outcome.custom["files"] == 1


@pytest.mark.parametrize("path", ["landing/orders-1.csv", "landing/orders-", "landing/", "landing"])
def test_the_path_is_a_folder_a_file_or_a_beginning(landing: Landing, path: str) -> None:
    landing.put("orders-1.csv", "id\n1\n")
    assert landing.rows(landing.take({"path": path})) == [{"id": 1}]


def test_a_path_with_nothing_at_it_is_an_error_that_may_pass(landing: Landing) -> None:
    outcome = landing.take({"path": "landing/nothing/here"})
    assert outcome.error is not None
    assert (outcome.error.error_class, outcome.error.retry) == ("path_missing", True)
    assert "landing/nothing/here" in outcome.error.message
    assert str(landing.folder) not in outcome.error.message


def test_a_star_in_a_name_is_a_star(landing: Landing) -> None:
    for name in ["*.csv", "[a].csv", "{a,b}.csv", "a:b.csv", "a%20 b.csv", "k=v/x.csv"]:
        landing.put(name, "id\n1\n")
    outcome = landing.take()
    assert len(landing.rows(outcome)) == 6
    landing.put("z.csv", "id\n2\n")
    only = landing.take({"path": "landing/*.csv"})
    assert (landing.rows(only), only.custom["files"]) == ([{"id": 1}], 1)


def test_columns_are_found_by_their_names_whatever_their_order(landing: Landing) -> None:
    landing.put("a.csv", "id,name\n1,one\n")
    landing.put("b.csv", "name,more,id\ntwo,x,2\n")
    landing.put("empty.csv", "")
    outcome = landing.take({"schema": "id BIGINT, name STRING, price DECIMAL(5,2)"})
    assert landing.rows(outcome) == [{"id": 1, "name": "one", "price": None}, {"id": 2, "name": "two", "price": None}]
    assert outcome.custom["columns_left_out"] == ["more"]


def test_other_delimiters_quotes_packed_files_and_marks_at_the_beginning_are_read(landing: Landing) -> None:
    landing.put("a.csv", '\ufeffid;name\n1;"a;b ""c"""\n')
    with gzip.open(landing.path / "b.csv.gz", "wt") as packed:
        packed.write("id;name\n2;two\n")
    assert landing.rows(landing.take({"delimiter": ";"})) == [{"id": 1, "name": 'a;b "c"'}, {"id": 2, "name": "two"}]


def test_files_without_a_header_go_by_the_schema(landing: Landing) -> None:
    landing.put("a.csv", "1,one\n")
    assert landing.rows(landing.take({"header": False, "schema": "id INT, name STRING"})) == [{"id": 1, "name": "one"}]


def test_inferred_types_are_wide_and_stay_as_they_are(landing: Landing) -> None:
    landing.put("a.csv", "id,price,day\n1,2,2024-01-10\n")
    landing.put("b.csv", "id,price,day\n1,2.5,2024-01-11\n")
    first = landing.take()
    assert first.state is not None
    types = {field["name"]: field["type"] for field in first.state["schema"]["fields"]}
    assert types == {"id": "long", "price": "double", "day": "date"}
    landing.put("c.csv", "id,price,day,new\n9999999999,3,2024-01-12,x\n")
    table = {"type": "struct", "fields": [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in types.items()]}
    second = landing.take(state=first.state, output={"table_schema": table})
    assert [(row["id"], row["price"], row["new"]) for row in landing.rows(second)] == [(9999999999, 3.0, "x")]


def test_the_tables_own_types_come_first(landing: Landing) -> None:
    landing.put("a.csv", "id,code\n1,007\n")
    table = {"type": "struct", "fields": [{"name": "code", "type": "string", "nullable": True, "metadata": {}}]}
    assert landing.rows(landing.take(output={"table_schema": table})) == [{"code": "007", "id": 1}]


@pytest.mark.parametrize(
    ("config", "name", "text", "bad"),
    [
        ({"schema": "id INT, n INT"}, "a.csv", "id,n\n1,1\n2\n3,3,3\n4,4\n", 2),
        ({"schema": "id INT, n INT"}, "a.csv", "id,n\n1,one\n99999999999,1\n4,4\n", 2),
        ({"schema": "id INT, n DECIMAL(4,2)"}, "a.csv", "id,n\n1,12345.6\n4,4.5\n", 1),
        ({"schema": "id INT, n DATE"}, "a.csv", "id,n\n1,2024-13-45\n4,2024-01-10\n", 1),
        ({"schema": "id INT, n BOOLEAN"}, "a.csv", "id,n\n1,perhaps\n4,true\n", 1),
        ({"format": "json", "schema": "id INT, n INT"}, "a.json", '{"id": 1, "n": 1}\n{"id": 2, "n"\n{"id": 3, "n": "x"}\n\nhello\n', 3),
        ({"format": "json"}, "a.json", '{"id": 1}\n{"id": \n', 1),
        ({"format": "json"}, "a.json", "hello\nworld\n", 2),
    ],
)
def test_rows_that_do_not_fit_fail_the_task_with_file_and_count_and_no_data(landing: Landing, config: dict[str, Any], name: str, text: str, bad: int) -> None:
    landing.put(name, text)
    failed = landing.take(config)
    assert failed.error is not None
    assert (failed.error.error_class, failed.error.retry, failed.outputs) == ("bad_records", False, [])
    assert failed.error.message.startswith(f"1 record of landing/{name} does not fit the schema; line " if bad == 1 else f"{bad} records of landing/{name} do not fit the schema; line ")
    assert failed.custom["bad_records"] == {f"landing/{name}": bad}

    aside = landing.take(config | {"bad_records": "set_aside"})
    assert aside.error is None
    assert aside.custom["bad_records"] == {f"landing/{name}": bad}
    assert not [file for file in aside.outputs[0].files if "_bad" in file]
    kept = [json.loads(line) for path in (landing.folder / "staging" / "_bad").glob("*.json") for line in path.read_text().splitlines()]
    assert [line["file"] for line in kept] == [f"landing/{name}"] * bad
    assert all(line["record"] in text.splitlines() for line in kept)


def test_the_good_rows_go_on_until_too_many_are_bad(landing: Landing) -> None:
    landing.put("a.csv", "id\nx\n1\n")
    landing.put("b.csv", "id\ny\nz\n2\n")
    config = {"schema": "id INT", "bad_records": "set_aside", "max_bad_records": 3}
    assert landing.rows(landing.take(config)) == [{"id": 1}, {"id": 2}]
    failed = landing.take(config | {"max_bad_records": 2})
    assert failed.error is not None
    assert failed.error.message.startswith(
        "1 record of landing/a.csv does not fit the schema; line 2: column id is not a valid INT. 2 more in 1 other file, first landing/b.csv. At most 2 may be set aside. "
    )


@pytest.mark.parametrize(
    ("config", "name", "text", "said"),
    [
        ({"schema": "id INT, n INT"}, "a.csv", "id,n\n1,1\n2\n3,3,3\n", ["line 3: it has 1 value for 2 columns", "line 4: it has 3 values for 2 columns"]),
        ({"schema": "id INT, n INT"}, "a.csv", "n,id\n1,1\n\n1,99999999999\nx,2\n", ["line 4: column id is not a valid INT", "line 5: column n is not a valid INT"]),
        ({"schema": "id INT, n DECIMAL(4,2)"}, "a.csv", "id,n\n1,12345.6\n2,99.999\n", ["line 2: column n is not a valid DECIMAL(4,2)", "line 3: column n is not a valid DECIMAL(4,2)"]),
        ({"schema": "id INT, n INT, d DATE, b BOOLEAN"}, "a.csv", "id,n,d,b\nx,1,y,z\nv,w,x,y\n", ["line 2: column id is not a valid INT, column d is not a valid DATE, column b is not a valid BOOLEAN; ", "line 3: column id is not a valid INT, column n is not a valid INT, column d is not a valid DATE."]),
        ({"schema": "s STRING, n DECIMAL(3,2), m DECIMAL(3,2)"}, "a.csv", "s,n,m\na,1,1\nb,10,100\n", ["line 3: column n is not a valid DECIMAL(3,2), column m is not a valid DECIMAL(3,2)."]),
        ({"schema": "id INT, s STRING, d DATE", "multiline": True}, "a.csv", 'id,s,d\n1,"two\nlines",2024-13-01\n', ["line 2: column d is not a valid DATE"]),
        ({"schema": "id INT, s STRING"}, "a.csv", 'id,s\n1,"two\nlines"\n', ["line 3: it has 1 value for 2 columns; a quoted value that continues on the next line needs `multiline: true`"]),
        ({"format": "json", "schema": "id INT, n INT"}, "a.json", '{"id": 1}\n{"id": 2, "n"\n[1]\n{"n": "x"}\n', ["line 2: it is not valid JSON", "line 3: it is not a JSON object", "line 4: column n is not a valid INT"]),
    ],
)  # fmt: skip
def test_a_bad_record_is_named_by_file_line_and_column(landing: Landing, config: dict[str, Any], name: str, text: str, said: list[str]) -> None:
    landing.put(name, text)
    failed = landing.take(config)
    assert failed.error is not None
    assert failed.error.error_class == "bad_records"
    assert [each for each in said if f"; {each}" not in failed.error.message] == [], failed.error.message


def test_the_line_of_a_bad_record_is_found_in_a_file_that_is_read_in_blocks(landing: Landing) -> None:
    landing.spark.conf.set("spark.sql.files.maxPartitionBytes", "4096")
    try:
        lines = [f"{number},{number}" for number in range(5000)]
        lines[4321] = "4321,x"
        landing.put("a.csv", "id,n\n" + "\n".join(lines) + "\n")
        failed = landing.take({"schema": "id INT, n INT"})
    finally:
        landing.spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert failed.error is not None
    assert "; line 4323: column n is not a valid INT." in failed.error.message


def test_a_row_without_a_partition_is_a_bad_record_like_any_other(landing: Landing) -> None:
    landing.put("a.csv", "id,day\n1,2024-01-10\n2,\n3,x\n")
    config, output = {"schema": "id INT, day DATE"}, {"partition_by": {"column": "day"}}
    failed = landing.take(config, output=output)
    assert failed.error is not None
    assert failed.error.message.startswith("2 records of landing/a.csv do not fit the schema; line 3: column day is empty, and the table is partitioned by it; line 4: column day is not a valid DATE.")
    aside = landing.take(config | {"bad_records": "set_aside"}, output=output)
    assert [row["id"] for row in landing.rows(aside)] == [1]


@pytest.mark.parametrize("schema", [{"multiline": True}, {"multiline": True, "schema": "id BIGINT, note STRING, n BIGINT"}])
def test_a_quoted_value_may_continue_on_the_next_line(landing: Landing, schema: dict[str, Any]) -> None:
    landing.put("a.csv", 'id,note,n\n1,"first\nsecond, ""quoted""\n",2\n2,plain,3\n')
    outcome = landing.take(schema)
    assert landing.rows(outcome) == [{"id": 1, "note": 'first\nsecond, "quoted"\n', "n": 2}, {"id": 2, "note": "plain", "n": 3}]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_quote_that_is_never_closed_swallows_no_rows(landing: Landing, end: str) -> None:
    lines = {"multiline": True}
    landing.put("good.csv", 'id,note|1,"a|b"|2,"b"|3,b|4,"c|d"|'.replace("|", end))
    assert len(landing.rows(landing.take(lines))) == 4
    landing.put("bad.csv", 'id,note|1,"abc|2,def|3,ghi|'.replace("|", end))
    failed = landing.take(lines)
    assert failed.error is not None
    assert (failed.error.error_class, failed.error.message.split(". ")[0]) == ("bad_records", "landing/bad.csv has an unclosed quote in line 2")
    assert len(landing.rows(landing.take({"path": "landing/bad.csv"}))) == 3


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('id,note\n1,"a\nb"\n2,"abc\n3,def\n4,ghi\n', 4),       # up to the end of the file
        ('id,note\n1,x\n2,"abc\n3,def\n4,"ghi"\n', 3),           # the last line ends in a quote
        ('id,note\n1,"abc\n2,"def"\n3,ghi\n', 2),                # a later quote ends it in the middle of a value
        ('note,id\n"abc,1\n"def",2\nghi,3\n', 2),                # not the last column
        ('id,note\n1,"say ""a"""\n2,"abc ""\n3,def\n', 3),        # quotes that are written twice close nothing
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_an_unclosed_quote_is_named_with_its_line_in_plain_and_packed_files(landing: Landing, text: str, line: int, packed: bool) -> None:
    name = "bad.csv.gz" if packed else "bad.csv"
    (landing.path / name).write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    failed = landing.take({"multiline": True, "bad_records": "set_aside"})
    assert failed.error is not None
    assert (failed.error.error_class, failed.error.message.split(". ")[0]) == ("bad_records", f"landing/{name} has an unclosed quote in line {line}")


def test_values_over_lines_that_are_closed_are_taken_from_packed_files_too(landing: Landing) -> None:
    text = 'id,note,more\n1,"a\n""b"", c\n",x\n2,"5"" pipe","d\n\n"\n3,6" pipe,"""e\n"""\n'
    (landing.path / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
    rows = landing.rows(landing.take({"multiline": True}))
    assert [row["note"] for row in rows] == ['a\n"b", c\n', '5" pipe', '6" pipe']
    assert [row["more"] for row in rows] == ["x", "d\n\n", '"e\n"']


@pytest.mark.parametrize(("name", "text"), [("a.csv", "id,n,more\n1,1.005,x\n2,2.50,y\n3,,z\n1,0.1,a\n"), ("a.json", '{"id": 1, "n": 1.005}\n{"id": 2, "n": 2.50}\n{"id": 3}\n{"id": 1, "n": 0.1}\n')])
def test_a_run_says_what_ingest_changed(landing: Landing, name: str, text: str) -> None:
    landing.put(name, text)
    kind = name.rsplit(".", 1)[1]
    first = landing.take({"format": kind, "schema": "id INT, n DECIMAL(5,2)", "cursor_column": "id"}, state={"files": {}, "cursor": 1})
    said = ["Ignored 1 column that the schema does not have: more."] if kind == "csv" else []
    assert first.summary == ["Read 1 file, 4 rows; took 2.", *said, "Skipped 2 rows at or before the cursor."]
    second = landing.take({"format": kind, "schema": "id INT, n DECIMAL(5,2)"})
    assert [str(row["n"]) for row in landing.rows(second)] == ["0.10", "1.01", "2.50", "None"]
    assert second.summary == ["Read 1 file, 4 rows; took 4.", *said, "Rounded 1 value of n to fit its type."]
    assert second.custom["rounded"] == {"n": 1}


def test_a_run_that_changes_nothing_says_only_what_it_read(landing: Landing) -> None:
    landing.put("a.csv", "id,n\n1,1.00\n")
    first = landing.take({"schema": "id INT, n DECIMAL(5,2)"})
    assert first.summary == ["Read 1 file, 1 row; took 1."]
    assert landing.take(state=first.state).summary == ["Found no new files."]


def test_types_are_named_in_the_run_that_infers_them(landing: Landing) -> None:
    landing.put("a.csv", "zip,day\n01234,2024-01-10\n")
    first = landing.take()
    assert first.summary[1:] == ["Inferred types: zip BIGINT, day DATE; set `schema` to choose others."]
    landing.put("b.csv", "zip,day,n\n01234,2024-01-10,1.5\n")
    assert landing.take(state=first.state).summary[1:] == ["Inferred types: n DOUBLE; set `schema` to choose others."]


def test_a_column_that_files_lack_is_named_with_them(landing: Landing) -> None:
    landing.put("a.csv", "id,n\n1,1\n")
    landing.put("b.csv", "ID\n2\n")
    landing.put("empty.csv", "")
    outcome = landing.take({"schema": "id INT, n INT, m INT"})
    assert outcome.summary[1:] == ["Column n is missing in 1 file (landing/b.csv); its values are null.", "Column m is missing in 2 files (first landing/a.csv); its values are null."]
    assert outcome.custom["columns_missing"] == {"n": 1, "m": 2}


def test_records_that_are_set_aside_are_named_by_file_line_and_column(landing: Landing) -> None:
    landing.put("a.csv", "id,n\n1,1\n2,x\n3\n")
    landing.put("b.csv", "id,n\ny,z\n4,4\n")
    outcome = landing.take({"schema": "id INT, n INT", "bad_records": "set_aside"})
    assert outcome.summary == [
        "Read 2 files, 5 rows; took 2.",
        "Set aside 3 records of 2 files that do not fit the schema; the table does not have them.",
        "landing/a.csv, line 3: column n is not a valid INT.",
        "landing/a.csv, line 4: it has 1 value for 2 columns.",
        "landing/b.csv, line 2: column id is not a valid INT, column n is not a valid INT.",
    ]


_LATIN = "Müller".encode("latin-1")


@pytest.mark.parametrize(
    ("config", "name", "text"),
    [
        ({"schema": "id INT, s STRING"}, "a.csv", b"id,s\n1,\xef\xbf\xbd\n2,Z\xc3\xbcrich\n3,%b\n" % _LATIN),
        ({"schema": "id INT, s STRING", "delimiter": "§"}, "a.csv.gz", gzip.compress("id§s\n1§\ufffd\n2§Zürich\n3§".encode() + _LATIN + b"\n")),
        ({"multiline": True}, "a.csv", b'\xef\xbb\xbfid,s\n1,\xef\xbf\xbd\n2,Z\xc3\xbcrich\n3,"%b\nmore"\n' % _LATIN),
        ({"format": "json"}, "a.json", b'{"id": 1, "s": "\xef\xbf\xbd"}\n{"id": 2, "s": "Z\xc3\xbcrich"}\n\n{"id": 3, "s": "%b"}\n' % _LATIN),
        ({"format": "json", "schema": "id INT, s STRING"}, "a.json.gz", gzip.compress(b'{"id": 1, "s": "\xef\xbf\xbd"}\n{"id": 2, "s": "Z\xc3\xbcrich"}\n\n{"id": 3, "s": "%b"}\n' % _LATIN)),
    ],
    ids=["csv", "packed csv", "csv over lines", "json", "packed json"],  # the bytes of a packed file have the time in them
)  # fmt: skip
def test_a_record_that_is_not_utf8_is_a_bad_one_and_an_honest_replacement_character_is_not(landing: Landing, config: dict[str, Any], name: str, text: bytes) -> None:
    landing.put(name, text)
    failed = landing.take(config)
    assert failed.error is not None
    assert failed.error.message.startswith(f"1 record of landing/{name} does not fit the schema; line 4: it is not valid UTF-8. ")
    aside = landing.take(config | {"bad_records": "set_aside"})
    assert landing.rows(aside) == [{"id": 1, "s": "\ufffd"}, {"id": 2, "s": "Zürich"}]
    assert aside.custom["bad_records"] == {f"landing/{name}": 1}


def test_a_record_that_is_not_utf8_and_does_not_fit_counts_once(landing: Landing) -> None:
    landing.put("a.csv", b"id,s\n1,a\nx,%b\n3,%b\n" % (_LATIN, _LATIN))
    landing.put("b.csv", "id,s\n4,\ufffd\n")
    aside = landing.take({"schema": "id INT, s STRING", "bad_records": "set_aside"})
    assert landing.rows(aside) == [{"id": 1, "s": "a"}, {"id": 4, "s": "\ufffd"}]
    assert aside.summary[0] == "Read 2 files, 4 rows; took 2."
    assert aside.summary[2:] == ["landing/a.csv, line 3: it is not valid UTF-8.", "landing/a.csv, line 4: it is not valid UTF-8."]


def test_a_header_that_is_not_utf8_is_refused(landing: Landing) -> None:
    landing.put("a.csv", b"id,Stra\xdfe\n1,x\n")
    failed = landing.take()
    assert failed.error is not None
    assert (failed.error.error_class, failed.error.message.split(",")[0]) == ("header_invalid", "The header of landing/a.csv is not valid UTF-8")


def test_a_line_break_inside_a_value_is_kept_unless_lines_end_in_crlf(landing: Landing) -> None:
    landing.put("a.csv", 'id,s\n1,"a\r\nb"\n')
    landing.put("b.csv", 'id,s\r\n2,"a\r\nb"\r\n')
    assert [row["s"] for row in landing.rows(landing.take({"multiline": True}))] == ["a\r\nb", "a\nb"]


@pytest.mark.parametrize(("name", "text"), [("a.json", '{"id": 1, "day": "2024-01-10"}\n{"id": 2}\n'), ("a.csv.gz", gzip.compress(b'id,s,day\n1,"a\nb",2024-01-10\n2,,\n'))], ids=["json", "packed csv"])
def test_the_line_of_a_record_without_a_partition_is_found_whatever_the_format(landing: Landing, name: str, text: str | bytes) -> None:
    landing.put(name, text)
    config = {"format": name.split(".")[1], "multiline": True, "schema": "id INT, day DATE"}
    failed = landing.take(config, output={"partition_by": {"column": "day"}})
    assert failed.error is not None
    assert f"; line {2 if name == 'a.json' else 4}: column day is empty, and the table is partitioned by it." in failed.error.message


def test_an_empty_folder_never_empties_a_table(landing: Landing) -> None:
    failed = landing.take(update_strategy="replace")
    assert failed.error is not None
    assert (failed.error.error_class, failed.error.retry, failed.outputs) == ("path_empty", True, [])
    assert landing.take().summary == ["Found no new files."]
    landing.put("a.csv", "id\n")
    emptied = landing.take({"schema": "id INT"}, update_strategy="replace")
    assert (emptied.error, emptied.outputs[0].files) == (None, [])
    assert emptied.summary == ["Read 1 file, 0 rows; the table is now empty."]


def test_files_that_are_gone_are_forgotten(landing: Landing) -> None:
    landing.put("a.csv", "id\n1\n")
    landing.put("b.csv", "id\n2\n")
    first = landing.take()
    (landing.path / "a.csv").unlink()
    second = landing.take(state=first.state)
    assert second.state is not None
    assert list(second.state["files"]) == ["b.csv"]
    (landing.path / "b.csv").unlink()
    assert landing.take(state=second.state).state == second.state  # an empty folder may be one that is not mounted


@pytest.mark.parametrize("schema", ["id BIGINT, at TIMESTAMP", "id BIGINT, at DATE"])
def test_only_rows_beyond_the_cursor_are_taken_and_cursors_are_typed(landing: Landing, schema: str) -> None:
    landing.put("a.csv", "id,at\n9,2024-01-09\n10,2024-01-10\n")
    by_id, by_time = {"schema": schema, "cursor_column": "id"}, {"schema": schema, "cursor_column": "at"}
    first, first_time = landing.take(by_id), landing.take(by_time)
    assert (first.custom["cursor_before"], first.custom["cursor_after"]) == (None, 10)
    assert first_time.custom["cursor_after"] == "2024-01-10T00:00:00Z"

    landing.put("b.csv", "id,at\n9,2024-01-09\n10,2024-01-10\n100,2024-02-01\n")
    assert [row["id"] for row in landing.rows(landing.take(by_id, state=first.state))] == [100]
    second = landing.take(by_time, state=first_time.state)
    assert [row["id"] for row in landing.rows(second)] == [100]
    assert second.custom["cursor_after"] == "2024-02-01T00:00:00Z"


def test_a_row_without_a_cursor_does_not_fit(landing: Landing) -> None:
    landing.put("a.csv", "id,n\n1,1\n,2\n")
    outcome = landing.take({"cursor_column": "id", "bad_records": "set_aside"})
    assert landing.rows(outcome) == [{"id": 1, "n": 1}]
    assert outcome.custom["bad_records"] == {"landing/a.csv": 1}


def test_a_cursor_is_a_number_or_a_time(landing: Landing) -> None:
    landing.put("a.csv", "id,n\n1,x\n")
    for column, error_class in (("n", "cursor_column_type"), ("none", "cursor_column_missing")):
        failed = landing.take({"cursor_column": column})
        assert failed.error is not None
        assert failed.error.error_class == error_class


@pytest.mark.proves("T2.2")
def test_finished_batches_are_announced_with_the_state_that_follows_them(landing: Landing) -> None:
    for number in range(5):
        landing.put(f"{number}.csv", f"id\n{number}\n")
    outcome = landing.take({"batch_files": 2})
    batches = [landing.batches()[name] for name in sorted(landing.batches())]  # posted in the order of their names
    assert [sorted((batch.state or {})["files"]) for batch in batches] == [["0.csv", "1.csv"], ["0.csv", "1.csv", "2.csv", "3.csv"]]
    assert [[row.id for row in landing.staged(batch.files)] for batch in batches] == [[0, 1], [2, 3]]
    assert landing.rows(outcome) == [{"id": 4}]
    assert all(name == batch.name for name, batch in landing.batches().items())
    assert (outcome.custom["batches"], outcome.custom["files"]) == (2, 5)
    assert outcome.state is not None
    assert len(outcome.state["files"]) == 5


@pytest.mark.proves("T2.7")
def test_a_second_attempt_continues_after_the_posted_batches(landing: Landing) -> None:
    for number, cursor in enumerate([50, 10, 40, 20, 60]):
        landing.put(f"{number}.csv", f"id\n{cursor}\n{cursor + 1}\n")
    config = {"batch_files": 2, "cursor_column": "id"}

    class Killed(Exception):
        pass

    def die(moment: str) -> None:
        if moment == "batch_ready":
            raise Killed

    with pytest.raises(Killed):
        run(landing.spark, order_of(landing.folder, "ingest_files", {"path": "landing", "format": "csv"} | config), Progress(moment=die))
    (first,) = landing.batches().values()
    outcome = landing.take(config, state=first.state, posted=[first.name])
    second = next(batch for name, batch in landing.batches().items() if name != first.name)
    taken = [row.id for files in (first.files, second.files, outcome.outputs[0].files) for row in landing.staged(files)]
    # Rows below what the first batch reached are not old: they are of the same run.
    assert sorted(taken) == [10, 11, 20, 21, 40, 41, 50, 51, 60, 61]
    assert outcome.state is not None
    assert (outcome.state["cursor"], "reached" in outcome.state) == (61, False)
    whole = landing.take(config, state=None)
    assert whole.state == outcome.state
    assert {first.name, second.name} == set(landing.batches())  # the same files are the same batch in every attempt


def test_posted_batches_are_skipped(landing: Landing) -> None:
    for number in range(4):
        landing.put(f"{number}.csv", f"id\n{number}\n")
    landing.take({"batch_files": 2})
    names = list(landing.batches())
    for name in names:
        (landing.folder / "batches" / f"{name}.json").unlink()
    outcome = landing.take({"batch_files": 2}, posted=names)
    assert (landing.batches(), outcome.outputs[0].files) == ({}, [])


def test_a_job_that_replaces_reads_every_file_each_time(landing: Landing) -> None:
    landing.put("a.csv", "id\n1\n")
    first = landing.take(update_strategy="replace")
    landing.put("b.csv", "id\n2\n")
    assert landing.rows(landing.take(update_strategy="replace", state=first.state)) == [{"id": 1}, {"id": 2}]
    refused = landing.take({"batch_files": 2}, update_strategy="replace")
    assert refused.error is not None
    assert refused.error.error_class == "config_invalid"


def test_json_lines_keep_their_nesting_and_new_fields_become_columns(landing: Landing) -> None:
    landing.put("a.json", '{"id": 1, "tags": ["x"], "who": {"name": "a"}}\n')
    first = landing.take({"format": "json"})
    assert landing.rows(first) == [{"id": 1, "tags": ["x"], "who": {"name": "a"}}]
    landing.put("b.json", '{"id": 2, "more": 1.5}\n')
    second = landing.take({"format": "json"}, state=first.state)
    assert landing.rows(second) == [{"id": 2, "tags": None, "who": None, "more": 1.5}]


def test_parquet_files_are_read_with_the_columns_of_all_of_them(landing: Landing) -> None:
    for name, query in {"a": "SELECT 1 AS id", "b": "SELECT 2 AS id, timestamp_ntz'2024-01-10 05:00:00' AS at"}.items():
        landing.spark.sql(query).coalesce(1).write.parquet(f"file://{landing.path}/{name}")
    outcome = landing.take({"format": "parquet", "cursor_column": "id"})
    rows = landing.rows(outcome)
    assert [row["id"] for row in rows] == [1, 2]
    assert [row["at"] and row["at"].astimezone(UTC) for row in rows] == [None, datetime(2024, 1, 10, 5, tzinfo=UTC)]
    assert outcome.state is not None
    assert [field["type"] for field in outcome.state["schema"]["fields"]] == ["long", "timestamp"]
    assert outcome.state["cursor"] == 2


def test_a_file_that_is_not_parquet_fails_the_task(landing: Landing) -> None:
    landing.put("a.parquet", "hello, I am text and long enough to look at")
    with pytest.raises(Exception, match=r"CANNOT_READ_FILE_FOOTER|FAILED_READ_FILE"):
        landing.take({"format": "parquet", "schema": "id BIGINT"})


@pytest.mark.parametrize("columns", ["id BIGINT,", "BIGINT", "id NOTHING"])
def test_an_invalid_schema_is_refused(landing: Landing, columns: str) -> None:
    landing.put("a.csv", "id\n1\n")
    failed = landing.take({"schema": columns})
    assert failed.error is not None
    assert (failed.error.error_class, failed.error.retry) == ("schema_invalid", False)


@pytest.mark.parametrize("column", ["id BIGNT", "id ARRAY<STRUCT<x: INT, y: dubble>>", "`a, b` varchr(10)", "id NUMBER"])
def test_a_deploy_refuses_no_type_that_spark_takes(landing: Landing, column: str) -> None:
    with pytest.raises(ValueError, match="unknown type"):
        check_types(column)
    with pytest.raises(PySparkException):
        StructType.fromDDL(column)


@pytest.mark.parametrize("column", ["`a, b` dec(4)", "id ARRAY<STRUCT<x: INT, y: MAP<LONG, timestamp_ltz>>>", "t STRING COLLATE UTF8_LCASE COMMENT 'a, b'", "v variant"])
def test_a_deploy_takes_what_spark_takes(landing: Landing, column: str) -> None:
    check_types(column)
    assert len(StructType.fromDDL(column).fields) == 1


def test_a_header_with_a_column_twice_is_refused(landing: Landing) -> None:
    landing.put("a.csv", "id,ID\n1,2\n")
    failed = landing.take({"schema": "id INT"})
    assert failed.error is not None
    assert failed.error.error_class == "header_invalid"


def test_progress_is_reported_file_by_file(landing: Landing) -> None:
    said: list[tuple[float | None, str]] = []
    for number in range(3):
        landing.put(f"{number}.csv", f"id\n{number}\n")
    order = order_of(landing.folder, "ingest_files", {"path": "landing", "format": "csv", "batch_files": 2})
    run(landing.spark, order, Progress(report=lambda fraction, note: said.append((fraction, note))))
    assert said == [(0.5, "2 of 3 files"), (1.0, "3 of 3 files")]
