"""Every type's extreme values through the whole line: staged, measured, judged, committed, recorded, emitted, queried, and read by Delta readers.

Files are written by pyarrow; everything behind them is the real thing, with JSON and HTTP in between as between the processes.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from support.controls import failed, fresh_claim_id
from support.databases import fresh_database
from support.queries import QueryLake, query_lake

from tracelake.chaos import watch_for
from tracelake.control.emission.checking import check
from tracelake.control.emission.facts import Place
from tracelake.control.emission.service import Emission
from tracelake.control.emission.storing import into_repositories
from tracelake.embedded.postgres import EmbeddedPostgres
from tracelake.worker.control_client import ControlClient
from tracelake.worker.measurement import Measurement
from tracelake.worker.measuring.contract import Limits, MeasureOrder, MeasureResult, OutputToMeasure
from tracelake.worker.measuring.process import answer
from tracelake_sdk.errors import TracelakeError
from tracelake_sdk.home import HomeFiles
from tracelake_sdk.measurements import OutputMeasured
from tracelake_sdk.operating import OperatorOutcome, OutputStaged
from tracelake_sdk.scopes import FullScope
from tracelake_sdk.tasks import ClaimedTask, ClaimRequest, CompleteRequest, Completion, CompletionAnswer, Outcome

pytestmark = [pytest.mark.xdist_group("readers"), pytest.mark.proves("G3.3", "T2.4")]

DEFINITION = """
name: {name}
defaults: {{domain: test, owner: test, max_attempts: {max_attempts}}}
jobs:
  - name: load
    activation: source
    source: {{kind: manual}}
    runtime: spark
    operator: ingest_files
    config: {{path: /nowhere, format: csv}}
    outputs: [{{layer: bronze, description: Rows as they came}}]
    update_strategy: append
    unique_key: [k]
publish:
  {name}_raw: {{job: load, output_index: 0}}
