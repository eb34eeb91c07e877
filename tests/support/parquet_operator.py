"""An operator program that writes Parquet without Spark: what it writes, waits for and dies of is a JSON object.

Run by a worker whose settings say `worker.commands: {ingest_files: COMMAND, sql: COMMAND}`. The object is the file that `path` of an
`ingest_files` config names, or the `query` of a `sql` config itself, with what the request carries on top. Its keys, all optional:

    columns: ["id", "value"]         names of the columns
    types: {"value": "float64"}      pyarrow types of columns whose rows do not tell
    rows: [[1, "a"], …]              or {"from": 1, "to": 10, "value": "a"}: one row for each number of `[from, to)`
    copy: 0                          the rows of that input instead, those of its scopes alone
    add: {"note": "x"}               further columns, the same value in every row
    outputs: {"1": {…}}              another object for each output; without it everything is for output 0
    files: 3                         into how many files the rows of a scope go
    leftover: true                   one more file that nothing names
    batches: 2                       the rows are posted in so many batches while the task runs, and nothing is left for its end
    state: {…}                       the operator's new state
    custom: {…}
    touch: "/path"                   a file that is made at the start
    wait_for: "/path"                goes on when this file is there
    wait_before_outcome: "/path"     the same, with all files written
    fail: "sentence"                 its outcome is this error; `retry: false` makes it final
    outcome: "text"                  its outcome is this text, whatever it is; null: none at all
    exit: 3                          its exit code
    say: "text"                      said on stdout and stderr
    dump_environment: "/path"
    die_at: "half_the_files"         SIGKILL: operator_start, half_the_files (one of them half written), all_files, batch_ready
    die_mark: "/path"                dies only if it could make this file: once
    by_attempt: {"1": {…}}           on top of all this in that attempt
    by_run: {"0": {…}, "1": {…}}     the same in the run that comes after so many successful ones, which its state counts

The variable TRACELAKE__CHAOS__KILL_AT names a moment to die at, too.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from tracelake_sdk.dags import PartitionSpec
from tracelake_sdk.dags.locations import LocationPath, local_folder
from tracelake_sdk.datasets.cursors import CursorType
from tracelake_sdk.datasets.scopes import CursorScope, FullScope, PartitionScope, RangeScope, Scope, folder_of
from tracelake_sdk.tasks import OperatorError
from tracelake_sdk.tasks.operator_files import BatchReady, OperatorOutcome, Order, OrderInput, OrderOutput, OutputStaged

COMMAND = [sys.executable, str(Path(__file__).resolve())]
LONGEST = 300.0

Spec = dict[str, Any]


def spec_of(order: Order) -> Spec:
    text = source_of(order).read_text() if order.operator == "ingest_files" else order.config["query"]
    spec: Spec = json.loads(text) | order.trigger_payload
    if "by_run" in spec:
        runs = (order.state or {}).get("runs", 0)
        spec = spec | spec["by_run"].get(str(runs), {}) | {"state": {"runs": runs + 1}}
    return spec | spec.get("by_attempt", {}).get(str(order.attempt), {})


class Moments:
    """A moment at which it may be killed."""

    def __init__(self, spec: Spec) -> None:
        self._die_at: str | None = spec.get("die_at")
        self._mark: str | None = spec.get("die_mark")
        self._always: str = os.environ.get("TRACELAKE__CHAOS__KILL_AT", "")

    def reached(self, moment: str) -> None:
        if moment == self._always or (moment == self._die_at and self._first_time()):
            os.kill(os.getpid(), signal.SIGKILL)

    def _first_time(self) -> bool:
        if self._mark is None:
            return True
        try:
            Path(self._mark).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def source_of(order: Order) -> Path:
    """The file that the config names, below its location."""
    asked = LocationPath.parse(order.config["path"])
    return Path(str(local_folder(order.locations[asked.location]))) / asked.below


def wait_for(path: str | None) -> None:
    deadline = time.monotonic() + LONGEST
    while path and not Path(path).exists():
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.01)


def table_of(spec: Spec, order: Order) -> pa.Table:
    if "copy" in spec:
        table = _copied(next(given for given in order.inputs if given.index == spec["copy"]))
    else:
        columns = spec.get("columns", ["id", "value"])
        rows = spec.get("rows", [])
        if isinstance(rows, dict):
            rows = [[number, *[rows.get("value")] * (len(columns) - 1)] for number in range(rows["from"], rows["to"])]
        types = spec.get("types", {})
        arrays = [pa.array([row[at] for row in rows], getattr(pa, types[name])() if name in types else None) for at, name in enumerate(columns)]
        arrays = [array.cast(pa.string()) if pa.types.is_null(array.type) else array for array in arrays]
        table = pa.table(dict(zip(columns, arrays, strict=True)))
    for name, value in spec.get("add", {}).items():
        table = table.append_column(name, pa.array([value] * table.num_rows))
    return table


def _copied(given: OrderInput) -> pa.Table:
    tables = [pq.read_table(where[1], filesystem=where[0]) for where in map(place_of, given.files)]
    if not tables:
        return pa.table({field["name"]: pa.array([], pa.string()) for field in given.table_schema["fields"]})
    table = pa.concat_tables(tables, promote_options="default")
    if given.scopes is None or given.partition_by is None:
        return table
    kept = [any(_holds(scope, value) for scope in given.scopes) for value in table[given.partition_by.column].to_pylist()]
    return table.filter(pa.array(kept, pa.bool_()))


def _holds(scope: Scope, value: Any) -> bool:
    match scope:
        case FullScope():
            return True
        case PartitionScope(key=key):
            return key == str(value)
        case CursorScope(value=cursor):
            return cursor == value
        case RangeScope(start=start, end=end):
            return start <= value < end


def scope_of(value: Any, output: OrderOutput, cut: PartitionSpec) -> Scope:
    """Where a row belongs; one that belongs nowhere goes to the first announced scope, as a bad operator would have it."""
    for scope in output.scopes:
        if _holds(scope, value):
            return scope
    if not output.everything and output.scopes:
        return output.scopes[0]
    if cut.cursor is None:
        return PartitionScope(key=str(value))
    if cut.range_size is None or cut.origin is None:
        return CursorScope(value=value)
    start = cut.origin + (value - cut.origin) // cut.range_size * cut.range_size
    return RangeScope(start=start, end=start + cut.range_size)


def in_scopes(table: pa.Table, output: OrderOutput) -> list[tuple[Scope, pa.Table]]:
    if output.partition_by is None:
        return [(output.scopes[0] if output.scopes else FullScope(), table)] if table.num_rows else []
    values = table[output.partition_by.column]
    if output.partition_by.cursor is CursorType.TIMESTAMP:
        values = pc.cast(values, pa.timestamp("us", "UTC"))
    rows: dict[str, tuple[Scope, list[int]]] = {}
    for at, value in enumerate(values.to_pylist()):
        scope = scope_of(value, output, output.partition_by)
        rows.setdefault(str(scope), (scope, []))[1].append(at)
    return [(scope, table.take(places)) for scope, places in rows.values()]


def place_of(uri: str) -> tuple[fs.FileSystem, str]:
    parts = urlsplit(uri)
    if parts.scheme == "file":
        return fs.LocalFileSystem(), unquote(parts.path)
    endpoint = urlsplit(os.environ["AWS_ENDPOINT_URL"])
    return fs.S3FileSystem(endpoint_override=endpoint.netloc, scheme=endpoint.scheme, region=os.environ["AWS_REGION"]), f"{parts.netloc}{unquote(parts.path)}"


class Writer:
    """Writes files below the staging folders and remembers them."""

    def __init__(self, moments: Moments, total: int) -> None:
        self._moments, self._total, self._written = moments, total, 0

    def write(self, staging: str, name: str, table: pa.Table) -> None:
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        body = sink.getvalue().to_pybytes()
        system, path = place_of(f"{staging}/{name}")
        if isinstance(system, fs.LocalFileSystem):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        with system.open_output_stream(path) as file:
            file.write(body[: len(body) // 2])
            if self._written == self._total // 2:
                file.flush()
                self._moments.reached("half_the_files")
            file.write(body[len(body) // 2 :])
        self._written += 1
        if self._written == self._total:
            self._moments.reached("all_files")


def pieces(table: pa.Table, number: int) -> list[pa.Table]:
    size = -(-table.num_rows // number) if table.num_rows else 1
    return [table.slice(start, size) for start in range(0, table.num_rows, size)]


def stage(order: Order, specs: dict[int, Spec], moments: Moments) -> list[OutputStaged]:
    """The outputs whole, at the task's end."""
    planned: list[tuple[OrderOutput, str, pa.Table]] = []
    staged: list[OutputStaged] = []
    for output in order.outputs:
        spec = specs.get(output.index)
        if spec is None:
            continue
        files, scopes = [], [] if order.update_strategy == "append" else list(output.scopes)
        for scope, table in in_scopes(table_of(spec, order), output):
            named = [f"{folder_of(scope)}/part-{number:05}.parquet" for number in range(spec.get("files", 1))]
            done = list(zip(named, pieces(table, len(named)), strict=False))
            planned += [(output, name, piece) for name, piece in done]
            files += [name for name, _ in done]
            scopes += [] if scope in scopes else [scope]
        staged.append(OutputStaged(index=output.index, files=files, scopes=scopes))
        if spec.get("leftover"):
            planned.append((output, "full/left-over.parquet", pa.table({"id": [0]})))
    writer = Writer(moments, len(planned))
    for output, name, table in planned:
        writer.write(output.staging, name, table)
    return staged


