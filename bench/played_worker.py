"""A worker that is the benchmark itself: it claims, writes Parquet files, and reports what is in them as measuring would."""

import secrets
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.figures import BenchFailed
from bench.system import System
from tracelake.storage.delta_schemas import delta_schema, schema_hash
from tracelake_sdk.datasets.measurements import FileStatistics, OutputMeasured, StagedFile
from tracelake_sdk.datasets.scopes import CursorScope, FullScope, folder_of
from tracelake_sdk.tasks import ClaimedTask, ClaimRequest, CompleteRequest, Completion, CompletionResult, Outcome
from tracelake_sdk.tasks.events import EventDraft

ROWS = 100  # of each file
_SCHEMA = pa.schema([("id", pa.int64()), ("batch", pa.int64())])


class PlayedWorker:
    """`tell` makes tasks, `take` claims them, `report` stages a file for one and says what it holds."""

    def __init__(self, system: System) -> None:
        self._system: System = system
        self._lake: Path = system.folder / "lake"
        self._files: int = 0
        self._schema = delta_schema(_SCHEMA)
        self._schema_hash: str = schema_hash(self._schema)

    def tell(self, dag: str, cursors: range) -> None:
        """One task of the job behind the source for each cursor."""
        self._system.client.dags.run(dag, "start", {"cursors": [cursors.start]})
        [source] = self.take(1, runtime="dispatcher")
        events = [EventDraft(output=0, scope=CursorScope(value=cursor)) for cursor in cursors]
        self._expect([Completion(fence=source.fence, outcome=Outcome.SUCCEEDED, events=events)], CompletionResult.DONE)

    def take(self, room: int, *, runtime: str = "spark") -> list[ClaimedTask]:
        request = ClaimRequest(worker="bench", claim_id=secrets.token_urlsafe(32), runtime=runtime, room={"default": room}, wait_s=0)
        claimed = self._system.as_worker.claim(request).claimed
        if len(claimed) != room:
            raise BenchFailed(f"{len(claimed)} of {room} tasks could be claimed; the logs are in {self._system.folder}")
        return claimed

    def report(self, task: ClaimedTask) -> Completion:
        """The report of an attempt whose file, with keys that no other has, is in its place."""
        staged = task.payload.outputs[0].staged
        if staged is None:
            raise BenchFailed("a task that writes files was handed out without a place for them")
        [scope] = staged.scopes or [FullScope()]
        file = self._lake / staged.staging / folder_of(scope) / "part-0.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        low, self._files = self._files * ROWS, self._files + 1
        keys = range(low, low + ROWS)
        pq.write_table(pa.table([list(keys), [scope.value if isinstance(scope, CursorScope) else 0] * ROWS], _SCHEMA), file)
        size = file.stat().st_size
        found = StagedFile(
            path=str(file.relative_to(self._lake / staged.location)), size=size, rows=ROWS, scope=scope, seal="sealed", key_min=low, key_max=low + ROWS - 1,
            statistics=FileStatistics(min={"id": low}, max={"id": low + ROWS - 1}, nulls={"id": 0, "batch": 0}),
        )  # fmt: skip
        measured = OutputMeasured(
            index=0, files=[found], scopes=[scope], table_schema=self._schema, schema_hash=self._schema_hash, rows=ROWS, bytes=size
        )
        return Completion(fence=task.fence, outcome=Outcome.SUCCEEDED, base=task.payload.base, outputs=[measured])

    def complete(self, reports: list[Completion]) -> None:
        """Raises where one of them is not allowed."""
        self._expect(reports, CompletionResult.COMMITTING)

    def complete_each(self, reports: list[Completion]) -> None:
        """One report a request, as a worker's slot does."""
        for report in reports:
            self.complete([report])

    def _expect(self, reports: list[Completion], wanted: CompletionResult) -> None:
        for answer in self._system.as_worker.complete(CompleteRequest(items=reports)).results:
            if answer.result is not wanted:
                raise BenchFailed(f"a report was answered with {answer.result} ({answer.detail}); the logs are in {self._system.folder}")