"""
PLACE = Place("embedded", "main")
NINES, MINUS_NINES = Decimal("9" * 38), Decimal("-" + "9" * 38)  # written out: arithmetic would round them
LONG = "z" * 100_000


@dataclass(frozen=True)
class Case:
    name: str
    type: Any
    values: tuple[Any, ...]
    keys: bool = True  # whether a unique key may have this type


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
    Case("yes", pa.bool_(), (True, False)),
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


@pytest.fixture(scope="module")
def lake(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryLake]:
    with fresh_database(postgres) as database, query_lake(database, tmp_path_factory.mktemp("extremes")) as running:
        yield running


class Line:
    """One job of one case, worked on as a worker does."""

    def __init__(self, lake: QueryLake, case: Case) -> None:
        self.lake, self.name = lake, f"case_{case.name}"
        self.dataset = f"{self.name}_raw"
        self._control = ControlClient(lake.api_url, HomeFiles(lake.control.settings.home).worker_token() or "")
        lake.deploy(DEFINITION, name=self.name)

    def claim(self) -> ClaimedTask:
        self.lake.run("load", self.name)
        [task] = self._control.claim(ClaimRequest(worker="w1", claim_id=fresh_claim_id(), runtime="spark", room={"default": 1}, wait_s=0)).claimed
        return task

    def complete(self, report: Completion) -> CompletionAnswer:
        [answered] = self._control.complete(CompleteRequest(items=[report])).results
        self._control.close()
        return answered

    def load(self, table: pa.Table) -> CompletionAnswer:
        """Two files, so that bounds of one are compared with those of the other."""
        task = self.claim()
        [output] = [output.staged for output in task.payload.outputs if output.staged]
        names = [f"full/part-{number}.parquet" for number in range(2)]
        half = -(-table.num_rows // 2)
        for name, part in zip(names, (table.slice(0, half), table.slice(half)), strict=True):
            file = self.lake.root / output.staging / name
            file.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(part, file)
        outcome = OperatorOutcome(outputs=[OutputStaged(index=0, files=names, scopes=[FullScope()])], state={"loaded": str(uuid4())})
        measured = Measurement.of_outcome(task.payload, outcome).done(self._measure).outputs
        answered = self.complete(
            Completion(fence=task.fence, outcome=Outcome.SUCCEEDED, base=task.payload.base, outputs=measured, state=outcome.state, custom=outcome.custom)
        )
        self.lake.move()
        return answered

    def _measure(self, outputs: list[OutputToMeasure]) -> list[OutputMeasured]:
        scratch = self.lake.control.settings.home / "scratch"
        scratch.mkdir(exist_ok=True)
        order = MeasureOrder(id="1", storage={"url": self.lake.root.resolve().as_uri()}, scratch=str(scratch), outputs=outputs, limits=Limits(threads=1, memory="300MB"))
        told = answer(order.model_dump_json().encode() + b"\n", watch_for(None)).model_dump_json()
        result = MeasureResult.model_validate_json(told)
        assert result.refusal is None, result.refusal
        return result.outputs


def table_of(case: Case, *, must: str | None = "there") -> pa.Table:
    """Keys are extreme where the type may be a key; values are extreme and null."""
    rows = len(case.values)
    values = [None, *case.values][:rows] if case.keys else case.values
    return pa.table({
        "k": pa.array(case.values, case.type) if case.keys else pa.array(range(rows), pa.int64()),
        "v": pa.array(values, case.type),
        "n": pa.array(range(rows), pa.int64()),
        "must": pa.array([must] * rows, pa.string()),
    })  # fmt: skip


def canonical(table: pa.Table) -> list[str]:
    """Rows as text: NaN is like NaN, and -0.0 is not like 0.0. Maps and lists of pairs are the same."""
    return sorted(repr([dict(value) if name == "v" and isinstance(value, list) and value and isinstance(value[0], tuple) else value for name, value in row.items()])
                  for row in table.select(["k", "v", "n", "must"]).to_pylist())  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_extreme_values_pass_the_whole_line_unchanged(lake: QueryLake, case: Case):
    line, written = Line(lake, case), table_of(case)
    assert line.load(written).result == "committing"
    assert line.load(written).result == "unchanged"  # every key is there already: the same rows add nothing
    location = lake.location(line.dataset)
    assert canonical(DeltaTable(str(location)).to_pyarrow_table().cast(written.schema)) == canonical(written)
    asked = lake.client().query_bytes(f'SELECT k, v, n, must FROM "{line.dataset}"', "arrow").body
    with pa.ipc.open_stream(asked) as stream:
        assert canonical(stream.read_all().cast(written.schema)) == canonical(written)
    assert len(list(lake.client().query(f'SELECT * FROM "{line.dataset}"'))) == written.num_rows  # as JSON


@pytest.mark.parametrize("case", [case for case in CASES if case.keys], ids=lambda case: case.name)
def test_a_rule_that_extreme_rows_break_blocks_and_shows_their_keys(lake: QueryLake, case: Case):
    line = Line(lake, Case(f"{case.name}_blocked", case.type, case.values))
    rule = lake.client().add_rule(line.dataset, "NOT_NULL", "must")
    assert line.load(table_of(case, must=None)).result == "blocked"
    [(samples,)] = lake.query("SELECT samples FROM quality_result WHERE rule_id = %s", rule.id)
    assert samples and all(sample.startswith("k=") and "\0" not in sample for sample in samples)


def test_every_run_and_decision_of_them_is_a_record(lake: QueryLake):
    keeping = lake.control.keeping
    emission = Emission(lake.control.database, into_repositories(keeping.repository_of), PLACE)
    while emission.run_once():
        pass
    found = check(lake.control.database, keeping.repository_of, PLACE)
    assert found.whole, found


@pytest.mark.parametrize("message", ["a\0b", "half \ud800 a pair", "m" * 3_000_000], ids=["nul", "surrogate", "megabytes"])
def test_whatever_an_operator_says_of_its_failure_is_bounded_and_readable(lake: QueryLake, message: str):
    line = Line(lake, Case(f"failing_{len(message)}", pa.int64(), (1,)))
    task = line.claim()
    report = failed(task, retry=False)
    error = type(report.error).model_validate({"error_class": "odd\0class", "message": message, "retry": False})  # pyright: ignore[reportOptionalMemberAccess]
    assert line.complete(report.model_copy(update={"error": error})).result == "done"
    [(kind, said)] = lake.query("SELECT error_class, error_message FROM task_attempt WHERE task_id = %s", task.fence.task_id)
    assert kind == "odd\N{REPLACEMENT CHARACTER}class"
    assert len(said) <= 2000 and said.startswith(message[0]) and "\0" not in said


def test_text_that_postgres_cannot_hold_is_refused_in_a_sentence_and_never_a_500(lake: QueryLake):
    lake.deploy(DEFINITION, name="refusing")
    with pytest.raises(TracelakeError) as refused:
        lake.client().run("refusing", "load", {"path": "a\0b"})
    assert refused.value.status in (400, 422) and "NUL" in refused.value.detail
