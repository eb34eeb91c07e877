"""A table on local files and an attempt's folder in it: what measuring finds, without a process."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from tracelake.worker.measuring.contract import Limits, MeasureOrder, MeasureResult, OutputToMeasure
from tracelake.worker.measuring.measure import measure
from tracelake_sdk.dags import PartitionSpec
from tracelake_sdk.datasets.measurements import OutputMeasured, StagedFile, TableFile
from tracelake_sdk.datasets.scopes import FullScope, Scope, folder_of
from tracelake_sdk.rules import RuleScope, RuleToMeasure, RuleTree, TableRuleState
from tracelake_sdk.tasks import MovedOutput, StagedOutput

LOCATION = "org/o/dataset/d/version/v"


def rule(tree: RuleTree, number: int = 1, scope: RuleScope = RuleScope.BATCH) -> RuleToMeasure:
    return RuleToMeasure(id=UUID(int=number), revision=1, scope=scope, tree=tree)


@dataclass
class Bench:
    folder: Path
    unique_key: list[str] = field(default_factory=list)
    update_strategy: str = "replace"
    partition_by: PartitionSpec | None = None
    attempts: "count[int]" = field(default_factory=lambda: count(1))

    @property
    def root(self) -> Path:
        return self.folder / "lake"

    @property
    def table(self) -> Path:
        return self.root / LOCATION

    def attempt(self) -> str:
        return f"task-{next(self.attempts)}"

    def write(self, attempt: str, name: str, table: pa.Table, scope: Scope | None = None, **options: Any) -> str:
        """A file in the attempt's folder; its path relative to that folder."""
        path = f"{folder_of(scope or FullScope())}/{name}.parquet"
        file = self.table / attempt / path
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, file, **options)
        return path

    def output(self, attempt: str, files: Sequence[str], **given: Any) -> OutputToMeasure:
        staged = StagedOutput(
            location=LOCATION, staging=f"{LOCATION}/{attempt}", everything=given.pop("everything", True), scopes=given.pop("announced", []),
            partition_by=self.partition_by, table_schema=given.pop("table_schema", None), rules=given.pop("rules", []), current=given.pop("current", []),
            known=given.pop("known", []),
        )
        given.setdefault("scopes", [FullScope()])
        return OutputToMeasure(index=0, staged=staged, files=list(files), unique_key=self.unique_key, update_strategy=self.update_strategy, **given)

    def answer(self, output: OutputToMeasure, **given: Any) -> MeasureResult:
        order = MeasureOrder(
            id="1", storage={"url": self.root.resolve().as_uri()}, scratch=str(self.folder / "scratch"), outputs=[output], limits=Limits(threads=2, memory="500MB")
        )
        return measure(order, **given)

    def measured(self, output: OutputToMeasure) -> OutputMeasured:
        answer = self.answer(output)
        assert answer.refusal is None, answer.refusal
        return answer.outputs[0]

    def refused(self, output: OutputToMeasure, **given: Any) -> str:
        answer = self.answer(output, **given)
        assert answer.refusal is not None
        assert answer.outputs == []
        return answer.refusal.error_class

    def stage(self, *tables: pa.Table, **given: Any) -> OutputMeasured:
        """One attempt that wrote these tables as files and was measured."""
        attempt = self.attempt()
        return self.measured(self.output(attempt, [self.write(attempt, f"part-{number}", table) for number, table in enumerate(tables)], **given))

    def again(
        self, output: OutputToMeasure, previous: OutputMeasured, added: Sequence[TableFile], removed: Sequence[str] = (), *, known: Sequence[TableRuleState] = ()
    ) -> OutputToMeasure:
        moved = MovedOutput(index=0, added=list(added), removed=list(removed), known=list(known))
        return output.model_copy(update={"previous": previous, "moved": [*output.moved, moved]})

    def rows(self, files: Sequence[StagedFile]) -> list[dict[str, Any]]:
        return [row for file in files for row in pq.read_table(self.table / file.path, partitioning=None).to_pylist()]


def table_files(measured: OutputMeasured) -> list[TableFile]:
    return [TableFile.model_validate(file.model_dump(include=set(TableFile.model_fields))) for file in measured.files]
