"""Source rows: the rows of CSV, JSON and Parquet files under one schema, and which of them do not fit it."""

import csv
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tracelake_sdk.dags.spark_operators import FileFormat, IngestFilesConfig
from tracelake_sdk.tasks.operator_files import OrderOutput
from tracelake_spark.failures import OperatorFailed
from tracelake_spark.jvm import infer_csv, schema_json
from tracelake_spark.operators.bad_records import NOT_UTF8, type_name
from tracelake_spark.operators.source_files import SourceFile
from tracelake_spark.reading import exact_files, schema_of
from tracelake_spark.scoping import column
from tracelake_spark.storage import first_lines

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession

BAD = "__bad_record"    # the text of a row that does not fit, else null
REASON = "__reason"     # why it does not fit, if the text alone does not show it
FILE = "__file"
CONTINUED = "__continued"  # whether a value continues over lines
REPLACED = "__replaced"    # whether a string contains U+FFFD, with which a reader also replaces bytes that are not UTF-8
TEXT = "__text"            # a record as in its file
_MALFORMED = "__malformed"  # whether a string has bytes that are not UTF-8; known only for files that are read byte by byte
_BEYOND = "__beyond"
_ROUNDED = "__rounded_"

_MOST_DIGITS = 38
_MOST_REASONS = 3
_ONE_BYTE = "ISO-8859-1"  # every byte is a character of it, so that no byte is lost

Header = tuple[str, ...]


