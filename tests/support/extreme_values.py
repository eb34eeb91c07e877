"""Every type's extreme values, and the line that they go through: staged, measured, judged, committed, and asked for again.

Everything behind the staged files is the real thing, with JSON and HTTP in between as between the processes.
"""

import math
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from support.controls import fresh_claim_id
from support.databases import fresh_database
from support.queries import QueryLake, query_lake
from tracelake.chaos import watch_for
from tracelake.control_client import ControlClient
from tracelake.embedded.postgres import EmbeddedPostgres
from tracelake.worker.measuring.contract import Limits, MeasureOrder, MeasureResult, OutputToMeasure
from tracelake.worker.measuring.process import answer
from tracelake.worker.spark.measurement import Measurement
from tracelake.worker.task_client import TaskClient
from tracelake_sdk.client import Client
from tracelake_sdk.datasets.measurements import OutputMeasured
from tracelake_sdk.datasets.scopes import FullScope
from tracelake_sdk.home import HomeFiles
from tracelake_sdk.tasks import ClaimedTask, ClaimRequest, CompleteRequest, Completion, CompletionAnswer, Outcome
from tracelake_sdk.tasks.operator_files import OperatorOutcome, OutputStaged

DEFINITION = """
name: {name}
defaults: {{domain: test, owner: test, max_attempts: {max_attempts}}}
jobs:
  - name: load
    activation: source
    source: {{kind: manual}}
    runtime: spark
    operator: ingest_files
    config: {{path: nowhere/files, format: csv}}
    outputs: [{{layer: bronze, description: Rows as they came}}]
    update_strategy: append
    unique_key: [k]
publish:
  {name}_raw: {{job: load, output_index: 0}}
"""
NINES, MINUS_NINES = Decimal("9" * 38), Decimal("-" + "9" * 38)  # written out: arithmetic would round them
LONG = "z" * 100_000


@dataclass(frozen=True)
class Case:
    name: str
    type: Any
    values: tuple[Any, ...]
    keys: bool = True  # whether a unique key may have this type

    def table(self, *, must: str | None = "there") -> pa.Table:
        """Keys are extreme where the type may be a key; values are extreme, and one is null."""
        rows = len(self.values)
        return pa.table({
            "k": pa.array(self.values, self.type) if self.keys else pa.array(range(rows), pa.int64()),
            "v": pa.array([None, *self.values][:rows] if self.keys else self.values, self.type),
            "n": pa.array(range(rows), pa.int64()),
            "must": pa.array([must] * rows, pa.string()),
        })  # fmt: skip


