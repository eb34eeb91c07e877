"""A control with a lake, and a worker that is the test itself: it stages Parquet files, says what is in them, and reports.

What it says of its files is what measuring would say; measuring has tests of its own.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from support.controls import ControlPlane, fresh_claim_id
from tracelake import wire_json
from tracelake.storage.delta_schemas import delta_schema, schema_hash
from tracelake.storage.paths import table_location
from tracelake_sdk.datasets.measurements import FileStatistics, OutputMeasured, StagedFile
from tracelake_sdk.datasets.scopes import FullScope, Scope, folder_of
from tracelake_sdk.rules import RuleMeasurement
from tracelake_sdk.tasks import ClaimAnswer, ClaimedTask, ClaimRequest, Completion, CompletionAnswer, Outcome

BRONZE = """
name: {name}
defaults: {{domain: test, owner: test, max_attempts: {max_attempts}}}
jobs:
  - name: load
    activation: source
    source: {{kind: manual}}
    runtime: spark
    operator: ingest_files
    config: {{path: nowhere, format: csv}}
    outputs: [{{layer: bronze, description: Rows as they came}}]
    update_strategy: append
    unique_key: [id]
publish:
  {name}_raw: {{job: load, output_index: 0}}
"""
# Append without a cursor and without turns: several tasks of it run at once.
SILVER = BRONZE.replace("publish:", """  - name: clean
    activation: reactive
    inputs: [{{from: {{job: load, output: 0}}}}]
    execution_strategy: PerUpdate
    runtime: spark
    operator: sql
    config: {{query: SELECT * FROM input_0}}
    outputs: [{{layer: silver, description: Clean rows}}]
    update_strategy: {strategy}
    {key}
publish:""")

SCHEMA = pa.schema([("id", pa.int64()), ("value", pa.string())])


class Lake(ControlPlane):
    """The steps of a worker that writes files, by hand."""

    @property
    def root(self) -> Path:
        return self.control.settings.home / "lake"

    def run(self, job: str = "load", dag: str = "sample", **request: Any) -> UUID:
        return self.services.tasks.requests.run(self.admin, dag, job, request, idempotency_key=None)

    def take(self, room: int = 10, *, claim_id: str | None = None, worker: str = "w1") -> list[ClaimedTask]:
        request = ClaimRequest(worker=worker, claim_id=claim_id or fresh_claim_id(), runtime="spark", room={"default": room}, wait_s=0)
        claimed = self.services.tasks.claims.claim(self.worker, request)
        return ClaimAnswer.model_validate_json(wire_json.encode({"claimed": claimed})).claimed

    def take_one(self) -> ClaimedTask:
        [task] = self.take(1)
        return task

    def stage(self, task: ClaimedTask, rows: Sequence[tuple[Any, ...]], *, scope: Scope | None = None, schema: pa.Schema = SCHEMA, name: str = "part-0") -> StagedFile:
        """One Parquet file in the attempt's staging folder."""
        output = task.payload.outputs[0].staged
        assert output is not None
        scope = scope or FullScope()
        folder = self.root / output.staging / folder_of(scope)
        folder.mkdir(parents=True, exist_ok=True)
        columns = list(zip(*rows, strict=True)) if rows else [[] for _ in schema]
        table = pa.table([pa.array(values, type=field.type) for values, field in zip(columns, schema, strict=True)], schema=schema)
        file = folder / f"{name}.parquet"
        pq.write_table(table, file)
        keys = [row[0] for row in rows]
        return StagedFile(
            path=str(file.relative_to(self.root / output.location)),
            size=file.stat().st_size,
            rows=len(rows),
            scope=scope,
            seal="sealed",
            key_min=min(keys, default=None),
            key_max=max(keys, default=None),
            statistics=FileStatistics(),
        )

    def measured(
        self, files: Sequence[StagedFile], *, schema: pa.Schema = SCHEMA, scopes: Sequence[Scope] | None = None, rules: Sequence[RuleMeasurement] = (), **facts: Any
    ) -> OutputMeasured:
        written = delta_schema(schema)
        return OutputMeasured(
            index=0,
            files=list(files),
            scopes=list(scopes if scopes is not None else dict.fromkeys(file.scope for file in files) or [FullScope()]),
            table_schema=written,
            schema_hash=schema_hash(written),
            rows=sum(file.rows for file in files),
            bytes=sum(file.size for file in files),
            rules=list(rules),
            **facts,
        )

    def report(self, task: ClaimedTask, *outputs: OutputMeasured, base: int | None = None, **parts: Any) -> CompletionAnswer:
        """`base`: None is the one that the claim handed out."""
        given = task.payload.base if base is None else base
        return self.complete(Completion(fence=task.fence, outcome=Outcome.SUCCEEDED, base=given, outputs=list(outputs), **parts))[0]

    def write(self, task: ClaimedTask, rows: Sequence[tuple[Any, ...]], *, scope: Scope | None = None, schema: pa.Schema = SCHEMA, **parts: Any) -> CompletionAnswer:
        """Stages the rows and reports them."""
        files = [self.stage(task, rows, scope=scope, schema=schema)] if rows else []
        scopes = [scope] if scope else None
        return self.report(task, self.measured(files, schema=schema, scopes=scopes), **parts)

    def move(self) -> int:
        """Every line as far as it goes; what waited for it gets its place."""
        moved = self.control.committer.run_once()
        self.services.tasks.reaper.place_waiting()
        return moved

    def location(self, dataset: str = "sample_raw") -> Path:
        [(org, id, version)] = self.query(
            "SELECT dataset.org_id, dataset.id, version.id FROM dataset_name AS name JOIN dataset ON dataset.id = name.dataset_id"
            " JOIN dataset_version AS version ON version.dataset_id = dataset.id WHERE name.name = %s",
            dataset,
        )
        return self.root / table_location(org, id, version)

    def location_of(self, job: str, dag: str = "sample") -> Path:
        [(org, id, version)] = self.query(
            "SELECT dataset.org_id, dataset.id, version.id FROM dataset JOIN job_key ON job_key.id = dataset.job_key_id"
            " JOIN dataset_version AS version ON version.dataset_id = dataset.id JOIN dag ON dag.id = job_key.dag_id"
            " WHERE job_key.name = %s AND dag.name = %s AND dataset.output_index = 0",
            job,
            dag,
        )
        return self.root / table_location(org, id, version)

    def rows(self, location: Path, version: int | None = None) -> list[tuple[Any, ...]]:
        """What a Delta reader sees, sorted."""
        if not (location / "_delta_log").exists():
            return []
        files = DeltaTable(str(location), version=version).file_uris()
        return sorted(row for file in files for row in self.rows_of(Path(file)))

    @staticmethod
    def rows_of(file: Path) -> list[tuple[Any, ...]]:
        """Of one file, in a table or not."""
        return [tuple(row.values()) for row in pq.read_table(file).to_pylist()]

    def states(self) -> list[tuple[str, str]]:
        return self.query("SELECT job_key.name, task.state::text FROM task JOIN generation ON generation.id = task.generation_id"
                          " JOIN job_key ON job_key.id = generation.job_key_id ORDER BY task.id")