@dataclass(frozen=True)
class SourceRows:
    """How the files of one run are read: with one schema, whichever files are read together."""

    spark: "SparkSession"
    config: IngestFilesConfig
    headers: Mapping[str, Header | None]   # of each CSV file, by the name shown to people; None for an empty file
    schema: StructType
    required: Mapping[str, str]            # columns that must not be empty, each with the reason
    inferred: tuple[StructField, ...] = ()  # columns of the schema whose types were inferred from these files
    by_bytes: frozenset[str] = frozenset()  # URIs of CSV files in which each record's encoding is checked

    @property
    def rounded(self) -> dict[str, str]:
        """Columns that may lose digits, each with the column of `frame` that says whether a row lost some."""
        return {field.name: f"{_ROUNDED}{at}" for at, field in enumerate(self.schema.fields) if self._read_as(field.dataType) != field.dataType}

    def readable(self, files: Sequence[SourceFile]) -> list[SourceFile]:
        """The files that are not empty."""
        return [file for file in files if file.size and self.headers.get(file.shown, ()) is not None]

    def frame(self, files: Sequence[SourceFile]) -> "DataFrame":
        """The columns of the schema, with `BAD`, `REASON`, `FILE`, `CONTINUED`, `REPLACED` and those of `rounded`."""
        rows = self._typed(self._read(files))
        empty = [F.when(_empty(name), F.lit(why)) for name, why in self.required.items()]
        malformed = F.when(column(_MALFORMED), F.lit(NOT_UTF8))
        known = rows.withColumn(REASON, F.when(column(BAD).isNull(), F.coalesce(malformed, column(REASON), _joined(empty))))
        return known.withColumn(BAD, F.coalesce(column(BAD), F.when(column(REASON).isNotNull(), self._shown())))

    def texts(self, files: Sequence[SourceFile], shown: Sequence[str]) -> "DataFrame":
        """`FILE`, `BAD` and `TEXT` of the records whose `BAD` in `frame` is one of `shown`, because their text alone does not show why they are bad."""
        rows = self._typed(self._read(files, with_text=True))
        return rows.select(FILE, column(BAD).alias(TEXT), self._shown().alias(BAD)).where(column(BAD).isin(list(shown)))

    def not_utf8(self, files: Sequence[SourceFile]) -> list[SourceFile]:
        """The files with bytes that are not UTF-8."""
        uris = [file.uri for file in files]
        lines = exact_files(self.spark, uris).text(uris).where(~F.is_valid_utf8("value"))
        found = {plain_uri(unquote(row[FILE])) for row in lines.select(F.col("_metadata.file_path").alias(FILE)).distinct().collect()}
        return [file for file in files if plain_uri(file.uri) in found]

    def _shown(self) -> "Column":
        return F.to_json(F.struct(*[column(name) for name in self.schema.fieldNames()]))

    def _read(self, files: Sequence[SourceFile], *, with_text: bool = False) -> "DataFrame":
        """`with_text`: `BAD` is the text of every record, whether it is bad or not."""
        uris = [file.uri for file in files]
        corrupt = StructField(BAD, StringType())
        if self.config.format is FileFormat.PARQUET:
            return self._shaped(exact_files(self.spark, uris).schema(self.schema).parquet(*uris).withColumn(BAD, F.lit(None).cast("string")))
        if self.config.format is FileFormat.JSON:
            fields = [StructField(field.name, self._read_as(field.dataType)) for field in self.schema.fields]
            if with_text:
                lines = exact_files(self.spark, uris).text(uris).select(F.from_json("value", StructType(fields)).alias("record"), column("value").alias(BAD), "_metadata")
                return self._shaped(lines.select("record.*", BAD, "_metadata"))
            return self._shaped(_reader(self.spark, uris).schema(StructType([*fields, corrupt])).json(uris))
        frames = [
            self._shaped(self._csv(header, [file.uri for file in some], corrupt, by_bytes=by_bytes, with_text=with_text))
            for header, group in _by_header(files, self.headers).items()
            for by_bytes in (False, True)
            if (some := [file for file in group if (file.uri in self.by_bytes) is by_bytes])
        ]
        return reduce(lambda one, other: one.unionByName(other), frames)

    def _csv(self, header: Header, uris: list[str], corrupt: StructField, *, by_bytes: bool, with_text: bool) -> "DataFrame":
        known = {field.name.casefold(): StructField(field.name, self._read_as(field.dataType)) for field in self.schema.fields}
        # Columns that the schema omits are read as strings, which always fit.
        fields = [known.get(name.casefold(), StructField(name, StringType())) for name in header]
        # If a column is expected that no record has, Spark keeps the text of every record.
        beyond = [StructField(_BEYOND, StringType())] if with_text else []
        reader = _csv_options(_reader(self.spark, uris), self.config).schema(StructType([*fields, *beyond, corrupt]))
        if not by_bytes:
            return reader.csv(uris)
        rows = reader.option("encoding", _ONE_BYTE).option("sep", self.config.delimiter.encode().decode(_ONE_BYTE)).csv(uris)
        decoded = {field.name: F.encode(column(field.name), _ONE_BYTE).cast("string") for field in rows.schema.fields if isinstance(field.dataType, StringType)}
        kept = [text for name, text in decoded.items() if name in self.schema.fieldNames()]
        malformed = _any([~F.is_valid_utf8(text) for text in kept])
        return rows.withColumns({_MALFORMED: malformed, **{name: F.make_valid_utf8(text) for name, text in decoded.items()}})

    def _shaped(self, rows: "DataFrame") -> "DataFrame":
        there = {name.casefold() for name in rows.columns}
        columns = [
            column(field.name) if field.name.casefold() in there else F.lit(None).cast(self._read_as(field.dataType)).alias(field.name)
            for field in self.schema.fields
        ]
        texts = [field.name for field in rows.schema.fields if isinstance(field.dataType, StringType) and field.name != BAD] if self.config.format is FileFormat.CSV else []
        kept = {name.casefold() for name in self.schema.fieldNames()}
        flags = {
            CONTINUED: _any([column(name).rlike("[\r\n]") for name in texts] if self.config.multiline else []),
            REPLACED: _any([column(name).contains("\ufffd") for name in texts if name.casefold() in kept]),
            _MALFORMED: column(_MALFORMED) if _MALFORMED in there else F.lit(False),
        }
        return rows.select(*columns, column(BAD), F.col("_metadata.file_path").alias(FILE), *[flag.alias(name) for name, flag in flags.items()])

    def _read_as(self, kind: DataType) -> DataType:
        """For text, a decimal with the maximum number of digits, so that rounding can be detected; not more of them before the point."""
        if self.config.format is FileFormat.PARQUET or not isinstance(kind, DecimalType):
            return kind
        return DecimalType(_MOST_DIGITS, _MOST_DIGITS - (kind.precision - kind.scale))

    def _typed(self, rows: "DataFrame") -> "DataFrame":
        """Values with their declared types, and which of them lost digits."""
        named = self.rounded
        if not named:
            return rows.withColumn(REASON, F.lit(None).cast("string"))
        kinds = {field.name: field.dataType for field in self.schema.fields if field.name in named}
        exact = {name: column(name) for name in named}
        typed = {name: value.try_cast(kinds[name]) for name, value in exact.items()}
        too_large = _joined(
            [F.when(exact[name].isNotNull() & typed[name].isNull(), F.lit(f"column {name} is not a valid {type_name(kinds[name])}")) for name in named]
        )
        flags = {flag: F.coalesce(exact[name] != typed[name], F.lit(False)) for name, flag in named.items()}
        return rows.withColumns({**flags, REASON: too_large, **typed})


