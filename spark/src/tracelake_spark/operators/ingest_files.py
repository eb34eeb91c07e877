"""The operator `ingest_files`: ingests new and changed files below a path, and their rows that fit the schema.

Its state is what it has ingested: `files` by name with size and modification time, as long as they exist; the `cursor` after which
rows count as new; in an unfinished run the cursor that it has `reached`; and the `schema` that was used.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pydantic import TypeAdapter, ValidationError
from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType, StructField, StructType

from tracelake_sdk.dags import UpdateStrategy
from tracelake_sdk.dags.spark_operators import BadRecords, FileFormat, IngestFilesConfig
from tracelake_sdk.datasets.cursors import CursorType
from tracelake_sdk.datasets.scopes import Cursor, spell_cursor
from tracelake_sdk.tasks.operator_files import BatchReady, OperatorOutcome, Order, OutputStaged
from tracelake_sdk.wording import counted, plural
from tracelake_spark.failures import OperatorFailed
from tracelake_spark.operators.bad_records import BadRecord, Finding, explain, type_name
from tracelake_spark.operators.open_quotes import open_quotes
from tracelake_spark.operators.source_files import SourceFile, find_files
from tracelake_spark.operators.source_rows import (
    BAD,
    CONTINUED,
    FILE,
    REASON,
    REPLACED,
    TEXT,
    SourceRows,
    left_out,
    missing,
    plain_uri,
    source_rows,
)
from tracelake_spark.progress import QUIET, Progress
from tracelake_spark.scoping import column, cursor_number, cursor_of, cursor_type, number_of
from tracelake_spark.staging import stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CURSOR: TypeAdapter[Any] = TypeAdapter(Cursor)
_MOST_LOOKED_AT = 20  # bad records whose line is looked up
_MOST_SHOWN = 3
_MOST_NAMES = 5
_MOST_TYPES = 20
_NO_COLUMN = StructType([StructField("none", StringType())])


@dataclass(frozen=True)
class _State:
    files: dict[str, list[int]] = field(default_factory=dict)
    cursor: int | str | None = None
    reached: int | str | None = None         # only in the middle of a run
    schema: dict[str, Any] | None = None

    @staticmethod
    def of(state: dict[str, Any] | None) -> "_State":
        known = state or {}
        return _State(known.get("files", {}), known.get("cursor"), known.get("reached"), known.get("schema"))

    def wire(self) -> dict[str, Any]:
        kept = {"reached": self.reached, "schema": self.schema}
        return {"files": self.files, "cursor": self.cursor} | {name: value for name, value in kept.items() if value is not None}

    def finished(self, listed: Sequence[SourceFile]) -> "_State":
        """The state at the end of a run. Deleted files are forgotten, or the state would grow forever; an empty folder may be one that is not mounted."""
        names = {file.name for file in listed}
        files = {name: mark for name, mark in self.files.items() if name in names} if names else self.files
        return replace(self, files=files, cursor=self.cursor if self.reached is None else self.reached, reached=None)


@dataclass
class _Counts:
    """The counts of this attempt, for `custom`."""

    rows_read: int = 0
    rows_taken: int = 0
    files: int = 0
    bytes: int = 0
    batches: int = 0
    bad: dict[str, int] = field(default_factory=dict)
    found: list[Finding] = field(default_factory=list)     # the first bad records that were set aside
    rounded: dict[str, int] = field(default_factory=dict)  # by column


def run(spark: "SparkSession", order: Order, progress: Progress = QUIET) -> OperatorOutcome:
    try:
        return _Ingest(spark, order, progress).run()
    except OperatorFailed as failed:
        return failed.outcome()
    except ValidationError:
        return OperatorFailed("config_invalid", "The config of the operator is not a valid config of `ingest_files`.").outcome()


class _Ingest:
    """One attempt."""

    def __init__(self, spark: "SparkSession", order: Order, progress: Progress) -> None:
        self._spark, self._order, self._progress = spark, order, progress
        self._config = IngestFilesConfig.model_validate(order.config)
        self._replaces = order.update_strategy == UpdateStrategy.REPLACE
        self._counts = _Counts()
        if len(order.outputs) != 1:
            raise OperatorFailed("ingest_outputs", "The operator `ingest_files` needs exactly one output.")
        if self._replaces and (self._config.cursor_column or self._config.batch_files):
            raise OperatorFailed("config_invalid", "A job that replaces reads every file each time; `cursor_column` and `batch_files` are for jobs that append.")

    def run(self) -> OperatorOutcome:
        before = _State() if self._replaces else _State.of(self._order.state)
        output = self._order.outputs[0]
        listed = find_files(self._spark, self._config.path, self._order.locations)
        if self._replaces and not listed:
            message = f"No file was found at {self._config.path}, and the job replaces its table with the files there. Add a file; one with only a header makes the table empty."
            raise OperatorFailed("path_empty", message, retry=True)  # a folder that is not mounted looks the same
        files = [file for file in listed if before.files.get(file.name) != file.mark]
        state, staged, rows = before, self._nothing(), None
        if files:
            rows = source_rows(self._spark, self._config, files, output, before.schema)
            groups, posted = _groups(files, self._config.batch_files), {name.rsplit("-", 1)[-1] for name in self._order.posted}
            for at, (group, is_batch) in enumerate(groups):
                content = _content(group)
                if is_batch and content in posted:
                    state = replace(state, files=state.files | {file.name: file.mark for file in group})
                    continue
                staged_here, state = self._take(rows, group, state)
                if not is_batch:
                    staged = staged_here
                elif staged_here.files:
                    self._announce(BatchReady(name=self._name(content), output=output.index, files=staged_here.files, state=state.wire()))
                self._progress.report((at + 1) / len(groups), f"{self._counts.files} of {len(files)} files")
        after = state.finished(listed)
        changed = files or after != before
        return OperatorOutcome(
            outputs=[staged], state=after.wire() if changed else self._order.state, custom=self._custom(before, after, rows), summary=self._summary(rows)
        )

    def _take(self, rows: SourceRows, group: Sequence[SourceFile], state: _State) -> tuple[OutputStaged, _State]:
        """Stages the rows of some files, and returns the operator's state after them."""
        config = self._config
        taken = replace(state, files=state.files | {file.name: file.mark for file in group})
        self._counts.files += len(group)
        self._counts.bytes += sum(file.size for file in group)
        readable = rows.readable(group)
        if not readable:
            return self._nothing(), taken
        if not rows.schema.fields:  # JSON without any field: its invalid lines are still counted
            self._set_aside(replace(rows, schema=_NO_COLUMN, required={}), group)
            return self._nothing(), taken
        kind = cursor_type(config.cursor_column, rows.schema) if config.cursor_column else None
        staged, observed = self._staged(rows, readable, state, kind)
        if observed["replaced"] and (malformed := rows.not_utf8(readable)):
            # The rows are known only after these files are read byte by byte; files staged so far are not reported.
            rows = replace(rows, by_bytes=frozenset(file.uri for file in malformed))
            staged, observed = self._staged(rows, readable, state, kind)
        self._counts.rows_read += observed["rows"]
        self._counts.rows_taken += observed["taken"]
        for name, flag in rows.rounded.items():
            if observed[flag]:
                self._counts.rounded[name] = self._counts.rounded.get(name, 0) + observed[flag]
        if observed["continued"]:
            self._check_quotes(rows.frame(readable), group)
        if observed["bad"]:
            self._set_aside(rows, group)
        if kind and observed["reached"] is not None:
            most = max([observed["reached"], *(_number(known, kind) for known in (state.reached, state.cursor) if known is not None)])
            taken = replace(taken, reached=spell_cursor(cursor_of(most, kind)))
        return staged, replace(taken, schema=rows.schema.jsonValue()) if observed["taken"] else taken

    def _staged(self, rows: SourceRows, files: Sequence[SourceFile], state: _State, kind: CursorType | None) -> tuple[OutputStaged, dict[str, Any]]:
        """The valid new rows of some files, and the counts observed while writing."""
        frame, observation, cursor = rows.frame(files), Observation(), self._config.cursor_column
        good, reached = column(BAD).isNull(), F.lit(None).cast("bigint")
        if cursor and kind:
            reached = cursor_number(cursor, kind)
            good &= F.lit(True) if state.cursor is None else reached > F.lit(_number(state.cursor, kind))
        metrics = {
            "rows": F.count(F.lit(1)), "bad": F.count(column(BAD)), "taken": F.count_if(good), "reached": F.max(F.when(good, reached)),
            "continued": F.count_if(column(CONTINUED)), "replaced": F.count_if(column(REPLACED)),
            **{flag: F.count_if(good & column(flag)) for flag in rows.rounded.values()},
        }  # fmt: skip
        seen = frame.observe(observation, *[metric.alias(name) for name, metric in metrics.items()])
        staged = stage(seen.where(good).select(*[column(name) for name in rows.schema.fieldNames()]), self._order.outputs[0], self._progress)
        return staged, observation.get

    def _nothing(self) -> OutputStaged:
        output = self._order.outputs[0]
        return OutputStaged(index=output.index, files=[], scopes=list(output.scopes))

    def _check_quotes(self, frame: "DataFrame", group: Sequence[SourceFile]) -> None:
        """Spark reads an unclosed quote as a value over many lines; these lines would be lost silently."""
        files = _by_uri(group)
        continued = [files[plain_uri(unquote(row[FILE]))] for row in frame.where(column(CONTINUED)).select(FILE).distinct().collect()]
        found = open_quotes(self._spark, [file.uri for file in continued], self._config.delimiter)
        if found:
            shown, line = min((files[plain_uri(uri)].shown, line) for uri, line in found.items())
            message = f"{shown} has an unclosed quote in line {line}. Close it, or set `multiline: false` if no value continues on the next line."
            raise OperatorFailed("bad_records", message, custom=self._unchanged())

    def _set_aside(self, rows: SourceRows, group: Sequence[SourceFile]) -> None:
        """Counts records that do not fit, and stores them as text beside the data, or fails."""
        files = _by_uri(group)
        kept = rows.frame(rows.readable(group)).where(column(BAD).isNotNull()).persist()
        try:
            found = [(row[FILE], files[plain_uri(unquote(row[FILE]))].shown, row["count"]) for row in kept.groupBy(FILE).count().collect()]
            if not found:
                return
            self._counts.bad |= {shown: count for _, shown, count in found}
            total, most = sum(self._counts.bad.values()), self._config.max_bad_records
            if self._config.bad_records is BadRecords.FAIL or (most is not None and total > most):
                raise self._bad_records(total, self._findings(rows, files, kept))
            if len(self._counts.found) < _MOST_SHOWN:
                self._counts.found += self._findings(rows, files, kept)
            shown = F.broadcast(self._spark.createDataFrame([(uri, name) for uri, name, _ in found], f"{FILE} STRING, file STRING"))
            lines = kept.join(shown, FILE).select("file", column(BAD).alias("record"))
            lines.coalesce(1).write.mode("append").json(f"{self._order.outputs[0].staging.rstrip('/')}/_bad")
        finally:
            kept.unpersist()

    def _findings(self, rows: SourceRows, files: dict[str, SourceFile], kept: "DataFrame") -> list[Finding]:
        """Position and error of the first bad records."""
        some = [(files[plain_uri(unquote(row[FILE]))], row) for row in kept.orderBy(FILE, BAD).limit(_MOST_LOOKED_AT).collect()]
        explained = [(file, row) for file, row in some if row[REASON] is not None]
        texts: dict[tuple[str, str], str] = {}
        if explained and self._config.format is not FileFormat.PARQUET:
            # Values of a record that does not fit may look like those of a valid row.
            corrupt = kept.where(column(REASON).isNull()).select(FILE, column(BAD).alias(TEXT))
            found = rows.texts(list({file.uri: file for file, _ in explained}.values()), [row[BAD] for _, row in explained]).join(corrupt, [FILE, TEXT], "left_anti")
            texts = {(row[FILE], row[BAD]): row[TEXT] for row in found.groupBy(FILE, BAD).agg(F.min(TEXT).alias(TEXT)).collect()}
        records = [BadRecord(file.shown, file.uri, row[BAD] if row[REASON] is None else texts.get((row[FILE], row[BAD])), row[REASON]) for file, row in some]
        return explain(self._spark, rows, records)

    def _bad_records(self, total: int, found: Sequence[Finding]) -> OperatorFailed:
        first, *others = sorted(self._counts.bad)
        count = self._counts.bad[first]
        fits = f"{counted(count, 'record')} of {first} {plural(count, 'does', 'do')} not fit the schema"
        shown = dict.fromkeys(each.sentence for each in found if each.file == first)
        places = "".join(f"; {sentence}" for sentence in list(shown)[:_MOST_SHOWN])
        beside = f" {total - count:,} more in {counted(len(others), 'other file')}, first {others[0]}." if others else ""
        limit = "" if self._config.max_bad_records is None else f" At most {self._config.max_bad_records:,} may be set aside."
        message = f"{fits}{places}.{beside}{limit} Correct them, or continue without them: `bad_records: set_aside`, up to `max_bad_records`."
        return OperatorFailed("bad_records", message, custom=self._unchanged())

    def _unchanged(self) -> dict[str, Any]:
        """The counts of a failed attempt: nothing was ingested."""
        before = _State.of(self._order.state)
        return self._custom(before, before, None)

    def _name(self, content: str) -> str:
        """Names sort in the order of the batches: the state of the last batch is kept."""
        return f"files-{len(self._order.posted) + self._counts.batches + 1:06}-{content}"

    def _announce(self, batch: BatchReady) -> None:
        """Written atomically, like every file that the worker reads."""
        folder = Path(self._order.batches)
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".{batch.name}.draft"
        draft.write_text(batch.model_dump_json())
        draft.replace(folder / f"{batch.name}.json")
        self._counts.batches += 1
        self._progress.moment("batch_ready")

    def _custom(self, before: _State, after: _State, rows: SourceRows | None) -> dict[str, Any]:
        counts = self._counts
        custom: dict[str, Any] = {
            "rows_read": counts.rows_read, "rows_taken": counts.rows_taken, "files": counts.files, "bytes": counts.bytes, "batches": counts.batches,
            "cursor_before": before.cursor, "cursor_after": after.cursor,
        }
        found: dict[str, Any] = {"bad_records": counts.bad, "rounded": counts.rounded}
        if rows is not None:
            found |= {"columns_left_out": left_out(rows), "columns_missing": {name: len(files) for name, files in missing(rows).items()}}
        return custom | {name: value for name, value in found.items() if value}

    def _summary(self, rows: SourceRows | None) -> list[str]:
        """How much was read, and everything unexpected about the table for a person who knows only the files."""
        counts = self._counts
        sentences = [self._read(), *(_about_columns(rows) if rows is not None else [])]
        for name, count in list(counts.rounded.items())[:_MOST_NAMES]:
            sentences.append(f"Rounded {counted(count, 'value')} of {name} to fit its type.")
        bad = sum(counts.bad.values())
        if bad:
            sentences.append(f"Set aside {counted(bad, 'record')} of {counted(len(counts.bad), 'file')} that {plural(bad, 'does', 'do')} not fit the schema; the table does not have {plural(bad, 'it', 'them')}.")
            places = dict.fromkeys(f"{each.file}{',' if each.line else ':'} {each.sentence}." for each in counts.found)
            sentences += list(places)[:_MOST_SHOWN]
        if old := counts.rows_read - counts.rows_taken - bad:
            sentences.append(f"Skipped {counted(old, 'row')} at or before the cursor.")
        return sentences

    def _read(self) -> str:
        counts = self._counts
        if not counts.files:
            return "Found no new files."
        took = "the table is now empty" if self._replaces and not counts.rows_taken else f"took {counts.rows_taken:,}"
        return f"Read {counted(counts.files, 'file')}, {counted(counts.rows_read, 'row')}; {took}."


