"""The operator `ingest_files`: takes the files below a path that are new or changed, and the rows in them that fit.

Its state is what it has taken: `files` by name with size and time of change, as long as they are there; the `cursor` behind which
rows count as new; while a run is not finished the one that it has `reached`; and the `schema` that was settled when rows were taken.
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
from tracelake_sdk.dags.spark_operators import BadRecords, IngestFilesConfig
from tracelake_sdk.datasets.cursors import CursorType
from tracelake_sdk.datasets.scopes import Cursor, spell_cursor
from tracelake_sdk.tasks.operator_files import BatchReady, OperatorOutcome, Order, OutputStaged
from tracelake_sdk.wording import counted, plural
from tracelake_spark.failures import OperatorFailed
from tracelake_spark.operators.bad_records import BadRecord, Finding, explain
from tracelake_spark.operators.open_quotes import open_quotes
from tracelake_spark.operators.source_files import SourceFile, find_files
from tracelake_spark.operators.source_rows import BAD, CONTINUED, FILE, REASON, SourceRows, left_out, source_rows
from tracelake_spark.progress import QUIET, Progress
from tracelake_spark.scoping import column, cursor_number, cursor_of, cursor_type, number_of
from tracelake_spark.staging import stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CURSOR: TypeAdapter[Any] = TypeAdapter(Cursor)
_MOST_LOOKED_AT = 20  # bad records of which the line is looked up
_MOST_SHOWN = 3
_MOST_NAMES = 5
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
        """At the end of a run. Files that are gone are forgotten, or the state would grow for ever; an empty folder may be one that is not mounted."""
        names = {file.name for file in listed}
        files = {name: mark for name, mark in self.files.items() if name in names} if names else self.files
        return replace(self, files=files, cursor=self.cursor if self.reached is None else self.reached, reached=None)


@dataclass
class _Counts:
    """What this attempt did, for `custom`."""

    rows_read: int = 0
    rows_taken: int = 0
    files: int = 0
    bytes: int = 0
    batches: int = 0
    bad: dict[str, int] = field(default_factory=dict)
    rounded: dict[str, int] = field(default_factory=dict)  # by column


def run(spark: "SparkSession", order: Order, progress: Progress = QUIET) -> OperatorOutcome:
    try:
        return _Ingest(spark, order, progress).run()
    except OperatorFailed as failed:
        return failed.outcome()
    except ValidationError:
        return OperatorFailed("config_invalid", "The config of the operator is not that of `ingest_files`.").outcome()


class _Ingest:
    """One attempt."""

    def __init__(self, spark: "SparkSession", order: Order, progress: Progress) -> None:
        self._spark, self._order, self._progress = spark, order, progress
        self._config = IngestFilesConfig.model_validate(order.config)
        self._anew = order.update_strategy == UpdateStrategy.REPLACE
        self._counts = _Counts()
        if len(order.outputs) != 1:
            raise OperatorFailed("ingest_outputs", "Files are ingested into one output.")
        if self._anew and (self._config.cursor_column or self._config.batch_files):
            raise OperatorFailed("config_invalid", "A job that replaces reads every file each time; `cursor_column` and `batch_files` are for jobs that append.")

    def run(self) -> OperatorOutcome:
        before = _State() if self._anew else _State.of(self._order.state)
        output = self._order.outputs[0]
        listed = find_files(self._spark, self._config.path, self._order.locations)
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
        """Stages the rows of some files, and says what the operator remembers once they are taken."""
        output, config = self._order.outputs[0], self._config
        taken = replace(state, files=state.files | {file.name: file.mark for file in group})
        self._counts.files += len(group)
        self._counts.bytes += sum(file.size for file in group)
        readable = rows.readable(group)
        if not readable:
            return self._nothing(), taken
        if not rows.schema.fields:  # JSON without a single field: its broken lines are counted all the same
            self._set_aside(replace(rows, schema=_NO_COLUMN, required={}), group)
            return self._nothing(), taken
        kind = cursor_type(config.cursor_column, rows.schema) if config.cursor_column else None
        frame, observation = rows.frame(readable), Observation()
        good, reached = column(BAD).isNull(), F.lit(None).cast("bigint")
        if config.cursor_column and kind:
            reached = cursor_number(config.cursor_column, kind)
            good &= F.lit(True) if state.cursor is None else reached > F.lit(_number(state.cursor, kind))
        metrics = {
            "rows": F.count(F.lit(1)), "bad": F.count(column(BAD)), "taken": F.count_if(good), "reached": F.max(F.when(good, reached)),
            "continued": F.count_if(column(CONTINUED)), **{flag: F.count_if(good & column(flag)) for flag in rows.rounded.values()},
        }  # fmt: skip
        seen = frame.observe(observation, *[metric.alias(name) for name, metric in metrics.items()])
        staged = stage(seen.where(good).select(*[column(name) for name in rows.schema.fieldNames()]), output, self._progress)
        observed = observation.get
        self._counts.rows_read += observed["rows"]
        self._counts.rows_taken += observed["taken"]
        for name, flag in rows.rounded.items():
            if observed[flag]:
                self._counts.rounded[name] = self._counts.rounded.get(name, 0) + observed[flag]
        if observed["continued"]:
            self._check_quotes(frame, group)
        if observed["bad"]:
            self._set_aside(rows, group)
        if kind and observed["reached"] is not None:
            most = max([observed["reached"], *(_number(known, kind) for known in (state.reached, state.cursor) if known is not None)])
            taken = replace(taken, reached=spell_cursor(cursor_of(most, kind)))
        return staged, replace(taken, schema=rows.schema.jsonValue()) if observed["taken"] else taken

    def _nothing(self) -> OutputStaged:
        output = self._order.outputs[0]
        return OutputStaged(index=output.index, files=[], scopes=list(output.scopes))

    def _check_quotes(self, frame: "DataFrame", group: Sequence[SourceFile]) -> None:
        """Spark takes a quote that is never closed for a value that goes on over lines; whatever lines it swallowed would be lost without a word."""
        files = _by_uri(group)
        continued = [files[_plain(unquote(row[FILE]))] for row in frame.where(column(CONTINUED)).select(FILE).distinct().collect()]
        found = open_quotes(self._spark, [file.uri for file in continued], self._config.delimiter)
        if found:
            shown, line = min((files[_plain(uri)].shown, line) for uri, line in found.items())
            message = f"{shown} has an unclosed quote in line {line}. Close it, or set `multiline: false` if no value continues on the next line."
            raise OperatorFailed("bad_records", message, custom=self._unchanged())

    def _set_aside(self, rows: SourceRows, group: Sequence[SourceFile]) -> None:
        """Counts what does not fit, and keeps it as text beside the data or fails."""
        files = _by_uri(group)
        kept = rows.frame(rows.readable(group)).where(column(BAD).isNotNull()).persist()
        try:
            found = [(row[FILE], files[_plain(unquote(row[FILE]))].shown, row["count"]) for row in kept.groupBy(FILE).count().collect()]
            if not found:
                return
            self._counts.bad |= {shown: count for _, shown, count in found}
            total, most = sum(self._counts.bad.values()), self._config.max_bad_records
            if self._config.bad_records is BadRecords.FAIL or (most is not None and total > most):
                some = [(files[_plain(unquote(row[FILE]))], row) for row in kept.orderBy(FILE, BAD).limit(_MOST_LOOKED_AT).collect()]
                records = [BadRecord(file.shown, file.uri, row[BAD], row[REASON]) for file, row in some]
                raise self._bad_records(total, explain(self._spark, rows, records))
            shown = F.broadcast(self._spark.createDataFrame([(uri, name) for uri, name, _ in found], f"{FILE} STRING, file STRING"))
            lines = kept.join(shown, FILE).select("file", column(BAD).alias("record"))
            lines.coalesce(1).write.mode("append").json(f"{self._order.outputs[0].staging.rstrip('/')}/_bad")
        finally:
            kept.unpersist()

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
        """What is noted with a failure: nothing was taken."""
        before = _State.of(self._order.state)
        return self._custom(before, before, None)

    def _name(self, content: str) -> str:
        """Names sort in the order of the batches: the one that is posted last leaves the state."""
        return f"files-{len(self._order.posted) + self._counts.batches + 1:06}-{content}"

    def _announce(self, batch: BatchReady) -> None:
        """Whole or absent, as everything that the wrapper finds."""
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
        found = {"bad_records": counts.bad, "columns_left_out": left_out(rows) if rows is not None else [], "rounded": counts.rounded}
        return custom | {name: value for name, value in found.items() if value}

    def _summary(self, rows: SourceRows | None) -> list[str]:
        """What a person who only knows the files would not expect in the table."""
        counts, said = self._counts, list[str]()
        unused = left_out(rows) if rows is not None else []
        if unused:
            said.append(f"Ignored {counted(len(unused), 'column')} that the schema does not have: {', '.join(unused[:_MOST_NAMES])}{'' if len(unused) <= _MOST_NAMES else ', …'}.")
        for name, count in list(counts.rounded.items())[:_MOST_NAMES]:
            said.append(f"Rounded {counted(count, 'value')} of {name} to fit its type.")
        bad = sum(counts.bad.values())
        if bad:
            said.append(f"Set aside {counted(bad, 'record')} of {counted(len(counts.bad), 'file')} that {plural(bad, 'does', 'do')} not fit the schema.")
        if old := counts.rows_read - counts.rows_taken - bad:
            said.append(f"Skipped {counted(old, 'row')} at or before the cursor.")
        return said


def _groups(files: Sequence[SourceFile], size: int | None) -> list[tuple[Sequence[SourceFile], bool]]:
    """Full batches, each published when it is done, and the rest that goes with the outcome."""
    if size is None:
        return [(files, False)]
    return [(group := files[at:at + size], len(group) == size) for at in range(0, len(files), size)]


def _content(group: Sequence[SourceFile]) -> str:
    """The same files, as they are, are the same batch in every attempt."""
    return hashlib.sha256(json.dumps([[file.name, *file.mark] for file in group]).encode()).hexdigest()[:32]


def _number(cursor: int | str, kind: CursorType) -> int:
    value = _CURSOR.validate_python(cursor)
    if not kind.fits(value):
        raise OperatorFailed("cursor_column_type", "The cursor column has another type than the cursor of earlier runs.")
    return number_of(value)


def _by_uri(files: Sequence[SourceFile]) -> dict[str, SourceFile]:
    return {_plain(file.uri): file for file in files}


def _plain(uri: str) -> str:
    return "file:/" + uri.removeprefix("file:").lstrip("/") if uri.startswith("file:") else uri