def _any(conditions: "Sequence[Column]") -> "Column":
    return reduce(lambda one, other: one | other, [F.coalesce(condition, F.lit(False)) for condition in conditions], F.lit(False))


def _joined(reasons: "Sequence[Column]") -> "Column":
    """The first reasons, joined; null if there are none."""
    if not reasons:
        return F.lit(None).cast("string")
    found = F.slice(F.array_compact(F.array(*reasons)), 1, _MOST_REASONS)
    return F.when(F.size(found) > 0, F.array_join(found, ", "))


def plain_uri(uri: str) -> str:
    """Java and Spark do not agree on the number of slashes after `file:`."""
    return "file:/" + uri.removeprefix("file:").lstrip("/") if uri.startswith("file:") else uri


def _empty(name: str) -> "Column":
    return column(name).isNull() | (column(name).cast("string") == "")


def source_rows(
    spark: "SparkSession", config: IngestFilesConfig, files: Sequence[SourceFile], output: OrderOutput, earlier: dict[str, Any] | None
) -> SourceRows:
    """Decides the schema of a run: the configured one, else the table's, then that of an earlier part of the run, then the one inferred from the files."""
    files = [file for file in files if file.size]
    if not files:
        return SourceRows(spark, config, {}, StructType([]), {})
    headers, inferred = _headers(spark, config, files), tuple[StructField, ...]()
    if config.columns is not None:
        schema = _given(config.columns)
    else:
        known = [*schema_of(output.table_schema).fields] if output.table_schema else []
        _add(known, schema_of(earlier).fields if earlier else [])
        if config.format is not FileFormat.CSV or any(_unknown(header, known) for header in headers.values()):
            before = len(known)
            _add(known, _shown(spark, config, files, headers).fields)
            inferred = tuple(known[before:]) if config.format is not FileFormat.PARQUET else ()  # Parquet files contain their types
        schema = StructType(known)
    if config.format is FileFormat.CSV and not config.header:
        headers = {name: tuple(schema.fieldNames()) for name in headers}
    _check_headers(headers, schema)
    required = {name: why for name, why in _required(config, output).items() if name in schema.fieldNames()}
    return SourceRows(spark, config, headers, schema, required, inferred)


def _required(config: IngestFilesConfig, output: OrderOutput) -> dict[str, str]:
    """A row without a cursor is neither old nor new, and a row without a partition key belongs to no partition."""
    required = {output.partition_by.column: "the table is partitioned by it"} if output.partition_by else {}
    required |= {config.cursor_column: "it is the cursor"} if config.cursor_column else {}
    return {name: f"column {name} is empty, and {why}" for name, why in required.items()}


def left_out(rows: SourceRows) -> list[str]:
    """Columns of CSV files that the schema does not have."""
    known = {name.casefold() for name in rows.schema.fieldNames()}
    return sorted({name for header in rows.headers.values() for name in header or () if name.casefold() not in known})


def missing(rows: SourceRows) -> dict[str, list[str]]:
    """Columns of the schema that some CSV files lack, with these files."""
    headers = {name: {each.casefold() for each in header} for name, header in rows.headers.items() if header is not None}
    lacking = {field: [name for name, header in headers.items() if field.casefold() not in header] for field in rows.schema.fieldNames()}
    return {field: files for field, files in lacking.items() if files}


def _given(columns: str) -> StructType:
    try:
        schema = StructType.fromDDL(columns)
    except PySparkException:
        schema = None
    if not isinstance(schema, StructType):
        raise OperatorFailed("schema_invalid", "The config's `schema` is not valid; write it like `order_id BIGINT, amount DECIMAL(10,2)`.")
    return schema


def _add(known: list[StructField], further: Sequence[StructField]) -> None:
    names = {field.name.casefold() for field in known}
    known.extend(field for field in further if field.name.casefold() not in names)


def _unknown(header: Header | None, known: list[StructField]) -> bool:
    return not {name.casefold() for name in header or ()} <= {field.name.casefold() for field in known}


def _headers(spark: "SparkSession", config: IngestFilesConfig, files: Sequence[SourceFile]) -> Mapping[str, Header | None]:
    if config.format is not FileFormat.CSV:
        return {}
    if not config.header:
        return {file.shown: () for file in files}
    lines = first_lines(spark, [file.uri for file in files])
    return {
        file.shown: None if line is None else tuple(next(csv.reader([line.removeprefix("\ufeff")], delimiter=config.delimiter)))
        for file, line in zip(files, lines, strict=True)
    }


