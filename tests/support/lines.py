"""DAGs whose tasks meet on one line, and the steps that tests of the line take together."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from support.lakes import SILVER, Lake
from tracelake_sdk.datasets.measurements import OutputMeasured, StagedFile
from tracelake_sdk.datasets.scopes import FullScope, PartitionScope, Scope
from tracelake_sdk.tasks import ClaimedTask, CompletionAnswer

# `clean` gets each version of `load`; without an execution order, several of its tasks run at once.
APPENDING = SILVER.replace("{strategy}", "append").replace("{key}", "unique_key: [id]")
REPLACING = SILVER.replace("{strategy}", "replace").replace("    {key}\n", "")

_RATES = """  - name: rates
    activation: source
    source: {{kind: manual}}
    runtime: spark
    operator: ingest_files
    config: {{path: nowhere, format: csv}}
    outputs: [{{layer: bronze, description: A lookup table}}]
    update_strategy: replace
"""
# Partitioned by a string: `load` emits partitions, which `clean` rewrites one by one; `rates` is not partitioned and triggers everything.
PARTITIONED = (
    REPLACING.replace("description: Rows as they came", "description: Rows as they came, partition_by: {{column: value}}")
    .replace("description: Clean rows", "description: Clean rows, partition_by: {{column: value}}")
    .replace("inputs: [{{from: {{job: load, output: 0}}}}]", "inputs: [{{from: {{job: load, output: 0}}}}, {{from: {{job: rates, output: 0}}}}]")
    .replace("  - name: clean", _RATES + "  - name: clean")
)
# Partitioned by a number into tens: scopes that `load` emits are widened to whole spans of `clean`.
RANGED = (
    REPLACING.replace("description: Rows as they came", "description: Rows as they came, partition_by: {{column: id, cursor: integer}}")
    .replace("description: Clean rows", "description: Clean rows, partition_by: {{column: id, cursor: integer, range_size: 10}}")
    .replace("execution_strategy: PerUpdate", "execution_strategy: PerPartition")
)


def part(key: str) -> PartitionScope:
    return PartitionScope(key=key)


def load(lake: Lake, *keys: int, job: str = "load", text: str = "a") -> None:
    """One more version of the source, with these ids."""
    lake.run(job)
    [task] = tasks_of(lake, job)
    assert lake.write(task, [(key, text) for key in keys], state={"rows": len(keys)}).result == "committing"
    move_line(lake, job)


def load_parts(lake: Lake, rows: dict[Scope, Sequence[tuple[Any, ...]]], *, job: str = "load") -> None:
    """One version of a source that is cut: an event for each scope."""
    lake.run(job)
    [task] = tasks_of(lake, job)
    files = [lake.stage(task, given, scope=scope, name=f"part-{number}") for number, (scope, given) in enumerate(rows.items())]
    assert lake.report(task, lake.measured(files), state={"rows": 1}).result == "committing"
    move_line(lake, job)


def move_line(lake: Lake, job: str) -> int:
    """This line alone; what waited for it gets its place."""
    moved = lake.control.committer.move(generation_of(lake, job))
    lake.services.tasks.reaper.place_waiting()
    return moved


def tasks_of(lake: Lake, job: str, room: int = 100) -> list[ClaimedTask]:
    """Every task of this job that can be claimed now; those of other jobs stay in the queue."""
    others = lake.query(
        "SELECT DISTINCT dag.name, job_key.name FROM task JOIN generation ON generation.id = generation_id JOIN job_key ON job_key.id = job_key_id"
        " JOIN dag ON dag.id = job_key.dag_id WHERE seq IS NOT NULL AND job_key.name <> %s",
        job,
    )
    for dag, other in others:
        lake.services.tasks.pauses.pause(lake.admin, dag, other)
    claimed = lake.take(room)
    for dag, other in others:
        lake.services.tasks.pauses.resume(lake.admin, dag, other)
    return claimed


def wanted_scopes(task: ClaimedTask) -> list[Scope]:
    staged = task.payload.outputs[0].staged
    assert staged is not None
    return staged.scopes


def rewrite(lake: Lake, task: ClaimedTask, rows: dict[Scope, Sequence[tuple[Any, ...]]], **parts: Any) -> CompletionAnswer:
    """Reports a replace of these scopes; one without rows is empty now."""
    return lake.report(task, rewritten(lake, task, rows), **parts)


def rewritten(lake: Lake, task: ClaimedTask, rows: dict[Scope, Sequence[tuple[Any, ...]]]) -> OutputMeasured:
    files: list[StagedFile] = [
        lake.stage(task, given, scope=scope, name=f"part-{number}") for number, (scope, given) in enumerate(rows.items()) if given
    ]
    return lake.measured(files, scopes=list(rows) or [FullScope()])


def versions_of(lake: Lake, job: str) -> list[int]:
    return [
        number
        for (number,) in lake.query(
            "SELECT version FROM data_version JOIN dataset ON dataset.id = dataset_id JOIN job_key ON job_key.id = job_key_id"
            " WHERE job_key.name = %s ORDER BY version",
            job,
        )
    ]


def waiting(lake: Lake, job: str) -> list[str | None]:
    """What the queued tasks of a job wait for, the oldest task first."""
    return [
        waits
        for (waits,) in lake.query(
            "SELECT task.waits::text FROM task JOIN generation ON generation.id = generation_id JOIN job_key ON job_key.id = job_key_id"
            " WHERE job_key.name = %s AND state = 'queued' ORDER BY task.id",
            job,
        )
    ]


def generation_of(lake: Lake, job: str, dag: str = "sample") -> UUID:
    return lake.one(
        "SELECT generation.id FROM generation JOIN job_key ON job_key.id = job_key_id JOIN dag ON dag.id = dag_id WHERE job_key.name = %s AND dag.name = %s",
        job, dag,
    )