def _about_columns(rows: SourceRows) -> list[str]:
    sentences: list[str] = []
    if rows.inferred:
        types = [f"{field.name} {type_name(field.dataType)}" for field in rows.inferred]
        sentences.append(f"Inferred types: {_few(types, _MOST_TYPES)}; set `schema` to choose others.")
    if unused := left_out(rows):
        sentences.append(f"Ignored {counted(len(unused), 'column')} that the schema does not have: {_few(unused, _MOST_NAMES)}.")
    lacking = missing(rows)
    for name, files in list(lacking.items())[:_MOST_NAMES]:
        which = files[0] if len(files) == 1 else f"first {files[0]}"
        sentences.append(f"Column {name} is missing in {counted(len(files), 'file')} ({which}); its values are null.")
    if (more := len(lacking) - _MOST_NAMES) > 0:
        sentences.append(f"{counted(more, 'more column')} {plural(more, 'is', 'are')} missing in some files; {plural(more, 'its', 'their')} values are null.")
    return sentences


def _few(names: Sequence[str], most: int) -> str:
    return f"{', '.join(names[:most])}{'' if len(names) <= most else ', …'}"


def _groups(files: Sequence[SourceFile], size: int | None) -> list[tuple[Sequence[SourceFile], bool]]:
    """Full batches, each published when it is complete, and the rest, which is part of the outcome."""
    if size is None:
        return [(files, False)]
    return [(group := files[at:at + size], len(group) == size) for at in range(0, len(files), size)]


def _content(group: Sequence[SourceFile]) -> str:
    """The same unchanged files are the same batch in every attempt."""
    return hashlib.sha256(json.dumps([[file.name, *file.mark] for file in group]).encode()).hexdigest()[:32]


def _number(cursor: int | str, kind: CursorType) -> int:
    value = _CURSOR.validate_python(cursor)
    if not kind.fits(value):
        raise OperatorFailed("cursor_column_type", "The type of the cursor column differs from the cursor of earlier runs; use the same type, or deploy the DAG under a new name.")
    return number_of(value)


def _by_uri(files: Sequence[SourceFile]) -> dict[str, SourceFile]:
    return {plain_uri(file.uri): file for file in files}
