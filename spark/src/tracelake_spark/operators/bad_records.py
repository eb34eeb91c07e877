"""Bad records: the line in its file and the column at which a record does not fit the schema; never its values."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, StructField, StructType

from tracelake_sdk.dags.spark_operators import FileFormat, IngestFilesConfig
from tracelake_sdk.wording import counted
from tracelake_spark.reading import exact_files

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

NOT_UTF8 = "it is not valid UTF-8"

_BAD = "__bad"
_MOST_COLUMNS = 200  # of a record that are tried one by one
_MOST_NAMED = 3      # of those that do not fit


@dataclass(frozen=True)
class BadRecord:
    """One record that does not fit."""

    file: str          # as shown to people
    uri: str
    text: str | None   # as in the file; None if unknown
    reason: str | None  # None: derived from the text


@dataclass(frozen=True)
class _Line:
    number: int
    is_utf8: bool


@dataclass(frozen=True)
class Finding:
    file: str
    line: int | None   # None if the record's text is unknown
    reason: str

    @property
    def sentence(self) -> str:
        return self.reason if self.line is None else f"line {self.line}: {self.reason}"


class Reading(Protocol):
    """How the files were read."""

    @property
    def config(self) -> IngestFilesConfig: ...

    @property
    def schema(self) -> StructType: ...

    @property
    def headers(self) -> Mapping[str, Sequence[str] | None]:
        """The headers of CSV files, by the name that is shown to people."""
        ...


def explain(spark: "SparkSession", reading: Reading, records: Sequence[BadRecord]) -> list[Finding]:
    """The position and the error of each record, in the order of files and lines."""
    lines = _line_numbers(spark, records)
    found: list[Finding] = []
    for record in records:
        line = None if record.text is None else lines.get((record.uri, _first_line(record.text)))
        reason = record.reason or (NOT_UTF8 if line and not line.is_utf8 else _reason(spark, reading, record.file, record.text or ""))
        found.append(Finding(record.file, line.number if line else None, reason))
    return sorted(found, key=lambda each: (each.file, each.line is None, each.line or 0))


def _first_line(text: str) -> str:
    return next(iter(text.splitlines()), "")


def _line_numbers(spark: "SparkSession", records: Sequence[BadRecord]) -> dict[tuple[str, str], _Line]:
    """By file and first line of the record: the first equal line of the file."""
    wanted: dict[str, set[str]] = {}
    for record in records:
        if record.text is not None:
            wanted.setdefault(record.uri, set()).add(_first_line(record.text))
    return {(uri, text): line for uri, texts in wanted.items() for text, line in _lines_of(spark, uri, texts).items()}


def _lines_of(spark: "SparkSession", uri: str, texts: set[str]) -> dict[str, _Line]:
    """A file is read in parallel blocks, so the number of a line is its position in its block plus the lines of earlier blocks."""
    lines = exact_files(spark, [uri]).text(uri).select("value", F.monotonically_increasing_id().alias("id"), F.col("_metadata.file_block_start").alias("block"))
    blocks = lines.groupBy("block").agg(F.min("id").alias("first"), F.count("*").alias("lines")).orderBy("block").collect()
    # A line has the bytes of the file, a record is what the reader decoded.
    read = lines.select(F.make_valid_utf8("value").alias("text"), F.struct("block", "id", F.is_valid_utf8("value").alias("is_utf8")).alias("at"))
    hits = read.where(F.col("text").isin(sorted(texts))).groupBy("text").agg(F.min("at").alias("at")).collect()
    return {hit["text"]: _Line(_number(hit["at"]["block"], hit["at"]["id"], blocks), hit["at"]["is_utf8"]) for hit in hits}


def _number(block: int, id: int, blocks: list[Any]) -> int:
    before = sum(each["lines"] for each in blocks if each["block"] < block)
    first = next(each["first"] for each in blocks if each["block"] == block)
    return int(before + id - first + 1)


def _reason(spark: "SparkSession", reading: Reading, file: str, text: str) -> str:
    if reading.config.format is FileFormat.JSON:
        return _reason_of_json(spark, reading.schema, text)
    return _reason_of_csv(spark, reading, reading.headers.get(file) or (), text)


def _reason_of_csv(spark: "SparkSession", reading: Reading, header: Sequence[str], text: str) -> str:
    delimiter = reading.config.delimiter
    values = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
    if len(values) != len(header):
        hint = "; a quoted value that continues on the next line needs `multiline: true`" if text.count('"') % 2 and not reading.config.multiline else ""
        return f"it has {counted(len(values), 'value')} for {counted(len(header), 'column')}{hint}"
    known = {field.name.casefold(): field for field in reading.schema.fields}
    options = _OPTIONS | {"sep": delimiter, "escape": '"'}
    here = [(known[name.casefold()], value) for name, value in zip(header, values, strict=True) if name.casefold() in known]
    return _misfits(spark, [(field, F.from_csv(F.lit(_quoted(value, delimiter)), _one(field), options)) for field, value in here])


def _quoted(value: str, delimiter: str) -> str:
    """Quotes a value only if needed: an empty value in quotes differs from no value."""
    return '"' + value.replace('"', '""') + '"' if any(mark in value for mark in ('"', delimiter, "\n", "\r")) else value


def _reason_of_json(spark: "SparkSession", schema: StructType, text: str) -> str:
    try:
        record = json.loads(text)
    except ValueError:
        return "it is not valid JSON"
    if not isinstance(record, dict):
        return "it is not a JSON object"
    tried = [(field, F.from_json(F.lit(json.dumps({field.name: record[field.name]})), _one(field), _OPTIONS)) for field in schema.fields if field.name in record]
    return _misfits(spark, tried)


_OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _BAD}


def _one(field: StructField) -> str:
    return f"`{field.name.replace('`', '``')}` {field.dataType.simpleString()}, `{_BAD}` STRING"


def _misfits(spark: "SparkSession", tried: "list[tuple[StructField, Column]]") -> str:
    tried = tried[:_MOST_COLUMNS]
    row = spark.range(1).select(*[parsed.getField(_BAD).isNotNull().alias(f"c{at}") for at, (_, parsed) in enumerate(tried)]).head() if tried else ()
    named = [f"column {field.name} is not a valid {type_name(field.dataType)}" for (field, _), misfit in zip(tried, row or (), strict=False) if misfit]
    return ", ".join(named[:_MOST_NAMED]) or "it does not fit the schema"


def type_name(kind: DataType) -> str:
    """A type as people write it in a `schema`."""
    return kind.simpleString().upper()