def _check_headers(headers: Mapping[str, Header | None], schema: StructType) -> None:
    known = {name.casefold() for name in schema.fieldNames()}
    for name, header in headers.items():
        lowered = [each.casefold() for each in header or ()]
        if any("\ufffd" in each for each in lowered):
            raise OperatorFailed("header_invalid", f"The header of {name} is not valid UTF-8, or a column's name has the character U+FFFD; save the file as UTF-8.")
        if "" in lowered or len(set(lowered)) < len(lowered):
            raise OperatorFailed("header_invalid", f"The header of {name} has a column without a name, or one name twice.")
        if header is not None and not known & set(lowered):
            raise OperatorFailed("header_invalid", f"The header of {name} has no column of the schema; check `delimiter` and `header`.")


def _by_header(files: Sequence[SourceFile], headers: Mapping[str, Header | None]) -> dict[Header, list[SourceFile]]:
    groups: dict[Header, list[SourceFile]] = defaultdict(list)
    for file in files:
        if header := headers[file.shown]:
            groups[header].append(file)
    return groups


def _reader(spark: "SparkSession", uris: Sequence[str]) -> "DataFrameReader":
    return exact_files(spark, uris).option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", BAD)


def _csv_options(reader: "DataFrameReader", config: IngestFilesConfig) -> "DataFrameReader":
    # A quote inside quotes is doubled, as everywhere except in Spark's default; unread columns count when a line is checked.
    return reader.option("sep", config.delimiter).option("header", config.header).option("escape", '"').option("columnPruning", "false").option("multiLine", config.multiline)


def _shown(spark: "SparkSession", config: IngestFilesConfig, files: Sequence[SourceFile], headers: Mapping[str, Header | None]) -> StructType:
    """The columns of the files, with types wide enough for later values."""
    uris = [file.uri for file in files]
    if config.format is FileFormat.PARQUET:
        return _wide(_of_spark(exact_files(spark, uris).option("mergeSchema", "true").parquet(*uris)))
    if config.format is FileFormat.JSON:
        return _wide(_reader(spark, uris).json(uris).schema)
    merged: dict[str, StructField] = {}
    for header, group in _by_header(files, headers).items():
        group_uris = [file.uri for file in group]
        inferred = _wide(_inferred(spark, config, header, group_uris))
        for name, field in zip(header, inferred.fields, strict=False):
            other = merged.get(name.casefold())
            merged[name.casefold()] = StructField(name, field.dataType if other is None else _wider(other.dataType, field.dataType))
    return StructType(list(merged.values()))


def _of_spark(frame: "DataFrame") -> StructType:
    """The schema of files that contain it. A user-defined type is refused: to read it, Python would import the module that it names."""
    text = schema_json(frame)
    if '"type":"udt"' in text:
        raise OperatorFailed("schema_invalid", "A Parquet file has a column of a user-defined type; write it with Spark's own types.")
    return StructType.fromJson(json.loads(text))


def _inferred(spark: "SparkSession", config: IngestFilesConfig, header: Header, uris: list[str]) -> StructType:
    """The types that Spark infers from the values, by position. Spark gets records, not files: when it infers from files it reads a name as a pattern."""
    texts = _csv_options(_reader(spark, uris), config).schema(StructType([StructField(name, StringType()) for name in header])).csv(uris)
    records = texts.select(F.to_csv(F.struct(*[column(name) for name in header]), {"sep": config.delimiter, "escape": '"'}))
    reader = spark.read.option("sep", config.delimiter).option("escape", '"').option("inferSchema", "true")
    return infer_csv(spark, reader, records)


def _wider(one: DataType, other: DataType) -> DataType:
    if one == other:
        return one
    return DoubleType() if isinstance(one, (LongType, DoubleType)) and isinstance(other, (LongType, DoubleType)) else StringType()


def _wide(schema: StructType) -> StructType:
    return StructType([StructField(field.name, _widened(field.dataType)) for field in schema.fields if field.name != BAD])


def _widened(kind: DataType) -> DataType:
    match kind:
        case ByteType() | ShortType() | IntegerType():
            return LongType()
        case FloatType():
            return DoubleType()
        case DecimalType() if kind.scale == 0:
            return DecimalType(38, 0)
        case NullType():
            return StringType()
        case TimestampNTZType():  # a timestamp without a zone is read as UTC, as in text
            return TimestampType()
        case StructType():
            return _wide(kind)
        case ArrayType():
            return ArrayType(_widened(kind.elementType))
        case MapType():
            return MapType(_widened(kind.keyType), _widened(kind.valueType))
        case _:
            return kind