def post(order: Order, spec: Spec, moments: Moments) -> None:
    """The rows in batches, while the task runs."""
    [output] = order.outputs
    number = spec["batches"]
    for at, part in enumerate(pieces(table_of(spec, order), number), start=1):
        name = f"batch-{at:04}"
        if name in order.posted:
            continue
        writer, files = Writer(moments, 0), []
        for scope, table in in_scopes(part, output):
            files.append(f"{folder_of(scope)}/{name}.parquet")
            writer.write(output.staging, files[-1], table)
        rename_into(Path(order.batches) / f"{name}.json", BatchReady(name=name, output=output.index, files=files, state={"batch": at}).model_dump_json())
        moments.reached("batch_ready")
        wait_for(spec.get("wait_between_batches"))


def rename_into(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}")
    beside.write_text(text)
    beside.rename(path)


def work(order: Order, spec: Spec) -> OperatorOutcome:
    moments = Moments(spec)
    moments.reached("operator_start")
    wait_for(spec.get("wait_for"))
    if "fail" in spec:
        return OperatorOutcome(error=OperatorError(error_class="told_to_fail", message=spec["fail"], retry=spec.get("retry", True)))
    specs = {int(index): inner for index, inner in spec.get("outputs", {"0": spec}).items()}
    staged: list[OutputStaged] = []
    if spec.get("batches"):
        post(order, spec, moments)
        staged = [OutputStaged(index=output.index, files=[], scopes=list(output.scopes)) for output in order.outputs]
    else:
        staged = stage(order, specs, moments)
    wait_for(spec.get("wait_before_outcome"))
    return OperatorOutcome(outputs=staged, state=spec.get("state"), custom=spec.get("custom", {}))


def main(path: str) -> int:
    order = Order.model_validate_json(Path(path).read_text())
    spec = spec_of(order)
    if "say" in spec:
        print(spec["say"], flush=True)
        print(spec["say"], file=sys.stderr, flush=True)
    if "dump_environment" in spec:
        Path(spec["dump_environment"]).write_text(json.dumps({"environment": dict(os.environ), "order": Path(path).read_text()}))
    if "touch" in spec:
        Path(spec["touch"]).touch()
    outcome = work(order, spec).model_dump_json()
    if spec.get("outcome", outcome) is not None:
        rename_into(Path(order.outcome), spec.get("outcome", outcome))
    return spec.get("exit", 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