CASES = [
    Case("tiny", pa.int8(), (-128, -1, 0, 127)),
    Case("small", pa.int16(), (-32768, 0, 32767)),
    Case("whole", pa.int32(), (-(2**31), 0, 2**31 - 1)),
    Case("big", pa.int64(), (-(2**63), -(2**53) - 1, 0, 2**53 + 1, 2**63 - 1)),
    Case("single", pa.float32(), (-0.0, 3.4028234663852886e38, 1.401298464324817e-45, math.nan, math.inf, -math.inf)),
    Case("double", pa.float64(), (-0.0, 1.7976931348623157e308, 5e-324, 0.1, math.nan, math.inf, -math.inf)),
    Case("account", pa.decimal128(38, 0), (MINUS_NINES, Decimal(2**63), Decimal(-(2**63) - 1), Decimal(2**64), Decimal(0), NINES)),
    Case("fraction", pa.decimal128(38, 38), (Decimal("0." + "9" * 38), Decimal("-0." + "9" * 38), Decimal("1E-38"), Decimal(0))),
    Case("price", pa.decimal128(10, 2), (Decimal("-99999999.99"), Decimal("0.00"), Decimal("99999999.99"))),
    Case("text", pa.string(), ("", "\0", "a\0b", "\x01\x1f\x7f", "\ufffe\uffff", "🎈\U0010ffff", "e\u0301", '"\\\n\t\r', "null", LONG)),
    Case("truth", pa.bool_(), (True, False)),
    Case("day", pa.date32(), (date(1, 1, 1), date(1582, 10, 14), date(1969, 12, 31), date(9999, 12, 31))),
    Case("at", pa.timestamp("us", "UTC"), (
        datetime(1, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    )),
    Case("bytes", pa.binary(), (b"", b"\0", b"\xff\xfe", b"\0" * 1000), keys=False),
    Case("tags", pa.list_(pa.string()), ([], ["a\0b", None, ""], [LONG]), keys=False),
    Case("counts", pa.map_(pa.string(), pa.decimal128(38, 0)), ([], [("\0", NINES)], [("a", None)]), keys=False),
    Case("person", pa.struct([("name", pa.string()), ("born", pa.date32()), ("wei", pa.decimal128(38, 0)), ("more", pa.list_(pa.struct([("x", pa.float64())])))]), (
        {"name": "\0", "born": date(1, 1, 1), "wei": MINUS_NINES, "more": [{"x": math.nan}, None]}, {"name": None, "born": None, "wei": None, "more": []},
    ), keys=False),
]  # fmt: skip


def in_two_files(table: pa.Table) -> Callable[[Path], OutputStaged]:
    """Writes it by pyarrow, in two files, so that bounds of one are compared with those of the other."""

    def stage(folder: Path) -> OutputStaged:
        half = -(-table.num_rows // 2)
        names = [f"full/part-{number}.parquet" for number in range(2)]
        (folder / "full").mkdir(parents=True)
        for name, part in zip(names, (table.slice(0, half), table.slice(half)), strict=True):
            pq.write_table(part, folder / name)
        return OutputStaged(index=0, files=names, scopes=[FullScope()])

    return stage


def canonical(table: pa.Table) -> list[str]:
    """Rows as text: NaN is like NaN, and -0.0 is not like 0.0."""
    return sorted(repr(row) for row in table.to_pylist())


class ExtremeLake:
    """A lake whose tasks are worked on over HTTP, as a worker does."""

    def __init__(self, lake: QueryLake, client: Client, control: TaskClient) -> None:
        self.lake, self.client, self._control = lake, client, control

    def claim(self, name: str) -> ClaimedTask:
        self.lake.run("load", name)
        [task] = self._control.claim(ClaimRequest(worker="w1", claim_id=fresh_claim_id(), runtime="spark", room={"default": 1}, wait_s=0)).claimed
        return task

    def complete(self, report: Completion) -> CompletionAnswer:
        [answered] = self._control.complete(CompleteRequest(items=[report])).results
        return answered

    def load(self, name: str, stage: Callable[[Path], OutputStaged]) -> CompletionAnswer:
        task = self.claim(name)
        [output] = [output.staged for output in task.payload.outputs if output.staged]
        outcome = OperatorOutcome(outputs=[stage(self.lake.root / output.staging)], state={"loaded": str(uuid4())})
        measured = Measurement.of_outcome(task.payload, outcome).done(self._measure).outputs
        answered = self.complete(Completion(fence=task.fence, outcome=Outcome.SUCCEEDED, base=task.payload.base, outputs=measured, state=outcome.state))
        self.lake.move()
        return answered

    def _measure(self, outputs: list[OutputToMeasure]) -> list[OutputMeasured]:
        scratch = self.lake.control.settings.home / "scratch"
        scratch.mkdir(exist_ok=True)
        order = MeasureOrder(id="1", storage={"url": self.lake.root.resolve().as_uri()}, scratch=str(scratch), outputs=outputs, limits=Limits(threads=1, memory="300MB"))
        result_line = answer(order.model_dump_json().encode() + b"\n", watch_for(None)).model_dump_json()
        result = MeasureResult.model_validate_json(result_line)
        assert result.refusal is None, result.refusal
        return result.outputs

    def delta_table(self, dataset: str) -> DeltaTable:
        return DeltaTable(str(self.lake.location(dataset)))

    def bounds(self, dataset: str, column: str) -> Iterator[tuple[Any, Any, list[Any]]]:
        """For each file whose log entry bounds the column: the least, the greatest, and what the file holds."""
        table = self.delta_table(dataset)
        for file in pa.table(table.get_add_actions(flatten=True)).to_pylist():
            least, most = file.get(f"min.{column}"), file.get(f"max.{column}")
            if least is not None and most is not None:
                yield least, most, pq.read_table(self.lake.location(dataset) / file["path"], columns=[column]).column(column).to_pylist()

    def asked(self, dataset: str) -> pa.Table:
        """What a query answers, as Arrow."""
        with pa.ipc.open_stream(self.client.queries.bytes(f'SELECT * FROM "{dataset}"', "arrow").body) as stream:
            return stream.read_all()

    def assert_holds(self, dataset: str, written: pa.Table) -> None:
        """To readers of Delta, to queries in Arrow, and to queries in JSON."""
        for found in (self.delta_table(dataset).to_pyarrow_table(), self.asked(dataset)):
            assert canonical(found.select(written.column_names).cast(written.schema)) == canonical(written)
        assert len(list(self.client.query(f'SELECT * FROM "{dataset}"'))) == written.num_rows


@contextmanager
def extreme_lake(postgres: EmbeddedPostgres, folder: Path) -> Generator[ExtremeLake]:
    with (
        fresh_database(postgres) as database,
        query_lake(database, folder) as lake,
        lake.client() as client,
        closing(TaskClient(ControlClient(lake.api_url, HomeFiles(lake.control.settings.home).worker_token() or ""))) as control,
    ):
        yield ExtremeLake(lake, client, control)
